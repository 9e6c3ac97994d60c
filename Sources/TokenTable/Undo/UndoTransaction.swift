import APNsProtocol
import Database
import Encodings
import Findings
import TokenHygiene

/// Undoes one chunk in one transaction (see `ChangeSet`). All chosen entries of a row are undone in
/// sequence.
struct UndoTransaction {
    /// What an undo does.
    struct Work {
        let plan: UndoPlan
        let run: String
        /// The parts of the undo, each with its app and environment; none in a dry run.
        var parts: [(part: LedgerPart, partition: Partition)]
        /// Whether a token can be in one row of a partition only.
        let tokensAreUnique: Bool
        /// Whether the undo changes nothing and needs only the right to read.
        let isDry: Bool
        /// The lease that every transaction requires to be in force; nil where there is none.
        let lease: Lease?
        /// The clock for the end of the record.
        let now: () -> EpochMilliseconds
    }

    let checkpoint: UndoCheckpoint
    let work: Work
    private let transaction: ChangeTransaction

    var plan: UndoPlan { work.plan }
    var isDry: Bool { work.isDry }
    var lookup: RowLookup { transaction.lookup }
    var layout: TableLayout { lookup.layout }
    private var connection: any SQLConnection { lookup.connection }
    private var writer: ChangeWriter { transaction.writer }

    /// Prepares the transactions of one undo. `isolation` is shared with the loop that tries them.
    init(
        _ work: Work, _ table: TokenTable, _ isolation: RowIsolation
    ) throws(StoreFailure) {
        self.work = work
        checkpoint = UndoCheckpoint(run: work.run, connection: table.connection)
        let use = TableUse.undo(actions: work.plan.actions, isDry: work.isDry)
        let layout = try table.layout()
        let isWhole = use.rows?.readsWholeRows ?? false
        // An image may have a column that is generated since, or one that is no longer mapped.
        let lookup = try RowLookup(
            layout, table.connection, nil, wholeRows: isWhole,
            changesRows: use.changesRows(of: layout),
            also: isWhole ? layout.generated : [])
        transaction = ChangeTransaction(
            lookup: lookup, writer: ChangeWriter(repeatingMarks: lookup, isolation),
            isolation: isolation, lease: work.lease)
    }

    /// Whether the last chunk was left alone, because the table has other columns than the layout.
    var isOutdated: Bool { transaction.isOutdated }

    /// Undoes the next rows after `progress`, at most `size`, and commits.
    ///
    /// - Throws: a conflict if the checkpoint has another position.
    func undo(
        _ size: Int, after progress: UndoProgress
    ) throws(SQLFailure) -> ChunkOutcome<UndoProgress> {
        let isAgain = progress.again != nil
        let targets = try plan.targets(
            after: progress.position, limit: size, waitingOnly: isAgain)
        let mostBytes = targets.count > 1 ? ChunkSizing.mostBytes : .max
        let entries = targets.flatMap(\.entries)
        guard
            let images = try LedgerReader(connection: connection)
                .images(of: entries, mostBytes: mostBytes)
        else {
            return .tooLarge(entries: targets.count, rows: targets.count)
        }
        if !isDry {
            try transaction.begin { () throws(SQLFailure) in
                try checkpoint.read(locking: true) == progress
            }
        }
        let found = try lookup.rows(
            keys: targets.filter { !$0.isTokenMark }.compactMap {
                RowImageReader.key($0.key)
            }.filter { $0.count == layout.key.count }, locking: !isDry,
            mostBytes: mostBytes)
        guard !found.isCutShort else {
            return .tooLarge(entries: targets.count, rows: found.rows.count)
        }
        var undone = rows(targets, images, found)
        undone += try tokenMarks(targets.filter(\.isTokenMark), images)
        try yieldToTakenTokens(&undone)
        try yieldToLaterMarks(&undone)
        if isAgain { undone.removeAll { !$0.isWhole } }
        var next = progress
        next.position = targets.last?.name.string ?? progress.position
        next.isDone = targets.isEmpty
        if targets.isEmpty, try plan.goesAgain {
            (next.again, next.position, next.isDone) = ((next.again ?? 0) + 1, nil, false)
        }
        if isDry {
            tally(undone, into: &next)
        } else {
            guard let written = try write(&undone, &next) else {
                connection.rollBack()
                return .committed(progress, entries: 0, bytes: 0)
            }
            if let time = try noteSpared(undone) { next.noted(at: time) }
            try commit(undone, written, next)
            try plan.note(
                waiting: undone.filter(\.isWaiting).map(\.target.name),
                done: isAgain ? undone.filter(\.isChanged).map(\.target.name) : [],
                passIsOver: targets.isEmpty)
        }
        return .committed(next, entries: targets.count, bytes: found.bytes)
    }

    // MARK: Reading

    private func rows(
        _ targets: [UndoTarget], _ images: [LedgerEntry.ID: String],
        _ found: FoundRows<[ExactText: ArraySlice<SQLValue>]>
    ) -> [Undone] {
        targets.filter { !$0.isTokenMark }.map { target in
            let values = found.rows[target.key]
            let current = values.map { RowContent(lookup.columns, $0) }
            let reading = ContentReading(
                registeredAt: { $0.flatMap(lookup.registration) },
                token: { $0[layout.token.name].flatMap(layout.token.token) })
            let row = undoneRow(target, from: current, images, reading)
            return Undone(target: target, current: current, values: values, row: row)
        }
    }

    private func undoneRow(
        _ target: UndoTarget, from current: RowContent?, _ images: [LedgerEntry.ID: String],
        _ reading: ContentReading
    ) -> UndoneRow {
        var row = UndoneRow(current)
        var changes: [ChangeImages] = []
        for entry in target.entries {
            let image = images[entry.id]
            if let change = ChangeImages(entry, image: image, layout) {
                changes.append(change)
            } else {
                let isForeign = ChangeImages.isForeign(entry, image: image, layout)
                if !entry.isCompanion { row.keep(isForeign ? .foreign : .unreadable) }
            }
        }
        row.undo(changes, reading)
        return row
    }

    /// Undoes the entries of marks in the side table. A mark stays where every row with the token
    /// registered later.
    private func tokenMarks(
        _ targets: [UndoTarget], _ images: [LedgerEntry.ID: String]
    ) throws(SQLFailure) -> [Undone] {
        var undone: [Undone] = []
        for (partition, targets) in Dictionary(grouping: targets, by: \.partition) {
            let tokens = targets.compactMap(\.token).sorted()
            let marks = try invalidTokens(of: partition).marks(on: tokens, locking: !isDry)
            let latest = try registrations(of: tokens, in: partition)
            for target in targets {
                let current = target.token.flatMap { marks[$0] }.map { RowContent($0) }
                let registered = target.token.flatMap { latest[$0] }
                let reading = ContentReading(
                    registeredAt: { _ in registered }, token: { _ in target.token })
                let row = undoneRow(target, from: current, images, reading)
                undone.append(
                    Undone(
                        target: target, current: current, values: nil, row: row,
                        registered: registered))
            }
        }
        return undone
    }

    func invalidTokens(of partition: Partition) -> InvalidTokenTable {
        InvalidTokenTable(partition: partition, connection: connection)
    }

    /// The earliest registration among the rows of each token.
    private func registrations(
        of tokens: [DeviceToken], in partition: Partition
    ) throws(SQLFailure) -> [DeviceToken: EpochMilliseconds] {
        var earliest: [DeviceToken: EpochMilliseconds] = [:]
        for (token, row) in try rows(with: tokens, in: partition) {
            let registered = row.registeredAt ?? EpochMilliseconds(.min)
            earliest[token] = min(earliest[token] ?? registered, registered)
        }
        return earliest
    }

    func rows(
        with tokens: [DeviceToken], in partition: Partition
    ) throws(SQLFailure) -> [(DeviceToken, MatchedRow)] {
        let evidence = Set(tokens).sorted().map {
            TokenEvidence(token: $0, time: EpochMilliseconds(0))
        }
        // A partition that the table cannot express has no rows.
        guard !evidence.isEmpty,
            let lookup = try? RowLookup(layout, connection, partition, wholeRows: false)
        else { return [] }
        return try lookup.rows(for: evidence[...], locking: false).rows.map {
            (evidence[$0.evidence].token, $0)
        }
    }

    // MARK: Writing

    /// Makes the changes, and returns which entries of the ledger describe them; nil where rows would be
    /// removed and the table has other columns than the layout.
    private func write(
        _ undone: inout [Undone], _ next: inout UndoProgress
    ) throws(SQLFailure) -> [LedgerRange]? {
        try insert(&undone)
        guard try removeAndMark(&undone) else { return nil }
        try keepMarksOfDeadRows(&undone)
        try keepMarksFromLivingRows(&undone)
        let changed = undone.filter(\.isChanged)
        var number = next.rowsChanged
        var written: [LedgerRange] = []
        for (part, items) in Dictionary(grouping: changed, by: part).sorted(by: {
            $0.key.number < $1.key.number
        }) {
            let ledger = ChangeLedger(
                part: part, source: LedgerEntry.undoSource, lookup: lookup)
            try ledger.write(items.lazy.map(entry), from: number)
            written.append(
                LedgerRange(
                    part, partition: items[0].target.partition, source: LedgerEntry.undoSource,
                    first: number,
                    count: items.count))
            number += items.count
        }
        tally(undone, into: &next)
        return written
    }

    /// The part of the undo to which the change of a target belongs. One that was begun has those of its plan then.
    private func part(of item: Undone) -> LedgerPart {
        (work.parts.first { $0.partition == item.target.partition } ?? work.parts.first)?.part
            ?? LedgerPart(run: work.run, number: 0)
    }

    /// Commits the changes with the marks of the side table and the checkpoint.
    private func commit(
        _ undone: [Undone], _ written: [LedgerRange], _ next: UndoProgress
    ) throws(SQLFailure) {
        let changed = undone.filter(\.isChanged)
        try transaction.commit(written, entries: undone.count) {
            changed.map(\.target.key)
        } moving: { () throws(SQLFailure) in
            for (partition, items) in Dictionary(
                grouping: changed.filter(\.target.isTokenMark), by: \.target.partition)
            {
                try invalidTokens(of: partition).write(items.compactMap(\.tokenMarkChange))
            }
            try takeBack(undone)
            try checkpoint.update(next, ended: next.isDone ? work.now() : nil)
        }
    }

    /// Keeps the time in the side table that belongs to a column of two values, where the rows have stayed
    /// dead: without it nothing says that they are so by a mark of ours. Rows come before these times.
    private func keepMarksOfDeadRows(_ undone: inout [Undone]) throws(SQLFailure) {
        guard layout.living != nil else { return }
        var removed: [Partition: [DeviceToken: Int]] = [:]
        for (index, item) in undone.enumerated()
        where item.target.isTokenMark && item.isChanged && item.row.state == nil
            && item.target.entries.allSatisfy(\.isCompanion)
        {
            guard let token = item.target.token else { continue }
            removed[item.target.partition, default: [:]][token] = index
        }
        for (partition, indexes) in removed {
            var areDead: [DeviceToken: Bool] = [:]
            for (token, row) in try rows(with: Array(indexes.keys), in: partition) {
                areDead[token] = areDead[token] != false && row.isDead == true
            }
            for (token, index) in indexes where areDead[token] == true {
                undone[index].row.keepAll(.changed, current: undone[index].current)
            }
        }
    }

    private func insert(_ undone: inout [Undone]) throws(SQLFailure) {
        var rows: [RowContent] = []
        var places: [Int] = []
        for (index, item) in undone.enumerated()
        where !item.target.isTokenMark && item.current == nil {
            guard let content = item.row.state else { continue }
            rows.append(content)
            places.append(index)
        }
        guard !rows.isEmpty else { return }
        let insertion = RowInsertion(lookup: lookup, isolation: transaction.isolation)
        for (place, refusal) in try insertion.insert(rows) {
            undone[places[place]].refuse(refusal)
        }
    }

    /// Removes rows that an undo had inserted, and restores marks. Rows that refuse it stay
    /// unchanged. Returns false where nothing may be removed, because the layout is outdated.
    private func removeAndMark(_ undone: inout [Undone]) throws(SQLFailure) -> Bool {
        var removed: [(place: Int, change: RowChange)] = []
        var marked: [RowContent: [(place: Int, change: RowChange)]] = [:]
        for (place, item) in undone.enumerated()
        where item.isChanged && !item.target.isTokenMark {
            guard let values = item.values else { continue }
            let row = MatchedRow(evidence: 0, values: values, registeredAt: nil, mark: nil)
            let time = item.row.time ?? EpochMilliseconds(0)
            if let state = item.row.state {
                let names = layout.markColumns
                let content = RowContent(names, names.map { state[$0] ?? .null })
                marked[content, default: []].append(
                    (place, RowChange(verdict: .mark, row: row, time: time)))
            } else if lookup.isExact(values) {
                removed.append((place, RowChange(verdict: .delete, row: row, time: time)))
            } else {
                undone[place].refuse(.inexact)
            }
        }
        if try transaction.isOutdated(by: removed.map(\.change)) { return false }
        for (index, refusal) in try writer.write(removed.map(\.change)) {
            undone[removed[index].place].refuse(refusal)
        }
        for (content, items) in marked {
            for (index, refusal) in try writer.restore(content, in: items.map(\.change)) {
                undone[items[index].place].refuse(refusal)
            }
        }
        return true
    }

    /// The ledger entry for a change of this undo.
    private func entry(_ item: Undone) -> ChangeLedger.Entry {
        let (before, after) = (item.current, item.row.state)
        let action: String
        let image: String
        if item.target.isTokenMark {
            action = "side-restore"
            image = RowImage.pair(before: before, after: after)
        } else if let before, after == nil {
            action = "delete"
            image = RowImage.object(lookup.imaged, before.values)
        } else if before == nil {
            action = "insert"
            image = RowImage.pair(before: nil, after: after)
        } else {
            let names = layout.markColumns
            func marks(_ content: RowContent?) -> RowContent {
                RowContent(names, names.map { content?[$0] ?? .null })
            }
            action = "restore"
            image = RowImage.pair(before: marks(before), after: marks(after))
        }
        let isMark = item.target.isTokenMark
        return ChangeLedger.Entry(
            action: action, key: item.target.key, before: .text(image),
            time: item.row.time ?? EpochMilliseconds(0),
            token: isMark ? item.target.token?.bytes : lookup.ledgerToken(of: after ?? before),
            state: isMark
                ? lookup.tokenMarkState(after == nil ? .valid : .invalid)
                : lookup.ledgerState(of: after))
    }

    /// Whether only trying shows that the table takes the change of a row: it is inserted or removed, or a
    /// trigger or a rule may refuse it.
    private func needsTrial(_ item: Undone) -> Bool {
        guard item.isChanged, !item.target.isTokenMark else { return false }
        return item.isWhole || layout.mayHaveUpdateTriggers || layout.marksMayBeRefused
    }

    private func tally(_ undone: [Undone], into next: inout UndoProgress) {
        for item in undone {
            if next.again != nil {
                // The first pass has counted it as refused.
                guard item.isChanged else { continue }
                next.keep(.refused, -item.row.restored)
            }
            let isUntried = isDry && needsTrial(item)
            if isUntried {
                next.untried = (next.untried ?? 0) + item.row.restored
            } else {
                next.restored += item.row.restored
            }
            if next.again == nil {
                next.already += item.row.already
                for (obstacle, count) in item.row.kept { next.keep(obstacle, count) }
            }
            guard item.isChanged, !isUntried else { continue }
            next.rowsChanged += 1
            if item.row.takesCompanionBack { next.companions = (next.companions ?? 0) + 1 }
            guard !item.target.isTokenMark else { continue }
            if item.current == nil { next.inserted += 1 }
            if item.row.state == nil { next.removed += 1 }
        }
    }
}
