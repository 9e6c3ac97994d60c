import APNsProtocol
import Encodings
import Glibc
import Synchronization

/// The source of the bytes of one list.
package enum FeedSource: Sendable {
    /// These bytes, unchanged.
    case bytes([UInt8])
    /// The bytes of a file, read while they are served.
    case file(String)
    /// Computed tuples.
    case generated(GeneratedFeed)

    /// A list of tuples in wire form.
    package static func tuples(_ tuples: [FeedbackTuple]) -> FeedSource {
        var bytes: [UInt8] = []
        for tuple in tuples {
            tuple.encode(into: &bytes)
        }
        return .bytes(bytes)
    }

    /// Bytes spelled in hex, spaces and line ends ignored. Throws for anything else.
    package static func hex(_ text: String) throws(SimulatorFailure) -> FeedSource {
        .bytes(try HexText.bytes(text))
    }

    /// Parses tuples from lines of `<seconds since 1970> <token in hex>`. A line may lack the token
    /// (a tuple of length 0), be empty, or be a comment after `#`. `name` is the name of the source
    /// in messages.
    package static func lines(
        _ text: String, of name: String
    ) throws(SimulatorFailure) -> FeedSource {
        var tuples: [FeedbackTuple] = []
        for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false)
            .enumerated()
        {
            let fields = line.prefix { $0 != "#" }.split(whereSeparator: \.isWhitespace)
            guard let first = fields.first else {
                continue
            }
            guard fields.count <= 2, let seconds = UInt32(first) else {
                throw SimulatorFailure(
                    "reading the tuples \(name): line \(index + 1) is not `<seconds> <token hex>`")
            }
            var token: DeviceToken?
            if fields.count == 2 {
                do {
                    token = try DeviceToken(spelling: fields[1])
                } catch {
                    throw SimulatorFailure(
                        "reading the tuples \(name): token in line \(index + 1): \(error)")
                }
            }
            tuples.append(FeedbackTuple(time: EpochSeconds(seconds), token: token))
        }
        return .tuples(tuples)
    }
}

/// Parses bytes in hex.
enum HexText {
    static func bytes(_ text: String) throws(SimulatorFailure) -> [UInt8] {
        let digits = text.filter { !$0.isWhitespace }
        guard digits.count % 2 == 0 else {
            throw SimulatorFailure("reading hex: an odd number of digits")
        }
        guard let bytes = Hex.bytes(digits.utf8) else {
            throw SimulatorFailure("reading hex: something else than hex digits")
        }
        return bytes
    }
}

/// Reads a source from its start to its end in portions, with constant memory.
final class FeedCursor {
    private let source: FeedSource
    private var position = 0
    private var descriptor: Int32 = -1

    /// The size of a portion: enough for the largest tuple, and large enough for few calls.
    static let portion = 128 * 1024

    init(_ source: FeedSource) throws(SimulatorFailure) {
        self.source = source
        if case .file(let path) = source {
            descriptor = open(path, O_RDONLY | O_CLOEXEC)
            guard descriptor >= 0 else {
                throw SimulatorFailure(
                    "opening the feed \(path): \(String(cString: strerror(errno)))")
            }
        }
    }

    deinit {
        if descriptor >= 0 {
            close(descriptor)
        }
    }

    /// Fills the buffer and returns the number of bytes; 0 at the end.
    func next(into buffer: UnsafeMutableRawBufferPointer) throws(SimulatorFailure) -> Int {
        switch source {
        case .bytes(let bytes):
            let count = min(buffer.count, bytes.count - position)
            bytes.withUnsafeBytes {
                buffer.copyMemory(
                    from: UnsafeRawBufferPointer(rebasing: $0[position..<(position + count)]))
            }
            position += count
            return count
        case .file(let path):
            let count = read(descriptor, buffer.baseAddress, buffer.count)
            guard count >= 0 else {
                throw SimulatorFailure(
                    "reading the feed \(path): \(String(cString: strerror(errno)))")
            }
            return count
        case .generated(let feed):
            return feed.encode(from: &position, into: buffer)
        }
    }

    /// Continues at the start, for a feed without end.
    func rewind() {
        position = 0
        if descriptor >= 0 {
            lseek(descriptor, 0, SEEK_SET)
        }
    }
}

/// The lists that a gateway has not served yet.
///
/// Reading is destructive, as with Apple's service (Binary Provider API, "The Feedback Service"): a
/// connection removes its list from the queue, whether or not the client reads it to its end. When
/// none is left, the list is the tokens that were found dead since the last connection.
final class FeedQueue: Sendable {
    private struct State {
        var feeds: [FeedSource]
        var served = 0
        /// The number of lists of dead tokens.
        var grown = 0
    }

    private let state: Mutex<State>
    private let repeats: Bool
    private let dead: DeadTokens?

    init(_ feeds: [FeedSource], repeats: Bool, dead: DeadTokens?) {
        state = Mutex(State(feeds: feeds))
        self.repeats = repeats
        self.dead = dead
    }

    func add(_ feed: FeedSource) {
        state.withLock { $0.feeds.append(feed) }
    }

    /// Removes and returns the next list with its number; nil when none is left.
    func next() -> (number: Int, feed: FeedSource)? {
        state.withLock { state in
            guard !state.feeds.isEmpty, repeats || state.served < state.feeds.count else {
                guard let tuples = dead?.take(), !tuples.isEmpty else {
                    return nil
                }
                state.grown += 1
                return (state.feeds.count + state.grown - 1, .tuples(tuples))
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
