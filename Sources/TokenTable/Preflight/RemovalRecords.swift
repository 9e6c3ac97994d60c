import Database
import TokenHygiene

// The guard's queries. The checkpoints of applied feeds store how many living rows they made invalid
// and when, written in the transaction of the change. So the numbers are right across hosts,
// senders and crashes. Hours and days are those of the database's clock, because the clocks of
// hosts differ.

extension TokenTable {
    /// The number of days that the guard looks back; checkpoints have to be kept for as long.
    package static let guardDays: Int64 = 30

    /// The removals from a partition in the last 30 days; empty where `pushsweep_feed` is missing
    /// or cannot be read, as with the account of a dry run.
    ///
    /// - Throws: any failure of reading.
    package func removals(from partition: Partition) throws(StoreFailure) -> RemovalHistory {
        guard try session.canRead("pushsweep_feed", "changed_at, invalidated, released") else {
            return RemovalHistory()
        }
        let dialect = connection.dialect
        // The first 13 characters of a time are its date and hour, in every engine.
        let hour = "SUBSTR(changed_at, 1, 13)"
        let sql =
            "SELECT released, \(hour), SUBSTR(\(dialect.now), 1, 13), SUM(invalidated), "
            + "SUM(CASE WHEN changed_at > \(dialect.past(hours: 24)) THEN invalidated ELSE 0 END) "
            + "FROM pushsweep_feed WHERE app = ? AND environment = ? AND invalidated > 0 "
            + "AND changed_at > \(dialect.past(hours: Int(Self.guardDays) * 24)) GROUP BY released, \(hour)"
        return try retries.retrying("reading what was removed from \(partition)") {
            () throws(SQLFailure) in
            let rows = try connection.query(
                sql, [.text(partition.app), .text(partition.environment)])
            try rows.require(width: 5)
            var history = RemovalHistory()
            for row in 0..<rows.count {
                let removed = rows[row, 3].count ?? 0
                history.month += removed
                if rows[row, 0].count != 0 { continue }
                history.day += rows[row, 4].count ?? 0
                if rows[row, 1].text == rows[row, 2].text {
                    history.thisHour += removed
                } else {
                    history.hours.append(removed)
                }
            }
            return history
        }
    }

    /// The number of rows of a partition that are not invalid, at most `limit`. Counting stops
    /// there, so that a large table costs no more than needed, and goes by ranges, so that no
    /// statement takes long. Rows with a mark and a later registration in another form than the
    /// mark's count as invalid, which makes a limit by shares a little stricter.
    ///
    /// - Throws: any failure of reading.
    package func livingRows(
        in partition: Partition, atMost limit: Int
    ) throws(StoreFailure) -> Int {
        let (layout, dialect) = (try layout(), connection.dialect)
        let condition = try layout.selection(of: partition).condition(dialect)
        var marked = 0
        let living = layout.livingCondition(dialect)
        if layout.markColumns.isEmpty, try canReadTokenMarks() {
            marked = try countTokenMarks(in: partition)
        }
        let sum = limit.addingReportingOverflow(marked)
        let most = sum.overflow ? limit : sum.partialValue
        let ranges = try KeyRanges(layout, catalogTable(), connection)
        var (rows, position): (Int, [SQLValue]) = (0, [])
        while rows < most {
            let (found, end) = try retries.retrying("counting rows of \(layout.table)") {
                () throws(SQLFailure) in
                let end = try ranges.end(after: position)
                let range = ranges.condition(after: position, upTo: end)
                let count = try connection.query(
                    "SELECT COUNT(*) FROM \(ranges.source) WHERE \(range.sql)" + condition.sql
                        + living.sql, range.values + condition.values + living.values)
                return (count.scalar?.count ?? 0, end)
            }
            rows += found
            guard let end else { break }
            position = end
        }
        return min(limit, max(0, min(rows, most) - marked))
    }
}

extension TableLayout {
    /// The condition that excludes dead rows: those with a mark and no later registration, or with
    /// the value for dead.
    fileprivate func livingCondition(_ dialect: SQLDialect) -> (sql: String, values: [SQLValue]) {
        if let living {
            let name = dialect.quoted(living.name)
            return (" AND (\(name) IS NULL OR \(name) <> ?)", [living.compared(living.dead)])
        }
        guard let mark else { return ("", []) }
        let name = dialect.quoted(mark.name)
        var parts = ["\(name) IS NULL"]
        switch mark.storage {
        case .epochSeconds, .epochMilliseconds: parts.append("\(name) <= 0")
        case .text: parts.append("\(name) = ''")
        case .wallClock: break
        }
        if let registration, registration.storage == mark.storage {
            parts.append("\(dialect.quoted(registration.name)) > \(name)")
        }
        return (" AND (\(parts.joined(separator: " OR ")))", [])
    }
}
