// Counts what the rows of the token table were at a time. The table is counted as it is now
// (`TableAudit`), with ages at that time; a row that registered later counts as overwritten, because a
// registration leaves no trace of what was before. Then each row and mark that the ledger names after
// the time is taken out of the counts, and its state of that time is counted instead.
//
// A row that the application inserted after the time looks like one that registered again, so both
// count as overwritten. Rows that the application itself removed since are in no record and are
// missing. Nothing is locked: transactions that commit during the audit are counted among the
// doubts.

import APNsProtocol
import Database
import TokenHygiene

/// The counts of a time in the past.
package struct PastTallies: Hashable, Sendable {
    /// The rows by app and environment of the settings.
    package var tallies: [Partition: RowTally]
    /// Rows that belong to none of them.
    package var others: Int
    /// What the ledger could not say.
    package var doubts = PastDoubts()
}

/// Counts the rows of the token table as they were at a time.
package struct PastAudit {
    private let table: TokenTable
    private let partitions: [Partition]
    private let time: EpochMilliseconds
    private let span: Int
    private let layout: TableLayout
    private let classifier: RowClassifier
    private let countsSide: Bool
    private let lookup: RowLookup

    /// The most rows of one step.
    private static let page = 500

    /// Prepares the counting; `partitions` are those of the settings, with apps by the table's value.
    /// The ledger must reach back to `time`; see `LedgerReach`.
    ///
    /// - Throws: `configuration` where the table does not fit the settings; any failure of a query.
    package init(
        _ table: TokenTable, _ partitions: [Partition], at time: EpochMilliseconds,
        span: Int = TableAudit.span
    ) throws(StoreFailure) {
        self.table = table
        self.partitions = partitions
        self.time = time
        self.span = span
        layout = try table.layout()
        classifier = try RowClassifier(layout, partitions, at: time)
        countsSide = layout.mark == nil ? try table.canReadTokenMarks() : false
        lookup = try RowLookup(
            layout, table.connection, nil, wholeRows: false, also: classifier.columns)
    }

    /// Whether the table has a time of registration. Without one, rows that registered after the
    /// time count as what they are now.
    package var knowsRegistrations: Bool { layout.registration != nil }

    /// Counts the rows; see `TableAudit.tallies`.
    ///
    /// - Returns: nil if `shouldStop` ended the counting early.
    /// - Throws: any failure of a query; `configuration` where a purge drops the entries meanwhile.
    package func tallies(
        shouldStop: () -> Bool = { false }, report: (Int) -> Void = { _ in }
    ) throws -> PastTallies? {
        let starts = ChangeStarts(session: table.session)
        let before = try starts.lastNumber()
        let audit = try TableAudit(table, partitions, at: time, overwritten: true, span: span)
        guard let (tallies, others) = try audit.tallies(shouldStop: shouldStop, report: report)
        else { return nil }
        var past = PastTallies(tallies: tallies, others: others)
        let states = try table.retries.retrying("making a temporary file for the past") {
            () throws(SQLFailure) in
            try PastStates()
        }
        let reader = PastReader(
            layout: layout, session: table.session, columns: Set(lookup.columns))
        do {
            guard
                try reader.read(
                    after: time, into: states, &past.doubts, shouldStop: shouldStop, report: report)
            else { return nil }
        } catch let failure as PastReader.Incomplete {
            throw StoreFailure(
                .configuration,
                "reading the ledger of the past: entries of transaction \(failure.number) are missing, "
                    + "because a purge dropped them; name a later time")
        }
        var position = ""
        while true {
            if shouldStop() { return nil }
            guard try table.session.waitForThrottle(shouldStop: shouldStop) else { return nil }
            let targets = try reading { () throws(SQLFailure) in
                try states.targets(after: position, limit: Self.page)
            }
            guard let last = targets.last else { break }
            try correctRows(targets.filter { $0.partition == nil }, states, &past)
            if countsSide {
                try correctMarks(targets.filter { $0.partition != nil }, states, &past)
            }
            position = last.name
        }
        past.tallies = past.tallies.mapValues(\.settled)
        past.others = max(0, past.others)
        past.doubts.during = Int(try starts.lastNumber() - before)
        return past
    }

    // MARK: Correcting

    /// Replaces rows in the counts by what they were.
    private func correctRows(
        _ targets: [PastStates.Target], _ states: PastStates, _ past: inout PastTallies
    ) throws {
        let keys = targets.compactMap { RowImageReader.key($0.key) }.filter {
            $0.count == layout.key.count
        }
        let found = try table.retries.retrying("reading rows that changed since") {
            () throws(SQLFailure) in
            try lookup.rows(keys: keys, locking: false).rows
        }
        var present: [RowContent] = []
        var former: [RowContent] = []
        for target in targets {
            let current = found[target.key].map { RowContent(lookup.columns, $0) }
            if let current { present.append(current) }
            switch target.state {
            case .whole(let content): former.append(content)
            case .changed(let part):
                if let current {
                    former.append(current.replacing(by: part))
                } else {
                    past.doubts.gone += 1
                }
            case .absent: break
            }
        }
        let now = try marks(on: present + former)
        for content in present { count(content, beside: now[content], -1, &past) }
        for content in former {
            count(content, beside: try formerMark(of: content, now[content], states), 1, &past)
        }
    }

    /// Replaces the rows of tokens whose mark beside the table changed. Rows that changed themselves
    /// are done already.
    private func correctMarks(
        _ targets: [PastStates.Target], _ states: PastStates, _ past: inout PastTallies
    ) throws {
        for (partition, targets) in Dictionary(grouping: targets, by: { $0.partition }) {
            guard let partition, partitions.contains(partition) else { continue }
            let tokens = Set(targets.compactMap(\.token)).sorted()
            let evidence = tokens.map { TokenEvidence(token: $0, time: EpochMilliseconds(0)) }
            let search = try RowLookup(
                layout, table.connection, partition, wholeRows: false, also: classifier.columns)
            let found = try table.retries.retrying("reading rows whose mark changed since") {
                () throws(SQLFailure) in
                try search.rows(for: evidence[...], locking: false).rows
            }
            var rows: [RowContent] = []
            for row in found {
                let target = PastStates.row(search.name(of: row))
                let isDone = try reading { () throws(SQLFailure) in
                    try states.state(of: target) != nil
                }
                if isDone { continue }
                rows.append(RowContent(search.columns, row.values))
            }
            let now = try marks(on: rows)
            for row in rows {
                count(row, beside: now[row], -1, &past)
                count(row, beside: try formerMark(of: row, now[row], states), 1, &past)
            }
        }
    }

    private func count(
        _ content: RowContent, beside mark: TokenMark?, _ number: Int, _ past: inout PastTallies
    ) {
        guard classifier.isCounted(content) else { return }
        guard let partition = classifier.partition(of: content) else {
            past.others += number
            return
        }
        past.tallies[partition, default: RowTally()].add(
            classifier.group(of: content, beside: mark), number)
    }

    /// Reads the temporary file.
    private func reading<R>(_ body: () throws(SQLFailure) -> R) throws(StoreFailure) -> R {
        try table.retries.retrying("reading the states of the past", body)
    }

    // MARK: Marks beside the table

    /// The present marks on the tokens of rows.
    private func marks(on rows: [RowContent]) throws(StoreFailure) -> [RowContent: TokenMark] {
        guard countsSide else { return [:] }
        var places: [Partition: [DeviceToken: [RowContent]]] = [:]
        for row in rows {
            guard let partition = classifier.partition(of: row),
                let token = classifier.token(of: row)
            else { continue }
            places[partition, default: [:]][token, default: []].append(row)
        }
        var marks: [RowContent: TokenMark] = [:]
        for (partition, tokens) in places {
            let side = InvalidTokenTable(partition: partition, connection: table.connection)
            let found = try table.retries.retrying("reading marks of \(partition)") {
                () throws(SQLFailure) in
                try side.marks(on: tokens.keys.sorted(), locking: false)
            }
            for (token, mark) in found {
                for row in tokens[token] ?? [] { marks[row] = mark }
            }
        }
        return marks
    }

    /// The mark that a row's token had at the time.
    private func formerMark(
        of row: RowContent, _ now: TokenMark?, _ states: PastStates
    ) throws(StoreFailure) -> TokenMark? {
        guard countsSide, let partition = classifier.partition(of: row),
            let token = classifier.token(of: row)
        else { return nil }
        let target = PastStates.mark(partition, RowImage.key([.bytes(token.bytes)]))
        let state = try reading { () throws(SQLFailure) in try states.state(of: target) }
        switch state {
        case nil: return now
        case .whole(let content)?, .changed(let content)?: return content.tokenMark
        case .absent?: return nil
        }
    }
}

extension PastStates.Target {
    /// The token of a mark beside the table.
    fileprivate var token: DeviceToken? {
        guard case .bytes(let bytes)? = RowImageReader.key(key)?.first else { return nil }
        return DeviceToken(bytes)
    }
}
