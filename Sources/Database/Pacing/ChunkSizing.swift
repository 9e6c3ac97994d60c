// Throughput hardly depends on the size of a transaction, the time other transactions wait for its
// locks does. So a chunk is sized by time: the size follows what the last one took, and halves at
// once when the engine gave a chunk up for another's sake. The aim is a third of the 150 ms that the
// longest is to stay below, because on a busy server single chunks take three times the usual.

//
// Whole rows are kept until they are in the ledger, so bytes bound a chunk too: one whose rows exceed
// them is given up while it is read and redone with fewer tokens, down to one. What a committed chunk
// held tells how far the next may grow. Tables of small rows never notice.

/// How many tokens the next chunk takes.
package struct ChunkSizing: Hashable, Sendable {
    /// Sizes a chunk may have.
    static let range = 100...5_000
    /// The duration aimed at, in milliseconds.
    static let aim = 50.0

    /// The most bytes of rows in a chunk of several tokens. Before-images take twice that at worst
    /// and are written bit by bit.
    package static let mostBytes = 2 * 1_024 * 1_024

    /// Tokens in the next chunk.
    private(set) var size: Int

    /// Starts with a size.
    init(first: Int) { size = first }

    /// Takes note of a committed chunk. A whole step towards the size that would have met the aim
    /// could overshoot after one odd chunk, so growth is at most half again.
    mutating func committed(_ tokens: Int, in milliseconds: Double, bytes: Int = 0) {
        // A short last chunk says little about a long one.
        guard tokens * 2 >= size else { return }
        let fitting = Double(tokens) * Self.aim / max(milliseconds, 0.1)
        size = Self.clamped(min(fitting, Double(size) * 1.5))
        if bytes > 0 { size = min(size, max(1, tokens * (Self.mostBytes / 4 * 3) / bytes)) }
    }

    /// Takes note of a chunk whose rows were too large, so many of which were read.
    mutating func exceeded(_ tokens: Int, rows: Int) {
        size = max(1, min(tokens / 2, rows * 3 / 4))
    }

    /// Takes note of a chunk that lost against another transaction.
    mutating func lost() { size = min(size, Self.clamped(Double(size) / 2)) }

    private static func clamped(_ size: Double) -> Int {
        min(max(Int(size), range.lowerBound), range.upperBound)
    }
}
