// The guard asks whether a removal is more than a share of the living rows. It needs no number: that
// there are at least N rows is enough, and only a removal that is held needs the number itself, for a
// person. No index has the rows that are living, so a count reads each row, 0.12 seconds per million.
// Three gates ask, each with another N. So rows are counted range by range, and each question continues
// where the last one stopped, until N or the end. N is a multiple of the rows to remove, so the count
// takes less time than the removal.

import APNsProtocol
import Database
import TokenHygiene

/// The number of rows of a partition that are not invalid, as far as somebody asks. Rows with a mark
/// and a later registration in another form than the mark's count as invalid, which makes a limit by
/// shares a little stricter. The rows of one feed's question are the same for all gates: a new question
/// takes a new value.
package final class LivingRows {
    private let table: TokenTable
    private let partition: Partition
    /// The most rows of a range.
    private let span: Int
    /// Rows counted so far, up to `position`; nil once all are.
    private var counted = 0
    private var position: [SQLValue]? = []
    /// The marks of the side table, once they are counted.
    private var marked: Int?

    private var connection: any SQLConnection { table.connection }

    /// Prepares the counting of the rows of one partition.
    init(_ table: TokenTable, in partition: Partition, span: Int = KeyRanges.span) {
        (self.table, self.partition, self.span) = (table, partition, span)
    }

    /// The number of living rows, at most `limit`.
    ///
    /// - Throws: any failure of reading.
    package func count(atMost limit: Int) throws(StoreFailure) -> Int {
        let layout = try table.layout()
        if marked == nil, layout.markColumns.isEmpty, try table.canReadTokenMarks() {
            marked = try table.countTokenMarks(in: partition)
        }
        let beside = marked ?? 0
        guard position != nil, counted - beside < limit else { return known(limit) }
        let ranges = KeyRanges(layout, try table.catalogTable(), connection, span: span)
        let ours = try layout.selection(of: partition).condition(connection.dialect)
        let living = layout.livingCondition(connection.dialect)
        let condition = (ours.sql + living.sql, ours.values + living.values)
        try table.walk(
            ranges, after: &position, doing: "counting rows of \(layout.table)"
        ) { range throws(SQLFailure) in
            try ranges.query("COUNT(*)", in: range, condition).scalar?.count ?? 0
        } take: { found, _ in
            counted += found
            return counted - beside < limit
        }
        return known(limit)
    }

    private func known(_ limit: Int) -> Int { min(limit, max(0, counted - (marked ?? 0))) }
}

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
            + "SUM(CASE WHEN changed_at > \(dialect.now(adding: -86_400)) THEN invalidated ELSE 0 END) "
            + "FROM pushsweep_feed WHERE app = ? AND environment = ? AND invalidated > 0 "
            + "AND changed_at > \(dialect.now(adding: -86_400 * Int(Self.guardDays))) GROUP BY released, \(hour)"
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

    /// Prepares the counting of the rows of a partition that are not invalid.
    package func livingRows(in partition: Partition) -> LivingRows {
        LivingRows(self, in: partition)
    }
}

extension TableLayout {
    /// The condition that excludes dead rows: those with a mark and no later registration, or with
    /// the value for dead.
    func livingCondition(_ dialect: SQLDialect) -> BoundSQL {
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
