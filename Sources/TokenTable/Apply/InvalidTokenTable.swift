import APNsProtocol
import Database
import TokenHygiene

/// A mark in `pushsweep_invalid`.
struct TokenMark: Hashable, Sendable {
    /// The time of the evidence that made the token invalid.
    let time: EpochMilliseconds
    let reason: String?
}

/// A change of one token's mark in `pushsweep_invalid`.
struct TokenMarkChange {
    let token: DeviceToken
    /// The mark before; nil for a first mark.
    let former: TokenMark?
    /// The mark after; nil: it is removed.
    let mark: TokenMark?
}

/// The side table `pushsweep_invalid`, for token tables without a mark column: one mark per token,
/// app and environment. A mark is judged together with the row's registration, like a mark in the
/// row.
struct InvalidTokenTable {
    let partition: Partition
    let connection: any SQLConnection

    private var dialect: SQLDialect { connection.dialect }
    private var place: [SQLValue] { [.text(partition.app), .text(partition.environment)] }

    /// The longest token that the table can hold, in bytes. Rows with longer ones cannot be marked.
    static let longestToken = 1_024

    /// Whether the partition has any mark.
    func hasAny() throws(SQLFailure) -> Bool {
        try connection.query(
            "SELECT 1 FROM pushsweep_invalid WHERE app = ? AND environment = ? LIMIT 1", place
        ).count > 0
    }

    /// The marks on some tokens.
    func marks(
        on tokens: [DeviceToken], locking: Bool
    ) throws(SQLFailure) -> [DeviceToken: TokenMark] {
        var marks: [DeviceToken: TokenMark] = [:]
        for run in tokens.runs(of: StatementShape.longest) {
            let values = StatementShape.padded(run.map { SQLValue.bytes($0.bytes) })
            let rows = try connection.query(
                "SELECT token, invalidated_at, reason FROM pushsweep_invalid WHERE token IN "
                    + "(\(placeholders(values.count))) AND app = ? AND environment = ?"
                    + (locking ? dialect.rowLock : ""), values + place)
            for row in 0..<rows.count {
                guard case .bytes(let bytes) = rows[row, 0], let token = DeviceToken(bytes) else {
                    continue
                }
                marks[token] = dialect.ownTime("invalidated_at").mark(rows[row, 1]).map {
                    TokenMark(time: $0, reason: rows[row, 2].text)
                }
            }
        }
        return marks
    }

    /// The marks on the tokens of rows that were found for evidence.
    func marks(
        of rows: [MatchedRow], in evidence: ArraySlice<TokenEvidence>, locking: Bool
    ) throws(SQLFailure) -> [DeviceToken: TokenMark] {
        try marks(
            on: Set(rows.map(\.evidence)).map { evidence[$0].token }.sorted(), locking: locking)
    }

    /// Sets, moves and removes marks.
    func write(_ changes: [TokenMarkChange]) throws(SQLFailure) {
        try remove(changes.filter { $0.mark == nil }.map(\.token))
        let time = dialect.ownTime("invalidated_at")
        for run in changes.filter({ $0.mark != nil }).runs(of: StatementShape.longestLinear) {
            let rows = StatementShape.padded(run)
            let sql = dialect.upsert(
                "pushsweep_invalid", key: ["token", "app", "environment"],
                columns: ["invalidated_at", "reason"], rows: rows.count)
            var values: [SQLValue] = []
            for change in rows {
                values.append(.bytes(change.token.bytes))
                values += place
                values.append(change.mark.map { time.value($0.time) } ?? .null)
                values.append(change.mark?.reason.map(SQLValue.text) ?? .null)
            }
            _ = try connection.execute(sql, values)
        }
    }

    private func remove(_ tokens: [DeviceToken]) throws(SQLFailure) {
        for run in tokens.runs(of: StatementShape.longest) {
            let values = StatementShape.padded(run.map { SQLValue.bytes($0.bytes) })
            _ = try connection.execute(
                "DELETE FROM pushsweep_invalid WHERE token IN (\(placeholders(values.count))) "
                    + "AND app = ? AND environment = ?", values + place)
        }
    }

    // MARK: Ranges of tokens

    /// The tokens in a range with a mark up to a time, at most `limit`, in their order. `end` is the
    /// last token of the range; nil for all after `position`.
    func tokens(
        after position: SQLValue, upTo end: SQLValue?, markedUntil cutoff: EpochMilliseconds,
        limit: Int
    ) throws(SQLFailure) -> [SQLValue] {
        let time = dialect.ownTime("invalidated_at")
        let range = range(after: position, upTo: end)
        let rows = try connection.query(
            "SELECT token \(range.sql) AND invalidated_at <= ? ORDER BY token LIMIT \(limit)",
            range.values + [time.value(cutoff)])
        return (0..<rows.count).map { rows[$0, 0] }
    }

    /// The tokens with a mark in a range, as a result of one column.
    func marked(after position: SQLValue, upTo end: SQLValue?) throws(SQLFailure) -> SQLRows {
        let range = range(after: position, upTo: end)
        return try connection.query("SELECT token \(range.sql)", range.values)
    }

    /// The number of marks in a range.
    func count(after position: SQLValue, upTo end: SQLValue?) throws(SQLFailure) -> Int {
        let range = range(after: position, upTo: end)
        return try connection.query("SELECT COUNT(*) \(range.sql)", range.values)
            .scalar?.count ?? 0
    }

    private func range(
        after position: SQLValue, upTo end: SQLValue?
    ) -> (sql: String, values: [SQLValue]) {
        (
            "FROM pushsweep_invalid WHERE token > ?\(end == nil ? "" : " AND token <= ?") "
                + "AND app = ? AND environment = ?", [position] + [end].compactMap { $0 } + place
        )
    }

    /// The token at the end of the range after `position`; nil where the rest fits into the span of
    /// a statement (`KeyRanges.span`).
    func end(after position: SQLValue) throws(SQLFailure) -> SQLValue? {
        // The primary key begins with the token.
        let rows = try connection.query(
            "SELECT token FROM pushsweep_invalid WHERE token > ? ORDER BY token, app, environment "
                + "LIMIT 1 OFFSET \(KeyRanges.span - 1)", [position])
        return rows.count > 0 ? rows[0, 0] : nil
    }
}

extension TokenTable {
    /// Whether `pushsweep_invalid` exists and the account may read it. An audit of a database
    /// without side tables continues without it.
    package func canReadTokenMarks() throws(StoreFailure) -> Bool {
        try session.canRead("pushsweep_invalid", "token, invalidated_at")
    }

    /// Whether `pushsweep_invalid` has marks of a partition. After a table gets a mark column,
    /// earlier marks stay in the side table and still count for a sender.
    func hasTokenMarks(in partition: Partition) throws(StoreFailure) -> Bool {
        guard try canReadTokenMarks() else { return false }
        return try retries.retrying(
            "looking for marks of \(partition)",
            do: InvalidTokenTable(partition: partition, connection: connection).hasAny())
    }

    /// The number of marks of a partition in `pushsweep_invalid`, counted range by range.
    func countTokenMarks(in partition: Partition) throws(StoreFailure) -> Int {
        let marks = InvalidTokenTable(partition: partition, connection: connection)
        var count = 0
        var position: SQLValue? = .bytes([])
        while let start = position {
            let (found, end) = try retries.retrying("counting marks of \(partition)") {
                () throws(SQLFailure) in
                let end = try marks.end(after: start)
                return (try marks.count(after: start, upTo: end), end)
            }
            count += found
            position = end
        }
        return count
    }
}
