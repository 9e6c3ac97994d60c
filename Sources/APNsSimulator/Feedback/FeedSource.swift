import APNsProtocol
import Encodings
import FoundationEssentials
import SecureTransport
import Glibc
import Synchronization

/// The source of the bytes of one list.
package enum ListSource: Sendable {
    /// These bytes, unchanged.
    case bytes([UInt8])
    /// The bytes of a file, read while they are served.
    case file(String)
    /// Computed tuples.
    case generated(GeneratedList)

    /// A list of tuples in wire form.
    package static func tuples(_ tuples: [FeedbackTuple]) -> ListSource {
        var bytes: [UInt8] = []
        for tuple in tuples {
            tuple.encode(into: &bytes)
        }
        return .bytes(bytes)
    }

    /// The bytes that a text spells in hex, spaces and line ends ignored.
    package static func hexBytes(_ text: String) throws(Refusal) -> [UInt8] {
        guard let bytes = Hex.bytes(text.filter { !$0.isWhitespace }.utf8) else {
            throw Refusal("reading hex: give two hex digits for each byte")
        }
        return bytes
    }

    /// Parses tuples from lines of `<seconds since 1970> <token in hex>`. A line may lack the token
    /// (a tuple of length 0), be empty, or be a comment after `#`. `name` is the name of the source
    /// in messages.
    package static func lines(
        _ text: String, of name: String
    ) throws(Refusal) -> ListSource {
        var tuples: [FeedbackTuple] = []
        for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false)
            .enumerated()
        {
            let fields = line.prefix { $0 != "#" }.split(whereSeparator: \.isWhitespace)
            guard let first = fields.first else {
                continue
            }
            let token = fields.dropFirst().first.map { try? DeviceToken(spelling: $0) }
            guard fields.count <= 2, let seconds = UInt32(first), token != .some(nil) else {
                throw Refusal(
                    "reading the tuples \(name): line \(index + 1) is not `<seconds> <token hex>`")
            }
            tuples.append(FeedbackTuple(time: EpochSeconds(seconds), token: token ?? nil))
        }
        return .tuples(tuples)
    }
}

/// Reads a source from its start to its end in portions, with constant memory.
struct ListCursor {
    private let content: Data
    private let feed: GeneratedList?
    /// The next byte of the content, or the next tuple of the feed; 0 continues at the start.
    var position = 0

    /// The size of a portion: enough for the largest tuple, and large enough for few calls.
    static let portion = 128 * 1024

    init(_ source: ListSource) throws(Refusal) {
        switch source {
        case .bytes(let bytes): (content, feed) = (Data(bytes), nil)
        case .generated(let generated): (content, feed) = (Data(), generated)
        case .file(let path):
            feed = nil
            do {
                content = try Data(
                    contentsOf: URL(fileURLWithPath: path), options: .alwaysMapped)
            } catch {
                throw Refusal("opening the feed \(path): \(TransportFailure.systemMessage(errno))")
            }
        }
    }

    /// Fills the buffer and returns the number of bytes; 0 at the end.
    mutating func next(into buffer: UnsafeMutableRawBufferPointer) -> Int {
        if let feed { return feed.encode(from: &position, into: buffer) }
        let end = min(position + buffer.count, content.count)
        let count = content.copyBytes(to: buffer, from: position..<end)
        position = end
        return count
    }
}

/// The lists that a gateway has not served yet.
///
/// Reading is destructive, as with Apple's service (Binary Provider API, "The Feedback Service"): a
/// connection removes its list from the queue, whether or not the client reads it to its end. When
/// none is left, the list is the tokens that were found dead since the last connection.
final class ListQueue: Sendable {
    private struct State {
        var feeds: [ListSource]
        var served = 0
    }

    private let state: Mutex<State>
    private let repeats: Bool
    private let dead: DeadTokens?

    init(_ feeds: [ListSource], repeats: Bool, dead: DeadTokens?) {
        state = Mutex(State(feeds: feeds))
        self.repeats = repeats
        self.dead = dead
    }

    func add(_ feed: ListSource) {
        state.withLock { $0.feeds.append(feed) }
    }

    /// Removes and returns the next list with its number; nil when none is left.
    func next() -> (number: Int, feed: ListSource)? {
        state.withLock { state in
            if state.feeds.isEmpty || !repeats && state.served == state.feeds.count {
                guard let tuples = dead?.take(), !tuples.isEmpty else {
                    return nil
                }
                state.feeds.append(.tuples(tuples))
            }
            let number = state.served % state.feeds.count
            state.served += 1
            let feed = state.feeds[number]
            if !repeats {
                // A long list must not stay in memory.
                state.feeds[number] = .bytes([])
            }
            return (number, feed)
        }
    }
}

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
package struct GeneratedList: Sendable, Equatable {
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
        start = Self.scrambled(seed)
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
        let first = Self.scrambled(start &+ UInt64(index) &* Self.increment)
        var word = first
        var state = first
        for offset in stride(from: 0, to: words.count, by: 8) {
            words.storeBytes(of: word.bigEndian, toByteOffset: offset, as: UInt64.self)
            state &+= Self.increment
            word = Self.scrambled(state)
        }
    }

    private static func scrambled(_ value: UInt64) -> UInt64 {
        var bits = value
        bits = (bits ^ (bits >> 30)) &* 0xBF58_476D_1CE4_E5B9
        bits = (bits ^ (bits >> 27)) &* 0x94D0_49BB_1331_11EB
        return bits ^ (bits >> 31)
    }
}
