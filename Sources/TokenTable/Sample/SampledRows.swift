import Database
import Findings

// A run refuses a table whose rows contradict the settings, and a refusal stops every app. So it has to follow
// from a share of the table, and a share of the sample is none: the newest rows are a twentieth of every sample,
// and anybody who may register a device writes there. A failure counts only where it shows without the newest
// rows, and without the rows of any one place. Else it is a warning.

/// The rows of a sample, by the places where they were read.
package struct SampledRows {
    private struct Part {
        let rows: [ArraySlice<SQLValue>]
        /// How many rows of the table each stands for, in proportion to those of other parts.
        let share: Int
    }

    /// All rows, with the listed columns.
    package private(set) var all: [ArraySlice<SQLValue>] = []
    /// The parts by which a failure is judged; nil where the sample is the whole table.
    private var parts: [Part]?
    private var seen: Set<ArraySlice<SQLValue>> = []
    /// The number of values of the key at the end of each row that is added.
    private let key: Int

    /// The rows of a small table, none of which is missing.
    init(whole rows: [ArraySlice<SQLValue>], key: Int) {
        self.key = key
        all = rows.map { $0.dropLast(key) }
    }

    /// Starts without rows of a large table, whose rows end with so many values of the key.
    init(key: Int) {
        self.key = key
        parts = []
    }

    /// Adds the rows of a place that are not there yet.
    mutating func add(_ rows: [ArraySlice<SQLValue>], share: Int = 1) {
        let rows = addNew(rows)
        if !rows.isEmpty { parts?.append(Part(rows: rows, share: share)) }
    }

    /// Adds the newest rows.
    mutating func add(newest rows: [ArraySlice<SQLValue>]) { _ = addNew(rows) }

    /// Leaves the rows so far out of what failures are judged by: it is not known what they stand for.
    mutating func leaveOutParts() { parts = [] }

    private mutating func addNew(_ rows: [ArraySlice<SQLValue>]) -> [ArraySlice<SQLValue>] {
        let new = rows.filter { seen.insert(ArraySlice(Array($0.suffix(key)))).inserted }
            .map { $0.dropLast(key) }
        all += new
        return new
    }

    /// The findings of an examination of rows. A failure that does not follow from shares of the table is a
    /// warning.
    func findings<Failure: Error>(
        _ examine: ([ArraySlice<SQLValue>]) throws(Failure) -> [Finding]
    ) throws(Failure) -> [Finding] {
        let found = try examine(all)
        guard let parts, found.contains(where: { $0.failure != nil }) else { return found }
        var isShare = !parts.isEmpty
        for place in parts.indices where isShare {
            isShare = try examine(judged(parts, without: place)).contains { $0.failure != nil }
        }
        return isShare ? found : found.map(\.asWarning)
    }

    /// Rows of the parts in the proportion in which these stand for the table.
    private func judged(_ parts: [Part], without place: Int) -> [ArraySlice<SQLValue>] {
        let others = parts.indices.filter { $0 != place }.map { parts[$0] }
        let most = others.map(\.share).max() ?? 1
        return others.flatMap { part in
            let count = part.rows.count * part.share / most
            return (0..<count).map { part.rows[$0 * part.rows.count / count] }
        }
    }
}

extension Finding {
    /// The same as a warning, where it is a failure.
    fileprivate var asWarning: Finding {
        guard failure != nil else { return self }
        return .warning(
            rule,
            sentence + "; these rows stand together in the table, so runs go on without them")
    }
}
