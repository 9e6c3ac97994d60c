import APNsProtocol
import Database
import Findings
import TokenHygiene

/// A mark in `pushsweep_invalid`.
struct TokenMark: Hashable, Sendable {
    /// The time of the evidence that made the token invalid.
    let time: EpochMilliseconds
    let reason: String?
}

/// A mark in `pushsweep_invalid` as a person sees it.
package struct MarkBeside: Hashable, Sendable {
    /// The app, by the table's value, and the environment.
    package let partition: Partition
    /// Since when the token is dead.
    package let time: EpochMilliseconds?
    /// What the mark follows from.
    package let reason: String?
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

    /// The columns that are read.
    static let columns = "token, app, environment, invalidated_at, reason"

    /// The longest token that the table can hold, in bytes. Rows with longer ones cannot be marked.
    static let longestToken = 1_024

    /// The marks on some tokens.
    func marks(
        on tokens: [DeviceToken], locking: Bool
    ) throws(SQLFailure) -> [DeviceToken: TokenMark] {
        try Self.marks(on: tokens, of: self, connection, locking: locking).compactMapValues {
            guard let mark = $0.first, let time = mark.time else { return nil }
            return TokenMark(time: time, reason: mark.reason)
        }
    }

    /// The marks on some tokens in one partition, or in all of them.
    static func marks(
        on tokens: [DeviceToken], of own: InvalidTokenTable?, _ connection: any SQLConnection,
        locking: Bool
    ) throws(SQLFailure) -> [DeviceToken: [MarkBeside]] {
        let time = connection.dialect.ownTime("invalidated_at")
        let condition: BoundSQL = own?.condition ?? (" ORDER BY token, app, environment", [])
        var marks: [DeviceToken: [MarkBeside]] = [:]
        for run in tokens.runs(of: StatementShape.longest) {
            let values = StatementShape.padded(run.map { SQLValue.bytes($0.bytes) })
            let rows = try connection.query(
                "SELECT token, app, environment, invalidated_at, reason FROM pushsweep_invalid WHERE "
                    + "token IN (\(placeholders(values.count)))\(condition.sql)"
                    + (locking ? connection.dialect.rowLock : ""), values + condition.values)
            for row in 0..<rows.count {
                guard let token = rows.token(row, 0) else { continue }
                marks[token, default: []].append(
                    MarkBeside(
                        partition: rows.partition(row, 1), time: time.mark(rows[row, 3]),
                        reason: rows[row, 4].text))
            }
        }
        return marks
    }

    /// Sets, moves and removes marks.
    func write(_ changes: [TokenMarkChange]) throws(SQLFailure) {
        try remove(changes.filter { $0.mark == nil }.map(\.token))
        for run in changes.filter({ $0.mark != nil }).runs(of: StatementShape.longestLinear) {
            let rows = StatementShape.padded(run)
            let sql = dialect.upsert(
                "pushsweep_invalid", key: ["token", "app", "environment"],
                columns: ["invalidated_at", "reason"], rows: rows.count)
            _ = try connection.execute(sql, rows.flatMap(values))
        }
    }

    /// Adds marks of tokens that had none when they were read without a lock.
    ///
    /// - Throws: a conflict where one of them has a mark now.
    func add(_ changes: [TokenMarkChange], _ isolation: RowIsolation) throws(SQLFailure) {
        var rest = changes[...]
        while let length = StatementShape.wholeLengths.first(where: { $0 <= rest.count }) {
            do throws(SQLFailure) {
                _ = try connection.execute(
                    "INSERT INTO pushsweep_invalid (token, app, environment, invalidated_at, reason) VALUES "
                        + commaList("(\(placeholders(5)))", length),
                    rest.prefix(length).flatMap(values))
            } catch {
                guard error.isDuplicate else { throw error }
                isolation.noteStale()
                throw SQLFailure(
                    kind: .conflict, code: error.code,
                    message: "a token was marked while a chunk was about to mark it")
            }
            rest = rest.dropFirst(length)
        }
    }

    private func values(_ change: TokenMarkChange) -> [SQLValue] {
        let time = dialect.ownTime("invalidated_at")
        return [.bytes(change.token.bytes)] + place + [
            change.mark.map { time.value($0.time) } ?? .null,
            change.mark?.reason.map(SQLValue.text) ?? .null,
        ]
    }

    private func remove(_ tokens: [DeviceToken]) throws(SQLFailure) {
        for run in tokens.runs(of: StatementShape.longest) {
            let values = StatementShape.padded(run.map { SQLValue.bytes($0.bytes) })
            _ = try connection.execute(
                "DELETE FROM pushsweep_invalid WHERE token IN (\(placeholders(values.count)))"
                    + condition.sql, values + condition.values)
        }
    }

    /// The marks of the partition, as the end of a WHERE.
    var condition: BoundSQL { (" AND app = ? AND environment = ?", place) }
}

extension TokenTable {
    /// Whether `pushsweep_invalid` exists and the account may read it. An audit of a database
    /// without side tables continues without it.
    package func canReadTokenMarks() throws(StoreFailure) -> Bool {
        try session.canRead(PushsweepTable.invalid.name, InvalidTokenTable.columns)
    }

    /// Whether marks in `pushsweep_invalid` count for a decision. Where marks stand in the row, they do as far as the
    /// account sees them: it needs no right there.
    ///
    /// - Throws: `permission` where marks stand beside the rows and the account does not see them; any other failure of
    ///   a query.
    func decidesByTokenMarks(to doing: String) throws(StoreFailure) -> Bool {
        guard try layout().mark == nil else { return try canReadTokenMarks() }
        return try session.decides(by: .invalid, InvalidTokenTable.columns, to: doing)
    }

    /// Why a look does not see all that it tells of: the table of marks where these stand beside the rows, what APNs
    /// called bad, what other senders wrote, the notes of what persons refused, and more tables where it needs them. A
    /// table that is not there has nothing to see.
    ///
    /// - Throws: any failure of a query.
    package func unseen(also more: [PushsweepTable] = []) throws(StoreFailure) -> [String] {
        try unseenMarks() + hidden(among: [.suspect, .evidence, .spared] + more)
    }

    /// Why the marks beside the rows are not seen; empty where they are, and where marks stand in the rows.
    ///
    /// - Throws: as `unseen`.
    package func unseenMarks() throws(StoreFailure) -> [String] {
        try layout().mark == nil ? hidden(among: [.invalid]) : []
    }

    private func hidden(among tables: [PushsweepTable]) throws(StoreFailure) -> [String] {
        var gaps: [String] = []
        for table in tables {
            let columns = table.columns.map(\.name).joined(separator: ", ")
            let visibility = try session.visibility(of: table.name, columns)
            if visibility == .hidden, let gap = try session.gap(in: table, visibility) {
                gaps.append(gap)
            }
        }
        return gaps
    }

    /// Whether some new marks are all that there are in `pushsweep_invalid`, so that no run before made one
    /// that is still there. False where marks stand in the row.
    ///
    /// - Throws: as `layout`; any failure of the query.
    package func areFirstMarks(_ count: Int) throws(StoreFailure) -> Bool {
        guard count > 0, count < Int.max, try layout().marksStandBeside else { return false }
        let found = try retries.retrying("looking for earlier marks in pushsweep_invalid") {
            () throws(SQLFailure) in
            try connection.query("SELECT token FROM pushsweep_invalid LIMIT \(count + 1)").count
        }
        return (1...count).contains(found)
    }

    /// The number of marks of a partition in `pushsweep_invalid`, counted range by range.
    func countTokenMarks(in partition: Partition) throws(StoreFailure) -> Int {
        let marks = InvalidTokenTable(partition: partition, connection: connection)
        let ranges = KeyRanges(ofTokenMarks: connection)
        var count = 0
        var position: [SQLValue]? = []
        try walk(ranges, after: &position, doing: "counting marks of \(partition)") {
            range throws(SQLFailure) in
            try ranges.query("COUNT(*)", in: range, marks.condition).scalar?.count ?? 0
        } take: { found, _ in
            count += found
            return true
        }
        return count
    }
}
