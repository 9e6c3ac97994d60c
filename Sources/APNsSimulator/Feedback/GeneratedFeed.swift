import APNsProtocol

// A feed of any length computed from a few numbers. Ten million tuples need no memory, and a test
// or benchmark can compute tuple i without the feed.
//
// Tuple i, from 0:
//   length  lengths[i mod lengths.count]
//   time    firstTime + (i mod timeSpan)
//   token   64-bit words, big-endian, cut to the length: word 0 = m(m(seed) + i * G),
//           word k = m(word 0 + k * G), all modulo 2^64, where m is the output function of
//           SplitMix64 (Steele, Lea, Flood 2014) and G = 0x9E3779B97F4A7C15
//
// m is a bijection and G is odd, so tokens of 8 bytes or more differ for every i.

/// A computed feed.
package struct GeneratedFeed: Sendable, Equatable {
    /// The number of tuples.
    package let count: Int
    /// The seed of the tokens.
    package let seed: UInt64
    /// The token lengths in bytes, used in turn; at least one.
    package let lengths: [UInt16]
    /// Time of tuple 0, seconds since 1970-01-01T00:00:00Z.
    package let firstTime: UInt32
    /// The number of seconds after which the times repeat, at least 1.
    package let timeSpan: UInt32

    private static let increment: UInt64 = 0x9E37_79B9_7F4A_7C15
    private let start: UInt64

    /// Makes a feed. Without lengths all tokens have 32 bytes; a span of 0 counts as 1.
    package init(
        count: Int, seed: UInt64, lengths: [UInt16] = [32], firstTime: UInt32 = 1_700_000_000,
        timeSpan: UInt32 = 86400
    ) {
        self.count = max(count, 0)
        self.seed = seed
        self.lengths = lengths.isEmpty ? [32] : lengths
        self.firstTime = firstTime
        self.timeSpan = max(timeSpan, 1)
        start = Self.mixed(seed)
    }

    /// Tuple `index`, also beyond the end of the feed.
    package func tuple(at index: Int) -> FeedbackTuple {
        FeedbackTuple(time: time(at: index), token: token(at: index))
    }

    /// The time of tuple `index`.
    package func time(at index: Int) -> EpochSeconds {
        EpochSeconds(firstTime &+ UInt32(UInt64(index) % UInt64(timeSpan)))
    }

    /// The token of tuple `index`; nil where its length is 0.
    package func token(at index: Int) -> DeviceToken? {
        var bytes = [UInt8](repeating: 0, count: (length(at: index) + 7) & ~7)
        bytes.withUnsafeMutableBytes { fillToken(index, $0) }
        return DeviceToken(Array(bytes[..<length(at: index)]))
    }

    /// The size of the feed in bytes.
    package var encodedLength: Int {
        let round = lengths.reduce(0) { $0 + FeedbackTuple.headerLength + Int($1) }
        let rest = lengths.prefix(count % lengths.count).reduce(0) {
            $0 + FeedbackTuple.headerLength + Int($1)
        }
        return count / lengths.count * round + rest
    }

    /// The least size of a buffer for `encode` with any tuple.
    static let largestTuple = FeedbackTuple.headerLength + (Int(UInt16.max) + 7) & ~7

    /// Writes complete tuples from `index` on until the buffer or the feed ends; moves `index` and
    /// returns the number of bytes written. The wire form is that of `FeedbackTuple.encode`,
    /// without intermediate values, because benchmarks use it as load.
    func encode(from index: inout Int, into buffer: UnsafeMutableRawBufferPointer) -> Int {
        var filled = 0
        while index < count {
            let length = length(at: index)
            let body = filled + FeedbackTuple.headerLength
            // Tokens are written in whole words, so up to 7 more bytes are needed.
            let room = (length + 7) & ~7
            guard body + room <= buffer.count else {
                break
            }
            buffer.storeBytes(
                of: time(at: index).rawValue.bigEndian, toByteOffset: filled, as: UInt32.self)
            buffer.storeBytes(
                of: UInt16(length).bigEndian, toByteOffset: filled + 4, as: UInt16.self)
            fillToken(index, UnsafeMutableRawBufferPointer(rebasing: buffer[body..<(body + room)]))
            filled = body + length
            index += 1
        }
        return filled
    }

    private func length(at index: Int) -> Int {
        lengths.count == 1 ? Int(lengths[0]) : Int(lengths[index % lengths.count])
    }

    /// Fills a whole number of words.
    private func fillToken(_ index: Int, _ words: UnsafeMutableRawBufferPointer) {
        let first = Self.mixed(start &+ UInt64(index) &* Self.increment)
        var word = first
        var state = first
        for offset in stride(from: 0, to: words.count, by: 8) {
            words.storeBytes(of: word.bigEndian, toByteOffset: offset, as: UInt64.self)
            state &+= Self.increment
            word = Self.mixed(state)
        }
    }

    private static func mixed(_ value: UInt64) -> UInt64 {
        var mixed = value
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
