import TokenHygiene

// What the guard asks the database. The markers of applied feeds carry how many living rows they made
// invalid and when, written in the transaction that did it, so they are right across hosts, senders
// and crashes. Hours and days are those of the database's clock, since hosts disagree.

extension TokenStore {
    /// Days that the guard looks back; markers have to be kept for as long.
    package static let guardDays: Int64 = 30

    /// What was removed from a partition in the last 30 days; nothing where `pushsweep_feed` is
    /// missing or may not be read, as for the account of a dry run.
    ///
    /// - Throws: any failure of reading.
    package func removals(from partition: Partition) throws(StoreFailure) -> RemovalHistory {
        guard try canRead("pushsweep_feed", "changed_at, invalidated, released") else {
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
        return try attempts.retrying("reading what was removed from \(partition)") {
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

    /// How many rows of a partition are not invalid, at most `limit`: counting stops there, so that
    /// a large table costs no more than the answer needs. Rows that carry a mark and a later
    /// registration in another form than the mark's are taken for invalid, which makes a limit by
    /// shares a little stricter.
    ///
    /// - Throws: any failure of reading.
    package func livingRows(
        in partition: Partition, atMost limit: Int
    ) throws(StoreFailure) -> Int {
        let (layout, dialect) = (try layout(), connection.dialect)
        let condition = try layout.partitionCondition(partition, dialect)
        var marked = 0
        if layout.mark == nil, try hasSideMarks() { marked = try sideMarks(in: partition) }
        let most = limit.addingReportingOverflow(marked)
        let sql =
            "SELECT COUNT(*) FROM (SELECT 1 AS living FROM \(layout.table.sql(dialect)) WHERE 1 = 1"
            + condition.sql + layout.livingCondition(dialect)
            + " LIMIT \(most.overflow ? limit : most.partialValue)) AS found"
        let rows = try attempts.retrying("counting rows of \(layout.table)") {
            () throws(SQLFailure) in
            try connection.query(sql, condition.values).scalar?.count ?? 0
        }
        return min(limit, max(0, rows - marked))
    }

    private func sideMarks(in partition: Partition) throws(StoreFailure) -> Int {
        try attempts.retrying("counting marks of \(partition)") { () throws(SQLFailure) in
            try connection.query(
                "SELECT COUNT(*) FROM pushsweep_invalid WHERE app = ? AND environment = ?",
                [.text(partition.app), .text(partition.environment)]
            ).scalar?.count ?? 0
        }
    }
}

extension TableLayout {
    /// The condition that leaves out rows with a mark that counts.
    fileprivate func livingCondition(_ dialect: SQLDialect) -> String {
        guard let mark else { return "" }
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
        return " AND (\(parts.joined(separator: " OR ")))"
    }
}

extension SQLDialect {
    /// The moment so many hours ago by the database's clock.
    fileprivate func past(hours: Int) -> String {
        switch engine {
        case .mariaDB: "\(now) - INTERVAL \(hours) HOUR"
        case .sqlite: "strftime('%Y-%m-%d %H:%M:%f', 'now', '-\(hours) hours')"
        }
    }
}
