// A list is a plain sequence of tuples without header, count, checksum or terminator, and reads cut
// it at any byte. Each tuple's boundary follows only from the length field, so the only check of
// the boundaries is whether a length is plausible.
//
// States: between tuples; inside one (`carry` holds its first bytes); and `doubting`, entered when
// a header announces more than `longestToken` bytes. Such a token is never produced. If the list
// ends before the announced bytes came, it was cut inside that tuple. If they all came, the length
// was false or the boundaries were lost earlier, and every boundary from there on is a guess: the
// decoder is `outOfStep` and decodes no more tuples. It never searches for the next plausible
// header, because a wrong resynchronisation produces false tokens, and a false token may be the
// token of a real device.
//
// The bytes from `wholeTupleBytes` on have no decoded tuple; the owner of the raw list puts exactly
// these in quarantine.

/// One entry of a feedback list: at `time`, APNs determined that the app no longer exists on the
/// device behind `token`.
///
/// On the wire: time (4 bytes), token length (2), token, all big-endian; 38 bytes with a 32-byte
/// token. Source: Apple, Binary Provider API (archived), "The Feedback Service".
package struct FeedbackTuple: Hashable, Sendable {
    /// Bytes before the token: time and token length.
    package static let headerLength = 6

    /// The time at which APNs determined that the app was gone.
    package let time: EpochSeconds

    /// The token; nil where the tuple announced zero bytes. Such a tuple is well-formed but names
    /// no device, so it is never a database key.
    package let token: DeviceToken?

    /// Makes a tuple; a nil token is the zero-length one.
    package init(time: EpochSeconds, token: DeviceToken?) {
        self.time = time
        self.token = token
    }

    /// The size on the wire in bytes.
    package var encodedLength: Int { Self.headerLength + (token?.count ?? 0) }

    /// Appends the wire form, as a gateway sends it.
    package func encode(into buffer: inout [UInt8]) {
        withUnsafeBytes(of: time.rawValue.bigEndian) { buffer.append(contentsOf: $0) }
        withUnsafeBytes(of: UInt16(token?.count ?? 0).bigEndian) { buffer.append(contentsOf: $0) }
        token?.append(to: &buffer)
    }
}

/// Decodes a feedback list from bytes cut at any place. A pure value: the same bytes give the same
/// tuples for every split.
///
/// Source: Apple, Binary Provider API (archived), "The Feedback Service".
package struct FeedbackDecoder: Sendable {
    /// The longest accepted token, in bytes. 100 are documented for the binary interface; longer
    /// ones are suspicious but not invalid. An accepted length must be rare in random bytes.
    package static let longestToken = 256

    private enum State: Sendable {
        case inStep
        case doubting(present: Int, announced: Int)
        case outOfStep(announced: Int)
    }

    private var state = State.inStep
    private var carry: [UInt8] = []

    /// The number of bytes in all whole tuples so far; also the offset at which undecoded bytes
    /// begin.
    package private(set) var wholeTupleBytes = 0

    /// The number of all bytes received so far.
    package private(set) var bytesSeen = 0

    package init() {}

    /// Decodes the next bytes of the list and appends the tuples they complete.
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

    /// Decodes the next bytes of the list; see the form for raw buffers.
    package mutating func decode(_ bytes: [UInt8], into tuples: inout [FeedbackTuple]) {
        bytes.withUnsafeBytes { decode($0, into: &tuples) }
    }

    /// The ending of the list if no more bytes follow. The decoder can continue afterwards.
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

    /// Decodes the tuples that are completely inside `bytes` and leaves the fragment after them.
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

    /// Moves the missing bytes of the carried tuple; returns the rest of `bytes`.
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

// A list has no terminator, so its end is judged by two facts: how the connection (or this run)
// ended, and whether the bytes end on a tuple boundary. Only both together show whether the list
// can be complete.

/// The end of reading from the gateway, independently of the bytes.
package enum CaptureEnd: String, Hashable, Sendable, CaseIterable {
    /// The gateway announced the end (TLS close_notify, RFC 8446 section 6.1).
    case closeNotify = "close-notify"
    /// The connection ended without close_notify; more bytes may be missing.
    case cut
    /// The gateway reset the connection.
    case reset
    /// No byte arrived for the idle time, and the connection stayed open.
    case idle
    /// Bytes came, but too few of them, so that reading ended on our side; the gateway may have more.
    case slow
    /// TLS failed in the middle of the list.
    case broken
    /// The byte limit was reached; the gateway had more.
    case full
    /// This run received a request to stop.
    case stopped
    /// This run ended without a record: it was killed, or the power failed.
    case crashed
    /// The bytes came from a file and are its whole content.
    case file
}

/// The end of a list's bytes relative to its tuples.
package enum FeedbackEnding: Hashable, Sendable, CustomStringConvertible {
    /// On a tuple boundary.
    case clean
    /// Inside the six bytes before a token; `present` of them arrived, 1 to 5.
    case truncatedHeader(present: Int)
    /// Inside a token; `present` of `announced` bytes arrived.
    case truncatedToken(present: Int, announced: Int)
    /// A tuple announced an impossible token length and the list continued after it: the bytes from
    /// this offset on cannot be decoded reliably.
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
                + "\(FeedbackDecoder.longestToken): these bytes may be no list at all"
        case .truncatedToken(let present, let announced):
            "cut \(present) bytes into a token of \(announced)"
        case .outOfStep(let offset, let announced):
            "out of step: the tuple at byte \(offset) announced a token of \(announced) bytes"
        }
    }
}

/// The end of a list. The raw value is the word in reports.
package enum ListEnd: String, Hashable, Sendable, CaseIterable {
    /// On a tuple boundary, and the gateway announced the end.
    case clean
    /// On a tuple boundary; the gateway left the connection open and silent.
    case idle
    /// Inside a tuple, or without the gateway's announcement of the end; also where a tuple
    /// announced an impossible length and the list ended before that many bytes came.
    case truncated
    /// By a reset: whole tuples are good, more tuples may be lost.
    case reset
    /// By silence inside a tuple, or because the gateway sent too slowly.
    case timeout
    /// No connection, a refusal by the gateway, or no way to ask it: nothing was read.
    case refused
    /// The tuple boundaries are lost: a tuple announced an impossible length, and the list
    /// continued after it. The bytes after the last credible tuple are in quarantine.
    case misframed

    /// Judges the end of a captured list from the end of its connection and of its bytes.
    package init(_ capture: CaptureEnd, _ ending: FeedbackEnding) {
        if case .outOfStep = ending {
            self = .misframed
            return
        }
        switch capture {
        case .closeNotify, .file: self = ending == .clean ? .clean : .truncated
        case .idle: self = ending == .clean ? .idle : .timeout
        case .slow: self = .timeout
        case .reset: self = .reset
        case .cut, .broken, .full, .stopped, .crashed: self = .truncated
        }
    }

    /// Whether the list counts as complete.
    package var isComplete: Bool { self == .clean || self == .idle }
}
