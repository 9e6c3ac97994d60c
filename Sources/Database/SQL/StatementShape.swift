// Servers prepare a statement by its text, and every length of an IN list is another text. So lists
// have a few lengths, and a list is padded by repeating its last entry, which does not change the rows
// found. The server searches for each padded entry too, and chunks on a cluster with busy writers have
// some hundred tokens. So from 200 on the padding adds at most a third. The longest list has 900 entries:
// beyond 1000 MariaDB turns an IN list into a join (in_predicate_conversion_threshold), and every SQLite
// accepts 999 parameters.

/// The lengths of lists in statements.
package enum StatementShape {
    /// The entries of the longest list.
    package static let longest = 900
    /// The entries of the longest list whose entries are compared one after the other.
    package static let longestLinear = 100

    /// The numbers of rows in statements that insert rows, the largest first; no row is there twice.
    package static let wholeLengths = [256, 128, 64, 32, 16, 8, 4, 2, 1]

    private static let lengths = [
        1, 10, 30, 100, 150, 200, 250, 300, 400, 500, 600, 750, 900,
    ]

    /// The list length for `count` entries.
    @usableFromInline
    static func length(for count: Int) -> Int {
        lengths.first { $0 >= count } ?? longest
    }

    /// Entries padded to a list length by repeating the last one.
    @inlinable
    package static func padded<Element>(_ entries: some Collection<Element>) -> [Element] {
        padded(entries, to: length(for: entries.count))
    }

    /// The most runs of consecutive keys that a condition names by their bounds: each row read is compared
    /// with half of them on average.
    private static let mostRuns = 30

    /// Runs of keys padded to a fixed number by repeating the last one.
    package static func padded(runs: [ClosedRange<Int64>]) -> [ClosedRange<Int64>] {
        padded(runs, to: [1, 3, 10, mostRuns].first { $0 >= runs.count } ?? runs.count)
    }

    /// The condition that a column has one of some different numbers and no other, which are in ascending
    /// order and not more than `longest`. A server reads a run of numbers in less than half of the time
    /// that a list of them takes.
    ///
    /// A search by bounds looks at the row after them too, and one that locks rows waits for that one. So
    /// the last number of a run stands by itself, and a search by the index looks at no row that is not
    /// named.
    package static func naming(_ column: String, _ numbers: some Collection<Int64>) -> BoundSQL {
        var runs: [ClosedRange<Int64>] = []
        for number in numbers {
            if let last = runs.last, last.upperBound + 1 == number {
                runs[runs.count - 1] = last.lowerBound...number
            } else {
                runs.append(number...number)
            }
        }
        guard !runs.isEmpty, runs.count <= mostRuns else {
            let list = padded(numbers).map(SQLValue.integer)
            return ("\(column) IN (\(placeholders(list.count)))", list)
        }
        runs = padded(runs: runs)
        let each = repeatElement(
            "\(column) BETWEEN ? AND ? OR \(column) = ?", count: runs.count)
        return (
            "(\(each.joined(separator: " OR ")))",
            runs.flatMap { run in
                // No bound touches another one, or the server makes one search of both.
                let last = run.upperBound
                return [run.lowerBound, last == .min ? last : last - 1, last].map(SQLValue.integer)
            }
        )
    }

    @inlinable
    static func padded<Element>(
        _ entries: some Collection<Element>, to length: Int
    ) -> [Element] {
        var padded = Array(entries)
        guard let last = padded.last else { return padded }
        while padded.count < length { padded.append(last) }
        return padded
    }
}

extension Array {
    /// The array in slices of at most `length` elements.
    @inlinable
    package func runs(of length: Int) -> [ArraySlice<Element>] {
        stride(from: 0, to: count, by: length).map { self[$0..<Swift.min($0 + length, count)] }
    }
}

/// Prepared statements by their text; a new one replaces the least recently used one. The store
/// pads its IN lists to thirteen lengths, so a run of any length uses a few dozen texts.
struct StatementCache<Statement> {
    private var entries: [String: (statement: Statement, used: Int)] = [:]
    private var clock = 0
    private let capacity: Int

    init(capacity: Int) { self.capacity = capacity }

    subscript(sql: String) -> Statement? {
        mutating get {
            guard let index = entries.index(forKey: sql) else { return nil }
            clock += 1
            entries.values[index].used = clock
            return entries.values[index].statement
        }
        set {
            clock += 1
            entries[sql] = newValue.map { ($0, clock) }
            if entries.count > capacity,
                let oldest = entries.min(by: { $0.value.used < $1.value.used })
            {
                entries[oldest.key] = nil
            }
        }
    }

    mutating func removeAll() { entries = [:] }
}
