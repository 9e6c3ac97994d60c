// The guard asks whether a removal is more than a share of the living rows. It needs no number: that
// there are at least N rows is enough, and only a removal that is held needs the number itself, for a
// person. No index has the rows that are living, so a count reads each row, 0.12 seconds per million.
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
//
// A count goes by ranges of the key, so that no statement takes long. Where the sample has found the keys
// to be dense, a range is a range of numbers, and each row is read once; else the end of a range has to
// be found first (KeyRanges).

import APNsProtocol
import Database
import Foundation
import TokenHygiene

/// The number of rows of a partition that are not invalid, as far as somebody asks. Rows with a mark
/// and a later registration in another form than the mark's count as invalid, which makes a limit by
/// shares a little stricter. The rows of one feed's question are the same for all gates: a new question
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
    /// What the statements are made of, once one is needed.
    private var source: Source?
    /// Rows counted so far, up to `position`.
    private var counted = 0
    private var position: [SQLValue] = []
    private var isWhole = false
    /// The keys from the least to the greatest, where most of them are in use.
    private var dense: ClosedRange<Int64>?
    /// The marks of the side table, once they are counted.
    private var marked: Int?
    /// The least number of rows by the sample, once it is taken.
    private var sampled: Int?

    private var connection: any SQLConnection { table.connection }

    private struct Source {
        let layout: TableLayout
        let ranges: KeyRanges
        /// The end of a WHERE that selects the living rows of the partition.
        let condition: (sql: String, values: [SQLValue])
    }

    /// Prepares the counting of the rows of one partition.
    init(
        _ table: TokenTable, in partition: Partition, fewRows: Int = LivingRows.fewRows,
        span: Int = KeyRanges.span
    ) {
        self.table = table
        self.partition = partition
        self.fewRows = fewRows
        self.span = span
    }

    private func prepared() throws(StoreFailure) -> Source {
        if let source { return source }
        let (layout, dialect) = (try table.layout(), connection.dialect)
        let ours = try layout.selection(of: partition).condition(dialect)
        let living = layout.livingCondition(dialect)
        let made = Source(
            layout: layout,
            ranges: try KeyRanges(layout, table.catalogTable(), connection, span: span),
            condition: (ours.sql + living.sql, ours.values + living.values))
        source = made
        return made
    }

    /// The number of living rows, at most `limit`.
    ///
    /// - Throws: any failure of reading.
    package func count(atMost limit: Int) throws(StoreFailure) -> Int {
        let marked = try sideMarks()
        let sum = limit.addingReportingOverflow(marked)
        let needed = sum.overflow ? limit : sum.partialValue
        if !isWhole, needed - counted > fewRows, try leastRows() >= needed { return limit }
        while counted < needed && !isWhole { try countRange() }
        return min(limit, max(0, min(counted, needed) - marked))
    }

    private func sideMarks() throws(StoreFailure) -> Int {
        if let marked { return marked }
        var count = 0
        if try prepared().layout.markColumns.isEmpty, try table.canReadTokenMarks() {
            count = try table.countTokenMarks(in: partition)
        }
        marked = count
        return count
    }

    private func countRange() throws(StoreFailure) {
        let source = try prepared()
        let (ranges, condition) = (source.ranges, source.condition)
        let doing = "counting rows of \(source.layout.table)"
        let (found, end) = try table.retries.retrying(doing) {
            () throws(SQLFailure) in
            let (start, end) = try rangeAhead(ranges)
            let range = ranges.condition(after: start, upTo: end)
            let count = try connection.query(
                "SELECT COUNT(*) FROM \(ranges.source) "
                    + "WHERE \(range.sql)\(condition.sql)", range.values + condition.values)
            return (count.scalar?.count ?? 0, end)
        }
        counted += found
        if let end { position = end } else { isWhole = true }
    }

    /// The next range: the key before its first row, and its last one; nil where it has no end.
    private func rangeAhead(
        _ ranges: KeyRanges
    ) throws(SQLFailure) -> (start: [SQLValue], end: [SQLValue]?) {
        let last = position.first?.integer
        guard let dense, last ?? Int64.min < dense.upperBound else {
            return (position, try ranges.end(after: position))
        }
        let start = last ?? dense.lowerBound - 1
        let isLast = dense.upperBound - start <= Int64(span)
        let end = isLast ? dense.upperBound : start + Int64(span)
        return ([.integer(start)], [.integer(end)])
    }

    // MARK: The sample

    private func leastRows() throws(StoreFailure) -> Int {
        if let sampled { return sampled }
        let least = try sample()
        sampled = least
        return least
    }

    private func sample() throws(StoreFailure) -> Int {
        let source = try prepared()
        let (layout, ranges, condition) = (source.layout, source.ranges, source.condition)
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
                found +=
                    try connection.query(
                        "SELECT COUNT(*) FROM \(ranges.source) "
                            + "WHERE \(name) IN (\(placeholders(keys.count)))\(condition.sql)",
                        keys + condition.values
                    ).scalar?.count ?? 0
            }
            // A first range ends at a number below the least one.
            let isDense = found * 4 >= Self.sampleSize && least > Int64.min
            dense = isDense && position.isEmpty ? least...greatest : nil
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
