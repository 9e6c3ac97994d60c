import APNsProtocol
import Database
import TokenHygiene

/// One page of a removal after the grace period, in one transaction.
struct ExpiryTransaction {
    let expiry: Expiry
    let layout: TableLayout
    let connection: any SQLConnection
    /// The rows and side marks that must stay.
    let recent: RecentChanges
    /// The traversal of the table.
    let walk: KeyWalk
    /// Whether the transaction only counts and changes nothing.
    let isDry: Bool
    let marker: FeedMarker
    /// Reads the columns needed to judge a row.
    private let lookup: RowLookup
    /// Reads whole rows, for the ledger.
    private let wholeLookup: RowLookup
    private let writer: ChangeWriter
    private let ledger: ChangeLedger
    private let sideMarks: SideMarks
    private let isolation: RowIsolation

    init(
        _ expiry: Expiry, _ layout: TableLayout, _ connection: any SQLConnection,
        _ recent: RecentChanges, _ walk: KeyWalk, _ isolation: RowIsolation, isDry: Bool
    ) throws(StoreFailure) {
        let dialect = connection.dialect
        self.expiry = expiry
        self.layout = layout
        self.connection = connection
        self.recent = recent
        self.walk = walk
        self.isDry = isDry
        marker = FeedMarker(feed: expiry.feed, part: .whole, dialect: dialect)
        lookup = try RowLookup(layout, dialect, expiry.partition, wholeRows: false)
        wholeLookup = try RowLookup(layout, dialect, expiry.partition, wholeRows: true)
        self.isolation = isolation
        writer = ChangeWriter(repeatingMarksOf: layout, wholeLookup, dialect, isolation)
        ledger = ChangeLedger(
            run: expiry.run, feed: expiry.feed, part: 0, source: "", lookup: wholeLookup,
            dialect: dialect)
        sideMarks = SideMarks(
            partition: expiry.partition, source: .feedback, dialect: dialect)
    }

    /// Reads the next `size` candidates after `progress`, removes those that are due, and commits.
    /// `attempting` receives the progress that the commit will store.
    ///
    /// - Throws: a conflict if the marker has another position or a row changed after it was
    ///   judged.
    func remove(
        _ size: Int, after progress: ExpiryProgress, attempting: (ExpiryProgress) -> Void
    ) throws(SQLFailure) -> ChunkOutcome<ExpiryProgress> {
        var next = progress
        if layout.mark == nil {
            return try removeBySideMarks(size, after: progress, attempting)
        }
        let page = try page(after: progress.position, limit: size)
        next.isDone = page.isLast
        next.position = page.position
        let due = page.rows.compactMap { lookup.match($0, evidence: 0) }.filter(isDue)
        let keys = due.map { key($0, lookup) }.filter { !recent.contains(RowImage.key($0)) }
        if isDry || keys.isEmpty {
            next.rows += keys.count
            return .committed(next, entries: page.rows.count, bytes: 0)
        }
        try begin(after: progress)
        let mostBytes = size > 1 ? ChunkSizing.mostBytes : .max
        let found = try wholeLookup.rows(
            keys: keys, connection, locking: true, mostBytes: mostBytes)
        guard !found.isCutShort else {
            connection.rollBack()
            return .tooLarge(entries: size, rows: found.rows.count)
        }
        try recent.refresh(connection, withUndos: false)
        // A row that changed since the page was read is not due any more.
        let rows = found.rows.sorted { $0.key < $1.key }.compactMap { name, values in
            wholeLookup.match(values, evidence: 0).flatMap { row in
                isDue(row) && !recent.contains(name) ? row : nil
            }
        }
        let changes = rows.filter(canBeRestored).map { change($0, $0.mark) }
        for row in rows where !canBeRestored(row) {
            refuse(row, row.obstacle ?? .inexact, &next)
        }
        return try commit(changes, reasons: nil, marks: [:], &next, attempting, size, found.bytes)
    }

    private func isDue(_ row: MatchedRow) -> Bool {
        expiry.policy.isDue(
            RegisteredToken(registeredAt: row.registeredAt, invalidatedAt: row.mark),
            at: expiry.now)
    }

    /// Whether a removed row could be restored exactly.
    private func canBeRestored(_ row: MatchedRow) -> Bool {
        row.obstacle == nil && (isDry || wholeLookup.isExact(row.values, connection))
    }

    private func change(_ row: MatchedRow, _ mark: EpochMilliseconds?) -> RowChange {
        RowChange(verdict: .delete, row: row, time: mark ?? expiry.cutoff)
    }

    private func key(_ row: MatchedRow, _ lookup: RowLookup) -> [SQLValue] {
        lookup.key.map { row.values[row.values.startIndex + $0] }
    }

    private func begin(after progress: ExpiryProgress) throws(SQLFailure) {
        try connection.begin()
        guard try marker.read(connection, locking: true)?.rowsChanged == progress.changes else {
            throw SQLFailure(
                kind: .conflict, code: 0, message: "the marker was moved by another run")
        }
    }

    /// Marked rows of the next range of the key, at most `limit`. Marks in text columns are not
    /// compared in the statement, because text does not sort by its time.
    private func page(
        after position: [SQLValue], limit: Int
    ) throws(SQLFailure) -> (rows: [ArraySlice<SQLValue>], position: [SQLValue], isLast: Bool) {
        let dialect = connection.dialect
        guard let mark = layout.mark else { return ([], [], true) }
        let end = try walk.end(after: position, connection)
        let range = walk.condition(after: position, upTo: end)
        let name = dialect.quoted(mark.name)
        var sql = "\(range.sql) AND \(name) IS NOT NULL"
        var values = range.values
        if case .text = mark.storage {
        } else {
            sql += " AND \(name) <= ?"
            values.append(mark.value(mark.floor(expiry.cutoff)))
        }
        let list = lookup.columns.map(dialect.quoted).joined(separator: ", ")
        let rows = try connection.query(
            "SELECT \(list) FROM \(walk.source) WHERE \(sql)" + lookup.condition.sql
                + " ORDER BY \(walk.list) LIMIT \(limit)", values + lookup.condition.values)
        try rows.require(width: lookup.columns.count)
        let found = (0..<rows.count).map { rows.row($0) }
        guard let last = found.last, found.count == limit else {
            return (found, end ?? position, end == nil)
        }
        let places = walk.columns.compactMap { lookup.columns.firstIndex(of: $0) }
        return (found, places.map { last[last.startIndex + $0] }, false)
    }

    // MARK: Marks of the side table

    /// Old marks of the next range of tokens, at most `limit`.
    private func sideMarkPage(
        after position: SQLValue, limit: Int
    ) throws(SQLFailure) -> (tokens: [SQLValue], position: SQLValue, isLast: Bool) {
        let time = connection.dialect.ownTime("invalidated_at")
        let end = try SideMarkWalk.end(after: position, connection)
        let rows = try connection.query(
            "SELECT token FROM pushsweep_invalid WHERE token > ?\(end == nil ? "" : " AND token <= ?") "
                + "AND app = ? AND environment = ? AND invalidated_at <= ? "
                + "ORDER BY token LIMIT \(limit)",
            [position] + [end].compactMap { $0 } + [
                .text(expiry.partition.app), .text(expiry.partition.environment),
                time.value(expiry.cutoff),
            ])
        let tokens = (0..<rows.count).map { rows[$0, 0] }
        guard let last = tokens.last, tokens.count == limit else {
            return (tokens, end ?? position, end == nil)
        }
        return (tokens, last, false)
    }

    private func removeBySideMarks(
        _ size: Int, after progress: ExpiryProgress, _ attempting: (ExpiryProgress) -> Void
    ) throws(SQLFailure) -> ChunkOutcome<ExpiryProgress> {
        var next = progress
        let page = try sideMarkPage(after: progress.position.first ?? .bytes([]), limit: size)
        next.isDone = page.isLast
        next.position = [page.position]
        var tokens = page.tokens.compactMap { value -> DeviceToken? in
            guard case .bytes(let bytes) = value else { return nil }
            return recent.contains(RowImage.key([value])) ? nil : DeviceToken(bytes)
        }
        guard !tokens.isEmpty else { return .committed(next, entries: page.tokens.count, bytes: 0) }
        if !isDry { try begin(after: progress) }
        let marks = try sideMarks.states(on: tokens, connection, locking: !isDry)
        if !isDry {
            try recent.refresh(connection, withUndos: false)
            tokens.removeAll { recent.contains(RowImage.key([.bytes($0.bytes)])) }
        }
        let evidence = tokens.sorted().compactMap { token in
            marks[token].map { TokenEvidence(token: token, time: $0.time) }
        }
        let found = try (isDry ? lookup : wholeLookup).rows(
            for: evidence[...], connection, locking: !isDry,
            mostBytes: size > 1 ? ChunkSizing.mostBytes : .max)
        guard !found.isCutShort else {
            if !isDry { connection.rollBack() }
            return .tooLarge(entries: size, rows: found.rows.count)
        }
        var gone: [DeviceToken: SideMarkState] = [:]
        var kept: Set<DeviceToken> = []
        var changes: [RowChange] = []
        for row in found.rows {
            let item = evidence[row.evidence]
            let registered = RegisteredToken(
                registeredAt: row.registeredAt, invalidatedAt: item.time)
            let isRecent = recent.contains(
                RowImage.key(key(row, isDry ? lookup : wholeLookup)))
            if !isRecent && expiry.policy.isDue(registered, at: expiry.now) {
                guard canBeRestored(row) else {
                    refuse(row, row.obstacle ?? .inexact, &next)
                    kept.insert(item.token)
                    continue
                }
                changes.append(change(row, item.time))
                gone[item.token] = marks[item.token]
            } else if registered.isStale {
                kept.insert(item.token)
            }
        }
        if isDry || changes.isEmpty {
            if !isDry { connection.rollBack() }
            next.rows += changes.count
            return .committed(next, entries: page.tokens.count, bytes: found.bytes)
        }
        let reasons = changes.map { marks[evidence[$0.row.evidence].token]?.reason }
        // A mark left behind would make a returning device stale where no registration time exists.
        return try commit(
            changes, reasons: reasons, marks: gone.filter { !kept.contains($0.key) }, &next,
            attempting, size, found.bytes)
    }

    // MARK: Writing

    private func commit(
        _ changes: [RowChange], reasons: [String?]?, marks: [DeviceToken: SideMarkState],
        _ next: inout ExpiryProgress, _ attempting: (ExpiryProgress) -> Void, _ size: Int,
        _ bytes: Int
    ) throws(SQLFailure) -> ChunkOutcome<ExpiryProgress> {
        let whole = changes
        let refused = try writer.write(changes, connection)
        let staying = Set(refused.keys.compactMap { token(of: changes[$0].row) })
        let reasons = reasons?.enumerated().filter { refused[$0.offset] == nil }.map(\.element)
        let changes = changes.enumerated().filter { refused[$0.offset] == nil }.map(\.element)
        for (place, reason) in refused.sorted(by: { $0.key < $1.key }) {
            refuse(whole[place].row, reason, &next)
        }
        let removed = marks.keys.filter { !staying.contains($0) }.sorted()
        try sideMarks.remove(removed, connection)
        try ledger.write(
            changes.indices.lazy.map { index in
                var entry = ledger.entry(changes[index])
                let reason = reasons?[index] ?? reason(of: changes[index].row)
                entry.source = reason.map { String($0.prefix(64)) } ?? "unknown"
                return entry
            }, from: next.changes, connection)
        try ledger.write(
            removed.lazy.compactMap { token in
                marks[token].map { mark in
                    ChangeLedger.Entry(
                        action: "side-restore", key: RowImage.key([.bytes(token.bytes)]),
                        before: .text(RowImage.step(before: RowContent(mark), after: nil)),
                        time: mark.time, source: mark.reason ?? "unknown")
                }
            }, from: next.changes + changes.count, connection)
        next.rows += changes.count
        next.changes += changes.count + removed.count
        try marker.update(
            FeedProgress(rowsChanged: next.changes, isApplied: true), run: expiry.run, layout,
            connection)
        attempting(next)
        try expiry.lease?.hold(connection)
        do {
            try connection.commit()
        } catch {
            isolation.noteCommit(
                error, entries: size, rows: changes.map(writer.statements.name))
            throw error
        }
        return .committed(next, entries: size, bytes: bytes)
    }

    /// Counts a row that is due and stays.
    private func refuse(
        _ row: MatchedRow, _ reason: RowRefusal, _ next: inout ExpiryProgress
    ) {
        next.refused += 1
        guard next.firstRefused == nil else { return }
        next.firstRefused = RefusedChange(
            feed: expiry.feed, key: RowImage.key(key(row, isDry ? lookup : wholeLookup)),
            reason: reason, time: row.mark ?? expiry.cutoff)
    }

    private func token(of row: MatchedRow) -> DeviceToken? {
        layout.token.token(row.values[row.values.startIndex + wholeLookup.token])
    }

    private func reason(of row: MatchedRow) -> String? {
        wholeLookup.reason.flatMap { row.values[row.values.startIndex + $0].text }
    }
}
