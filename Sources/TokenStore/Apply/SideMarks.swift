import APNsProtocol
import TokenHygiene

/// The marks in `pushsweep_invalid`, for tables that have no column for them: one per token, app and
/// environment, judged together with the row's registration like a mark in the row.
struct SideMarks {
    let partition: Partition
    let source: EvidenceSource
    let dialect: SQLDialect

    /// The longest token the table takes, in bytes. Rows with longer ones cannot be marked.
    static let longestToken = 1_024

    /// The marks on the tokens of some rows' evidence.
    func marks(
        on tokens: [DeviceToken], _ connection: any SQLConnection, locking: Bool
    ) throws(SQLFailure) -> [DeviceToken: EpochMilliseconds] {
        var marks: [DeviceToken: EpochMilliseconds] = [:]
        for run in tokens.runs(of: StatementShape.longest) {
            let values = StatementShape.padded(run.map { SQLValue.bytes($0.bytes) })
            let rows = try connection.query(
                "SELECT token, invalidated_at FROM pushsweep_invalid WHERE token IN "
                    + "(\(placeholders(values.count))) AND app = ? AND environment = ?"
                    + (locking ? dialect.rowLock : ""),
                values + [.text(partition.app), .text(partition.environment)])
            for row in 0..<rows.count {
                guard case .bytes(let bytes) = rows[row, 0], let token = DeviceToken(bytes) else {
                    continue
                }
                marks[token] = dialect.ownTime("invalidated_at").mark(rows[row, 1])
            }
        }
        return marks
    }

    /// Sets marks or moves them.
    func write(_ marks: [SideMark], _ connection: any SQLConnection) throws(SQLFailure) {
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
                    time.value(mark.time), .text(source.rawValue),
                ]
            }
            _ = try connection.execute(sql, values)
        }
    }
}

extension SQLDialect {
    /// A time column of our own tables.
    func ownTime(_ name: String) -> TimeColumn {
        switch engine {
        case .mariaDB: TimeColumn(name: name, storage: .wallClock(fraction: 3, offset: 0))
        case .sqlite: TimeColumn(name: name, storage: .text(offset: 0))
        }
    }
}
