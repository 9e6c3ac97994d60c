// Throughput hardly depends on the size of a transaction, but the waiting time of other
// transactions for its locks does. So a chunk is sized by time: the size follows the duration of
// the last chunk, and halves at once when the engine rolled a chunk back in favour of another
// transaction. The target is a third of the 150 ms limit for the longest, because on a busy server
// single chunks take three times the usual time.
//
// Whole rows are kept in memory until they are in the ledger, so bytes limit a chunk too. A chunk whose
// rows exceed the limit is given up during the read and redone with fewer tokens, down to one. The bytes
// of a committed chunk show how far the next may grow. Tables of small rows never reach the limit.

/// The number of tokens in the next chunk, and its rules.
package struct ChunkSizing: Hashable, Sendable {
    /// The sizes that a chunk may have.
    static let range = 100...5_000
    /// The target duration of a chunk in milliseconds.
    static let aim = 50.0

    /// The most bytes of rows in a chunk of several tokens. Before-images take at most twice that
    /// and are written in parts.
    package static let mostBytes = 2 * 1_024 * 1_024

    /// The number of tokens in the next chunk.
    private(set) var size: Int

    /// Starts with a size for the first chunk.
    init(first: Int) { size = first }

    /// Adjusts the size after a committed chunk. A full step to the size that would have met the
    /// target could overshoot after one unusual chunk, so growth is at most by half.
    mutating func committed(_ tokens: Int, in milliseconds: Double, bytes: Int = 0) {
        // The time of a short last chunk predicts little about a long one.
        guard tokens * 2 >= size else { return }
        let fitting = Double(tokens) * Self.aim / max(milliseconds, 0.1)
        size = Self.clamped(min(fitting, Double(size) * 1.5))
        if bytes > 0 { size = min(size, max(1, tokens * (Self.mostBytes / 4 * 3) / bytes)) }
    }

    /// Reduces the size after a chunk whose rows were too large; `rows` of them were read.
    mutating func exceeded(_ tokens: Int, rows: Int) {
        size = max(1, min(tokens / 2, rows * 3 / 4))
    }

    /// Halves the size after a chunk that lost against another transaction.
    mutating func lost() { size = min(size, Self.clamped(Double(size) / 2)) }

    private static func clamped(_ size: Double) -> Int {
        min(max(Int(size), range.lowerBound), range.upperBound)
    }
}
