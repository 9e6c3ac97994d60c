// A feed is a bare run of tuples: no header, count, checksum or terminator, and reads cut it
// anywhere. The only way to stay in step is to believe each length field, so the only defence
// against a stream that is not in step is to doubt a length.
//
// States: between tuples; inside one (`carry` holds its first bytes); and `doubting`, entered when
// a header announces more than `longestToken` bytes. Such a token is never produced. If the feed
// ends before the announced bytes came, it was cut inside that tuple; if they all came, the length
// was a lie or the stream lost step earlier, and since then every boundary is a guess: the decoder
// is `outOfStep` and decodes nothing more. It never searches for the next plausible header: a
// wrong resynchronisation invents tokens, and an invented token may be somebody's.
//
// The bytes from `wholeTupleBytes` on are those without a verdict; whoever keeps the raw feed
// quarantines exactly them.

/// How a decoded feed ended.
package enum FeedbackEnding: Hashable, Sendable, CustomStringConvertible {
    /// On a tuple boundary.
    case clean
    /// Inside the six bytes before a token; the number of bytes present, 1 to 5.
    case truncatedHeader(present: Int)
    /// Inside a token; bytes present and bytes announced.
    case truncatedToken(present: Int, announced: Int)
    /// A tuple announced an impossible token length and the stream went on past it: nothing from
    /// this byte offset on can be trusted.
    case outOfStep(offset: Int, announced: Int)

    /// One clause for messages and reports.
    package var description: String {
        switch self {
        case .clean: "on a tuple boundary"
        case .truncatedHeader(let present):
            "cut \(present) bytes into the 6-byte header of a tuple"
        case .truncatedToken(let present, let announced)
        where announced > FeedbackDecoder.longestToken:
            "cut \(present) bytes into a token of \(announced), and none is longer than "
                + "\(FeedbackDecoder.longestToken): these bytes may be no feed at all"
        case .truncatedToken(let present, let announced):
            "cut \(present) bytes into a token of \(announced)"
        case .outOfStep(let offset, let announced):
            "out of step: the tuple at byte \(offset) announced a token of \(announced) bytes"
        }
    }
}

/// Decodes a feedback list from bytes cut at any place: a pure value, same bytes in, same tuples
/// out, whatever the split.
///
/// Source: Apple, Binary Provider API (archived), "The Feedback Service".
package struct FeedbackDecoder: Sendable {
    /// The longest token believed, in bytes: 100 are documented for the binary interface, longer
    /// ones are suspicious but not invalid, and a doubtful length must be rare in random bytes.
    package static let longestToken = 256

    private enum State: Sendable {
        case inStep
        case doubting(present: Int, announced: Int)
        case outOfStep(announced: Int)
    }

    private var state = State.inStep
    private var carry: [UInt8] = []

    /// Bytes of all whole tuples so far; equally the offset at which undecoded bytes begin.
    package private(set) var wholeTupleBytes = 0

    /// All bytes seen so far.
    package private(set) var bytesSeen = 0

    /// Starts at the beginning of a feed.
    package init() {}

    /// Takes the next bytes of the feed and appends the tuples they complete.
    package mutating func decode(
        _ bytes: UnsafeRawBufferPointer, into tuples: inout [FeedbackTuple]
    ) {
        bytesSeen += bytes.count
        guard case .inStep = state else { return doubt(bytes.count) }
        var rest = bytes
        if !carry.isEmpty {
            rest = completeCarry(with: rest, into: &tuples)
            guard carry.isEmpty, case .inStep = state else { return }
        }
        decodeWhole(&rest, into: &tuples)
        if case .inStep = state { carry.append(contentsOf: rest) }
    }

    /// Takes the next bytes of the feed; see the form for raw buffers.
    package mutating func decode(_ bytes: [UInt8], into tuples: inout [FeedbackTuple]) {
        bytes.withUnsafeBytes { decode($0, into: &tuples) }
    }

    /// What it means that the feed ends here. The decoder can go on afterwards.
    package var ending: FeedbackEnding {
        switch state {
        case .doubting(let present, let announced):
            .truncatedToken(present: present, announced: announced)
        case .outOfStep(let announced):
            .outOfStep(offset: wholeTupleBytes, announced: announced)
        case .inStep where carry.isEmpty: .clean
        case .inStep where carry.count < FeedbackTuple.headerLength:
            .truncatedHeader(present: carry.count)
        case .inStep:
            .truncatedToken(
                present: carry.count - FeedbackTuple.headerLength,
                announced: Int(carry[4]) << 8 | Int(carry[5]))
        }
    }

    /// Decodes the tuples that lie wholly inside `bytes` and leaves the fragment after them.
    private mutating func decodeWhole(
        _ bytes: inout UnsafeRawBufferPointer, into tuples: inout [FeedbackTuple]
    ) {
        var offset = 0
        defer { bytes = UnsafeRawBufferPointer(rebasing: bytes[offset...]) }
        while bytes.count - offset >= FeedbackTuple.headerLength {
            let length = Self.tokenLength(bytes, at: offset)
            let end = offset + FeedbackTuple.headerLength + length
            guard length <= Self.longestToken else {
                state = .doubting(present: 0, announced: length)
                doubt(bytes.count - offset - FeedbackTuple.headerLength)
                return
            }
            guard end <= bytes.count else { return }
            tuples.append(Self.tuple(bytes, from: offset, to: end))
            wholeTupleBytes += end - offset
            offset = end
        }
    }

    /// Moves as many bytes as the carried tuple still lacks; returns what is left of `bytes`.
    private mutating func completeCarry(
        with bytes: UnsafeRawBufferPointer, into tuples: inout [FeedbackTuple]
    ) -> UnsafeRawBufferPointer {
        var rest = bytes
        if carry.count < FeedbackTuple.headerLength {
            rest = fillCarry(to: FeedbackTuple.headerLength, from: rest)
            guard carry.count == FeedbackTuple.headerLength else { return rest }
        }
        let length = Int(carry[4]) << 8 | Int(carry[5])
        if length <= Self.longestToken {
            rest = fillCarry(to: FeedbackTuple.headerLength + length, from: rest)
            guard carry.count == FeedbackTuple.headerLength + length else { return rest }
        }
        let whole = carry
        carry.removeAll(keepingCapacity: true)
        whole.withUnsafeBytes { buffer in
            var buffer = buffer
            decodeWhole(&buffer, into: &tuples)
        }
        if case .doubting = state { doubt(rest.count) }
        return rest
    }

    private mutating func fillCarry(
        to wanted: Int, from bytes: UnsafeRawBufferPointer
    ) -> UnsafeRawBufferPointer {
        let taken = min(wanted - carry.count, bytes.count)
        carry.append(contentsOf: bytes.prefix(taken))
        return UnsafeRawBufferPointer(rebasing: bytes.dropFirst(taken))
    }

    private mutating func doubt(_ more: Int) {
        guard case .doubting(let present, let announced) = state else { return }
        let total = present + more
        state =
            total >= announced
            ? .outOfStep(announced: announced)
            : .doubting(present: total, announced: announced)
    }

    private static func tokenLength(_ bytes: UnsafeRawBufferPointer, at offset: Int) -> Int {
        Int(UInt16(bigEndian: bytes.loadUnaligned(fromByteOffset: offset + 4, as: UInt16.self)))
    }

    private static func tuple(
        _ bytes: UnsafeRawBufferPointer, from offset: Int, to end: Int
    ) -> FeedbackTuple {
        let seconds = bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self)
        let token = UnsafeRawBufferPointer(
            rebasing: bytes[(offset + FeedbackTuple.headerLength)..<end])
        return FeedbackTuple(
            time: EpochSeconds(UInt32(bigEndian: seconds)), token: DeviceToken(token))
    }
}
