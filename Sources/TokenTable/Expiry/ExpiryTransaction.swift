import APNsProtocol
import Database
import Findings
import TokenHygiene

/// Removes the due rows of one page in one transaction (see `ChangeSet`).
struct ExpiryTransaction {
    let expiry: Expiry
    let checkpoint: FeedCheckpoint
    private let layout: TableLayout
    /// The rows and token marks that must stay.
    private let recent: RecentChanges
    /// The order and the ranges in which the table is read.
    private let ranges: KeyRanges
    /// Whether the transaction only counts and changes nothing.
    private let isDry: Bool
    /// Reads the columns needed to judge a row.
    private let lookup: RowLookup
    /// Changes whole rows, which the ledger needs.
    private let transaction: ChangeTransaction
    private let ledger: ChangeLedger
    private let tokenMarks: InvalidTokenTable

    private var connection: any SQLConnection { lookup.connection }
    private var wholeLookup: RowLookup { transaction.lookup }
    private var judging: RowLookup { isDry ? lookup : wholeLookup }

    /// Prepares the transactions of one removal. `isolation` is shared with the loop that tries
    /// them.
    init(
        _ expiry: Expiry, _ table: TokenTable, keeping recent: RecentChanges, isDry: Bool,
        _ isolation: RowIsolation
    ) throws(StoreFailure) {
        let connection = table.connection
        let partition = expiry.partition
        self.expiry = expiry
        self.recent = recent
        self.isDry = isDry
        layout = try table.layout()
        ranges = try KeyRanges(layout, table.catalogTable(), connection, namedOnly: true)
        checkpoint = FeedCheckpoint(feed: expiry.feed, connection: connection)
        lookup = try RowLookup(layout, connection, partition, wholeRows: false)
        let wholeLookup = try RowLookup(layout, connection, partition, wholeRows: true)
        transaction = ChangeTransaction(
            lookup: wholeLookup, writer: ChangeWriter(repeatingMarks: wholeLookup, isolation),
            isolation: isolation, lease: expiry.lease)
        ledger = ChangeLedger(
            run: expiry.run, feed: expiry.feed, part: 0, source: "", lookup: wholeLookup)
        tokenMarks = InvalidTokenTable(partition: partition, connection: connection)
    }

    /// Whether the last page was left alone, because the table has other columns than the layout.
    var isOutdated: Bool { transaction.isOutdated }

    /// Reads the next `size` candidates after `progress`, removes those that are due, and commits.
    /// `attempting` receives the progress that the commit will store.
    ///
    /// - Throws: a conflict if the checkpoint has another position or a row changed after it was
    ///   judged.
    func remove(
        _ size: Int, after progress: ExpiryProgress, attempting: (ExpiryProgress) -> Void
    ) throws(SQLFailure) -> ChunkOutcome<ExpiryProgress> {
        var next = progress
        guard let mark = layout.mark else {
            return try removeByTokenMarks(size, after: progress, attempting)
        }
        let page = try page(
            ranges, lookup.columns, after: progress.position, isMarked(mark), limit: size)
        next.isDone = page.isLast
        next.position = page.position
        let due = page.rows.compactMap { lookup.match($0, evidence: 0) }.filter(isDue)
        let keys = due.map(lookup.key(of:)).filter { !recent.contains(RowImage.key($0)) }
        if isDry || keys.isEmpty {
            next.rows += keys.count
            return .committed(next, entries: page.rows.count, bytes: 0)
        }
        try begin(after: progress)
        let mostBytes = size > 1 ? ChunkSizing.mostBytes : .max
        let found = try wholeLookup.rows(
            keys: keys, locking: true, mostBytes: mostBytes)
        guard !found.isCutShort else {
            return .tooLarge(entries: size, rows: found.rows.count)
        }
        try recent.refresh()
        // A row that changed since the page was read is not due any more.
        let rows = found.rows.sorted { $0.key < $1.key }.compactMap { name, values in
            wholeLookup.match(values, evidence: 0).flatMap { row in
                isDue(row) && !recent.contains(name) ? row : nil
            }
        }
        var changes = ChangeSet()
        for row in rows { add(row, markedAt: row.mark, by: reason(of: row), to: &changes) }
        return try commit(
            changes, from: progress, after: next, entries: size, bytes: found.bytes, attempting)
    }

    /// The progress by the checkpoint after a chunk whose outcome is not known: `start` or what was
    /// attempted.
    func committed(
        after start: ExpiryProgress, _ attempted: ExpiryProgress
    ) throws(SQLFailure) -> ExpiryProgress {
        try checkpoint.read(locking: false)?.rowsChanged == attempted.changes ? attempted : start
    }

    private func isDue(_ row: MatchedRow) -> Bool {
        expiry.policy.isDue(row.judged(markedAt: nil), at: expiry.now)
    }

    /// Adds the removal of a row to a set, or the row to its refused ones where it could not be
    /// restored exactly. `source` is the reason of its mark.
    private func add(
        _ row: MatchedRow, markedAt mark: EpochMilliseconds?, by source: String?,
        to changes: inout ChangeSet
    ) {
        let time = mark ?? expiry.cutoff
        if row.obstacle == nil && (isDry || wholeLookup.isExact(row.values)) {
            changes.rows.append(
                RowChange(
                    verdict: .delete, row: row, time: time,
                    source: source.map { String($0.prefix(64)) } ?? "unknown"))
        } else {
            changes.refused.append(
                RefusedRow(row: row, reason: row.obstacle ?? .inexact, time: time))
        }
    }

    private func begin(after progress: ExpiryProgress) throws(SQLFailure) {
        try transaction.begin { () throws(SQLFailure) in
            try checkpoint.read(locking: true)?.rowsChanged == progress.changes
        }
    }

    /// Rows of the next range of a key with some columns, at most `limit`.
    private func page(
        _ ranges: KeyRanges, _ columns: [String], after position: [SQLValue],
        _ condition: BoundSQL, limit: Int
    ) throws(SQLFailure) -> (rows: [ArraySlice<SQLValue>], position: [SQLValue], isLast: Bool) {
        let end = try ranges.end(after: position)
        let rows = try ranges.query(
            columns.map(connection.dialect.quoted).joined(separator: ", "),
            in: ranges.condition(after: position, upTo: end), condition,
            " ORDER BY \(ranges.list) LIMIT \(limit)")
        try rows.require(width: columns.count)
        let found = (0..<rows.count).map { rows.row($0) }
        guard let last = found.last, found.count == limit else {
            return (found, end ?? position, end == nil)
        }
        let places = ranges.columns.compactMap { columns.firstIndex(of: $0) }
        return (found, places.map { last[last.startIndex + $0] }, false)
    }

    /// The marked rows whose mark may be old enough. Marks in text columns are not compared in the
    /// statement, because text does not sort by its time.
    private func isMarked(_ mark: TimeColumn) -> BoundSQL {
        let name = connection.dialect.quoted(mark.name)
        var (sql, values) = (" AND \(name) IS NOT NULL", [SQLValue]())
        if case .text = mark.storage {
        } else {
            sql += " AND \(name) <= ?"
            values.append(mark.value(mark.floor(expiry.cutoff)))
        }
        return (sql + lookup.condition.sql, values + lookup.condition.values)
    }

    // MARK: Marks of the side table

    /// The old marks of the partition.
    private var isOldMark: BoundSQL {
        let time = connection.dialect.ownTime("invalidated_at")
        return (
            "\(tokenMarks.condition.sql) AND invalidated_at <= ?",
            tokenMarks.condition.values + [time.value(expiry.cutoff)]
        )
    }

    /// Locks marks after their rows, the order in which a sender that applies its answers locks them:
    /// where rows are on other servers, no server sees that two transactions wait for each other.
    ///
    /// - Returns: those that are as they were read; one that was set anew is not due any more.
    private func lockedMarks(
        _ marks: [DeviceToken: TokenMark]
    ) throws(SQLFailure) -> [DeviceToken: TokenMark] {
        let locked = try tokenMarks.marks(on: marks.keys.sorted(), locking: true)
        return marks.filter { locked[$0.key] == $0.value }
    }

    private func removeByTokenMarks(
        _ size: Int, after progress: ExpiryProgress, _ attempting: (ExpiryProgress) -> Void
    ) throws(SQLFailure) -> ChunkOutcome<ExpiryProgress> {
        var next = progress
        let page = try page(
            KeyRanges(ofTokenMarks: connection), ["token"], after: progress.position, isOldMark,
            limit: size)
        next.isDone = page.isLast
        next.position = page.position
        let tokens = page.rows.compactMap { row -> DeviceToken? in
            guard case .bytes(let bytes)? = row.first else { return nil }
            return recent.contains(RowImage.key(Array(row))) ? nil : DeviceToken(bytes)
        }
        guard !tokens.isEmpty else { return .committed(next, entries: page.rows.count, bytes: 0) }
        if !isDry { try begin(after: progress) }
        var marks = try tokenMarks.marks(on: tokens, locking: false)
        let evidence = tokens.sorted().compactMap { token in
            marks[token].map { TokenEvidence(token: token, time: $0.time) }
        }
        let found = try judging.rows(
            for: evidence[...], locking: !isDry,
            mostBytes: size > 1 ? ChunkSizing.mostBytes : .max)
        guard !found.isCutShort else {
            return .tooLarge(entries: size, rows: found.rows.count)
        }
        if !isDry {
            marks = try lockedMarks(marks)
            try recent.refresh()
        }
        var (changes, kept) = due(found.rows, evidence, marks)
        if isDry || changes.rows.isEmpty {
            if !isDry { connection.rollBack() }
            next.rows += changes.rows.count
            count(changes.refused, in: &next)
            return .committed(next, entries: page.rows.count, bytes: found.bytes)
        }
        // A mark left behind would make a returning device stale where no registration time exists.
        let gone = Set(changes.rows.map { evidence[$0.row.evidence].token }).subtracting(kept)
        changes.tokenMarks = gone.sorted().map {
            TokenMarkChange(token: $0, former: marks[$0], mark: nil)
        }
        return try commit(
            changes, from: progress, after: next, entries: size, bytes: found.bytes, attempting)
    }

    /// The removals that are due by marks beside the table, and the tokens with a row that stays.
    private func due(
        _ rows: [MatchedRow], _ evidence: [TokenEvidence], _ marks: [DeviceToken: TokenMark]
    ) -> (changes: ChangeSet, kept: Set<DeviceToken>) {
        var changes = ChangeSet()
        var kept: Set<DeviceToken> = []
        for row in rows {
            let item = evidence[row.evidence]
            guard let mark = marks[item.token],
                !recent.contains(RowImage.key([.bytes(item.token.bytes)]))
            else { continue }
            let registered = row.judged(markedAt: item.time)
            let isDue = expiry.policy.isDue(registered, at: expiry.now)
            if isDue && !recent.contains(judging.name(of: row)) {
                let refused = changes.refused.count
                add(row, markedAt: item.time, by: mark.reason, to: &changes)
                if changes.refused.count > refused { kept.insert(item.token) }
            } else if registered.isStale {
                kept.insert(item.token)
            }
        }
        return (changes, kept)
    }

    // MARK: Writing

    private func commit(
        _ changes: ChangeSet, from start: ExpiryProgress, after progress: ExpiryProgress,
        entries: Int, bytes: Int, _ attempting: (ExpiryProgress) -> Void
    ) throws(SQLFailure) -> ChunkOutcome<ExpiryProgress> {
        if try transaction.isOutdated(by: changes.rows) {
            connection.rollBack()
            return .committed(start, entries: 0, bytes: 0)
        }
        var (changes, next) = (changes, progress)
        let refused = changes.refuse(at: try transaction.writer.write(changes.rows))
        let staying = Set(refused.compactMap { token(of: $0.row) })
        changes.tokenMarks.removeAll { staying.contains($0.token) }
        try ledger.write(changes, from: next.changes)
        count(changes.refused, in: &next)
        next.rows += changes.rows.count
        next.changes += changes.count
        attempting(next)
        let written = LedgerRange(
            run: expiry.run, feed: expiry.feed, part: 0, partition: expiry.partition,
            source: Expiry.source, first: progress.changes, count: changes.count)
        let reached = FeedProgress(rowsChanged: next.changes, isApplied: true)
        try transaction.commit([written], entries: entries) {
            transaction.names(changes)
        } moving: { () throws(SQLFailure) in
            try tokenMarks.write(changes.tokenMarks)
            try checkpoint.update(reached, run: expiry.run, layout)
        }
        return .committed(next, entries: entries, bytes: bytes)
    }

    /// Counts rows that are due and stay.
    private func count(_ refused: [RefusedRow], in next: inout ExpiryProgress) {
        next.refused += refused.count
        guard next.firstRefused == nil, let first = refused.first else { return }
        let key = LedgerKey(judging.name(of: first.row), of: token(of: first.row))
        next.firstRefused = LedgerEntry.refusal(of: key, because: first.reason)
    }

    private func token(of row: MatchedRow) -> DeviceToken? {
        layout.token.token(row[judging.token])
    }

    /// The reason of the mark in a row that was read whole.
    private func reason(of row: MatchedRow) -> String? {
        wholeLookup.reason.flatMap { row[$0].text }
    }
}
