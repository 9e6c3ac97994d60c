// The guard asks whether a removal is more than a share of the living rows. It needs no number: that
// there are at least N rows is enough, and only a removal that is held needs the number itself, for a
// person. No index has the rows that are living, so a count reads each row, 0.1 to 0.4 seconds per million.
// Three gates ask, each with another N. So there are three ways to an answer, the cheapest first:
//
//   counted so far >= N          known already
//   a sample proves >= N         some thousand rows by key, whatever the size of the table
//   count on, range by range     from where the last question stopped, until N or the end
//
// The sample is of keys, not of rows: numbers drawn evenly from the least to the greatest key. Whether
// the row of a number exists and is living has the probability p = living rows / numbers. By Chernoff's
// bound (in the form of Hoeffding, 1963, theorem 1) the share found exceeds a p that is too small by as
// much with a probability of at most exp(-n KL(share, p)). The bound used makes that one in 10^12, so the
// decision is the one that a count would give. It needs one key column of whole numbers. Where keys have
// large gaps the sample proves little, and rows are counted.

import APNsProtocol
import Database
import Findings
import Glibc
import TokenHygiene

/// The number of rows of a partition with a token that are not invalid, as far as somebody asks. Rows with a mark
/// and a later registration in another form than the mark's count as invalid, which makes a limit by
/// shares a little stricter. The rows of one batch's question are the same for all gates: a new question
/// takes a new value.
package final class LivingRows {
    /// Rows that are quicker counted than sampled.
    static let fewRows = 50_000
    /// Keys of a sample.
    static let sampleSize = 8 * StatementShape.longest

    private let table: TokenTable
    private let partition: Partition
    private let fewRows: Int
    /// The most rows of a range.
    private let span: Int
    /// Rows counted so far, up to `position`; nil once all are.
    private var counted = 0
    private var position: [SQLValue]? = []
    /// The marks of the side table, once they are counted.
    private var marked: Int?
    /// The least number of rows by the sample, once it is taken.
    private var sampled: Int?

    private var connection: any SQLConnection { table.connection }

    /// Prepares the counting of the rows of one partition.
    init(
        _ table: TokenTable, in partition: Partition, fewRows: Int = LivingRows.fewRows,
        span: Int = KeyRanges.span
    ) {
        (self.table, self.partition) = (table, partition)
        (self.fewRows, self.span) = (fewRows, span)
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
        // A row without a token is nobody's device, and tables have many after logouts.
        let token = " AND LENGTH(\(connection.dialect.quoted(layout.token.name))) > 0"
        let condition = (ours.sql + living.sql + token, ours.values + living.values)
        // No sample proves as many as a question for the number itself asks.
        if limit < Int.max / 2, limit - (counted - beside) > fewRows {
            if sampled == nil { sampled = try sample(layout, ranges, condition) }
            if let least = sampled, least - beside >= limit { return limit }
        }
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

    /// The least number of rows that random keys prove; 0 where the key is no whole number.
    private func sample(
        _ layout: TableLayout, _ ranges: KeyRanges, _ condition: BoundSQL
    ) throws(StoreFailure) -> Int {
        guard layout.key.count == 1, layout.key[0].isInteger else { return 0 }
        let name = connection.dialect.quoted(layout.key[0].name)
        return try table.retries.retrying("sampling rows of \(layout.table)") {
            () throws(SQLFailure) in
            let ends = try connection.query(
                "SELECT MIN(\(name)), MAX(\(name)) FROM \(ranges.source)")
            guard let least = ends[0, 0].integer, let greatest = ends[0, 1].integer,
                case let numbers = Double(greatest) - Double(least) + 1, numbers < 1e15
            else { return 0 }
            var found = 0
            for _ in 0..<(Self.sampleSize / StatementShape.longest) {
                let keys = (0..<StatementShape.longest).map { _ in
                    SQLValue.integer(Int64.random(in: least...greatest))
                }
                let drawn = ("\(name) IN (\(placeholders(keys.count)))", keys)
                found += try ranges.query("COUNT(*)", in: drawn, condition).scalar?.count ?? 0
            }
            return Int(numbers * Self.leastShare(found, of: Self.sampleSize))
        }
    }

    /// The least probability of one of `draws` that is consistent with `found` of them, up to an error
    /// of one in 10^12. A number drawn twice in a statement is found once, which makes it smaller.
    static func leastShare(_ found: Int, of draws: Int) -> Double {
        let share = Double(found) / Double(draws)
        let most = log(1e12) / Double(draws)
        func divergence(_ p: Double) -> Double {
            let hit = share > 0 ? share * log(share / p) : 0
            return hit + (share < 1 ? (1 - share) * log((1 - share) / (1 - p)) : 0)
        }
        var (low, high) = (0.0, share)
        for _ in 0..<60 {
            let middle = (low + high) / 2
            if middle > 0, divergence(middle) <= most { high = middle } else { low = middle }
        }
        return low
    }

    private func known(_ limit: Int) -> Int { min(limit, max(0, counted - (marked ?? 0))) }
}

// The guard's queries. The checkpoints of applied batches store how many living rows they made invalid
// and when, written in the transaction of the change. So the numbers are right across hosts,
// senders and crashes. Hours and days are those of the database's clock, because the clocks of
// hosts differ.

extension TokenTable {
    /// The number of days that the guard looks back; checkpoints have to be kept for as long.
    package static let guardDays: Int64 = 30

    /// The removals from a partition in the last 30 days, or the rows that went `afterGrace` periods; empty and with `isAny` unknown where
    /// `pushsweep_batch`, `pushsweep_part` or `pushsweep_hold` is missing or cannot be read, as with the account of a dry run.
    ///
    /// - Throws: any failure of reading.
    package func removals(
        from partition: Partition, afterGrace: Bool = false
    ) throws(StoreFailure) -> RemovalHistory {
        guard try session.canRead(PushsweepTable.batch.name, "changed_at, invalidated, state"),
            try session.canRead(PushsweepTable.part.name, "rows_changed, taken_back"),
            try session.canRead(PushsweepTable.hold.name, "batch, terms")
        else { return RemovalHistory() }
        let dialect = connection.dialect
        // The first 13 characters of a time are its date and hour, in every engine.
        let hour = "SUBSTR(changed_at, 1, 13)"
        // Rows that go after a grace period were invalid before, so they have a history of their own.
        let count =
            afterGrace
            ? "CASE WHEN source = '\(EvidenceSource.grace.rawValue)' THEN applied ELSE 0 END"
            : "invalidated - \(ReportBatch.takenBack)"
        let sql =
            "SELECT terms IS NOT NULL AS released, \(hour), SUBSTR(\(dialect.now), 1, 13), SUM(\(count)), "
            + "SUM(CASE WHEN changed_at > \(dialect.now(adding: -86_400)) THEN \(count) ELSE 0 END) "
            + "FROM \(ReportBatch.table) WHERE app = ? AND environment = ? AND \(count) > 0 "
            + "AND changed_at > \(dialect.now(adding: -86_400 * Int(Self.guardDays))) GROUP BY released, \(hour)"
        let ours: [SQLValue] = [.text(partition.app), .text(partition.environment)]
        return try retries.retrying("reading what was removed from \(partition)") {
            () throws(SQLFailure) in
            let rows = try connection.query(sql, ours)
            try rows.require(width: 5)
            let any = try connection.query(
                "SELECT 1 FROM pushsweep_batch WHERE app = ? AND environment = ? "
                    + "AND (state = 'applied' OR \(ReportBatch.rowsChanged) > 0) LIMIT 1", ours)
            var history = RemovalHistory(isAny: any.count > 0)
            for row in 0..<rows.count {
                let removed = rows[row, 3].count ?? 0
                history.month += removed
                if rows[row, 0].count != 0 { continue }
                history.day += rows[row, 4].count ?? 0
                if rows[row, 1] == rows[row, 2] {
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
