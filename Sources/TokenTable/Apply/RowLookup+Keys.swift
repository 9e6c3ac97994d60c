import APNsProtocol
import Database
import TokenHygiene

/// Rows read by their keys.
struct KeyedRows {
    /// The rows, by their keys as the ledger spells them.
    var rows: [String: ArraySlice<SQLValue>] = [:]
    /// The number of bytes in the rows read.
    var bytes = 0
    /// Whether the read stopped at its size limit, so that some rows are missing.
    var isCutShort = false
}

extension RowLookup {
    /// The rows with given keys, until they have more than `mostBytes` bytes. A row whose key the
    /// database treats as equal but spells differently is listed under its own spelling.
    func rows(
        keys: [[SQLValue]], _ connection: any SQLConnection, locking: Bool, mostBytes: Int = .max
    ) throws(SQLFailure) -> KeyedRows {
        var found = KeyedRows()
        let isSingle = layout.key.count == 1
        let names = layout.key.map { dialect.quoted($0.name) }
        let match = "(\(names.map { "\($0) = ?" }.joined(separator: " AND ")))"
        let longest = isSingle ? StatementShape.longest : StatementShape.longestLinear
        for run in keys.runs(of: longest) {
            let padded = StatementShape.padded(run)
            let condition =
                isSingle
                ? "\(names[0]) IN (\(placeholders(padded.count)))"
                : repeatElement(match, count: padded.count).joined(separator: " OR ")
            let rows = try connection.query(
                "SELECT \(selected) FROM \(layout.table.sql(dialect)) WHERE \(condition)"
                    + (locking ? dialect.rowLock : ""),
                padded.flatMap { $0 }, mostBytes: mostBytes - found.bytes)
            try rows.require(width: width)
            for index in 0..<rows.count {
                let values = rows.row(index)
                found.rows[RowImage.key(key.map { values[values.startIndex + $0] })] = values
            }
            found.bytes += rows.bytes
            if found.bytes > mostBytes {
                found.isCutShort = true
                return found
            }
        }
        return found
    }

    /// The registration time in a row or in its image.
    func registration(_ content: RowContent) -> EpochMilliseconds? {
        guard let column = layout.registration, let value = content[column.name] else { return nil }
        return column.registration(column.asRead(value))
    }
}

extension TimeColumn {
    /// The value as the driver reads it, where an image has it as text.
    func asRead(_ value: SQLValue) -> SQLValue {
        guard case .wallClock = storage, case .text(let text) = value,
            let clock = WallClock(text: text)
        else { return value }
        return .wallClock(clock)
    }
}
