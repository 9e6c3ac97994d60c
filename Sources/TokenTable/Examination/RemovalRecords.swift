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

    /// The number of rows of a partition that are not invalid, at most `limit`; see `LivingRows`.
    ///
    /// - Throws: any failure of reading.
    package func livingRows(
        in partition: Partition, atMost limit: Int
    ) throws(StoreFailure) -> Int {
        try livingRows(in: partition).count(atMost: limit)
    }

    /// Prepares the counting of the rows of a partition that are not invalid.
    package func livingRows(in partition: Partition) -> LivingRows {
        LivingRows(self, in: partition)
    }
}

extension TableLayout {
    /// The condition that excludes dead rows: those with a mark and no later registration, or with
    /// the value for dead.
    func livingCondition(_ dialect: SQLDialect) -> (sql: String, values: [SQLValue]) {
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
