// An import reads a file, stores its reports, compares them with the rows, and changes rows. Each step counts
// something else and has its own pace. A person who waits wants one number. So the steps share the size of the file:
// each has a part of it, about as long as it takes, and what is done of a step is done of its part.

/// The progress of several steps as one count.
package struct WholeProgress: Hashable, Sendable {
    /// The steps by the first word of their phrases, with their parts of the whole.
    private static let steps: [(words: Set<String>, part: Double)] = [
        (["importing"], 0.3), (["storing"], 0.3), (["comparing"], 0.1),
        (["applying", "suspects"], 0.3),
    ]

    /// The work and its unit.
    package let phrase: String
    /// The whole amount.
    package let size: Int
    /// What was done of all steps, which never falls: a step may have several batches.
    private var done = 0

    package init(_ phrase: String, size: Int) {
        (self.phrase, self.size) = (phrase, size)
    }

    /// The count of the whole at a count of a step; nil for a phrase that is no step, or a count without a total.
    package mutating func count(_ phrase: String, _ count: Int, of total: Int?) -> Int? {
        let word = String(phrase.prefix { $0 != " " })
        guard let total, total > 0,
            let step = Self.steps.firstIndex(where: { $0.words.contains(word) })
        else { return nil }
        let before = Self.steps[..<step].reduce(0) { $0 + $1.part }
        let share = before + Self.steps[step].part * min(1, Double(count) / Double(total))
        done = max(done, Int(Double(size) * share))
        return done
    }
}
