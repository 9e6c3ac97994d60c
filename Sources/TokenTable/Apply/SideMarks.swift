import APNsProtocol
import Database
import TokenHygiene

/// The content of one mark in `pushsweep_invalid`.
struct SideMarkState: Hashable, Sendable {
    let time: EpochMilliseconds
    let reason: String?
}

/// The marks in `pushsweep_invalid`, for token tables without a mark column: one per token, app and
/// environment. They are judged together with the row's registration, like a mark in the row.
struct SideMarks {
    let partition: Partition
    let source: EvidenceSource
    let dialect: SQLDialect

    /// The longest token that the side table can hold, in bytes. Rows with longer ones cannot be
    /// marked.
    static let longestToken = 1_024

    /// The times of the marks on some tokens.
    func marks(
        on tokens: [DeviceToken], _ connection: any SQLConnection, locking: Bool
    ) throws(SQLFailure) -> [DeviceToken: EpochMilliseconds] {
        try states(on: tokens, connection, locking: locking).mapValues(\.time)
    }

    /// The marks on some tokens, with their reasons.
    func states(
        on tokens: [DeviceToken], _ connection: any SQLConnection, locking: Bool
    ) throws(SQLFailure) -> [DeviceToken: SideMarkState] {
        var marks: [DeviceToken: SideMarkState] = [:]
        for run in tokens.runs(of: StatementShape.longest) {
            let values = StatementShape.padded(run.map { SQLValue.bytes($0.bytes) })
            let rows = try connection.query(
                "SELECT token, invalidated_at, reason FROM pushsweep_invalid WHERE token IN "
                    + "(\(placeholders(values.count))) AND app = ? AND environment = ?"
                    + (locking ? dialect.rowLock : ""),
                values + [.text(partition.app), .text(partition.environment)])
            for row in 0..<rows.count {
                guard case .bytes(let bytes) = rows[row, 0], let token = DeviceToken(bytes) else {
                    continue
                }
                marks[token] = dialect.ownTime("invalidated_at").mark(rows[row, 1]).map {
                    SideMarkState(time: $0, reason: rows[row, 2].text)
                }
            }
        }
        return marks
    }

    /// Sets or moves marks, with the source of the evidence as reason.
    func write(_ marks: [SideMark], _ connection: any SQLConnection) throws(SQLFailure) {
        try set(
            marks.map { ($0.token, SideMarkState(time: $0.time, reason: source.rawValue)) },
            connection)
    }

    /// Sets marks with individual reasons.
    func set(
        _ marks: [(token: DeviceToken, state: SideMarkState)], _ connection: any SQLConnection
    ) throws(SQLFailure) {
        let time = dialect.ownTime("invalidated_at")
        for run in marks.runs(of: 100) {
            let rows = StatementShape.padded(run)
            let sql = dialect.upsert(
                "pushsweep_invalid", key: ["token", "app", "environment"],
                columns: ["invalidated_at", "reason"], rows: rows.count)
            var values: [SQLValue] = []
            for mark in rows {
                values += [
                    .bytes(mark.token.bytes), .text(partition.app), .text(partition.environment),
                    time.value(mark.state.time), mark.state.reason.map(SQLValue.text) ?? .null,
                ]
            }
            _ = try connection.execute(sql, values)
        }
    }

    /// Removes the marks on some tokens.
    func remove(
        _ tokens: [DeviceToken], _ connection: any SQLConnection
    ) throws(SQLFailure) {
        for run in tokens.runs(of: StatementShape.longest) {
            let values = StatementShape.padded(run.map { SQLValue.bytes($0.bytes) })
            _ = try connection.execute(
                "DELETE FROM pushsweep_invalid WHERE token IN (\(placeholders(values.count))) "
                    + "AND app = ? AND environment = ?",
                values + [.text(partition.app), .text(partition.environment)])
        }
    }
}
