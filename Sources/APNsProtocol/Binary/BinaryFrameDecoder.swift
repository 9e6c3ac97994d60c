// A sender writes frames one after another, and reads cut them at any byte. There is no mark between
// frames: the start of each follows from the lengths in those before it. So after one frame that
// cannot be read there is no next one. Apple's gateway then discards everything that follows, and
// so does this decoder.
//
// States: between frames; inside one (`carry` holds its first bytes, at most one frame); and refused,
// which is final. Commands 0 and 1 are refused at the first length that is wrong. Command 2 is
// refused after its last byte, because the identifier for the answer may be its last item. So the
// result is the same for every split of the bytes.

/// Decodes the frames of one connection from bytes cut at any place. A pure value with at most
/// `mostItemBytes` bytes of memory for the unfinished frame. Sources: Apple, "Binary Provider API"
/// and "Legacy Notification Format" (archived).
package struct BinaryFrameDecoder: Sendable {
    /// The most bytes of items that command 2 may announce: five of the longest that two bytes of
    /// length allow. Frames above the limits of BinaryFrame are read up to here, so that the answer
    /// can name them.
    package static let mostItemBytes = BinaryItem.allCases.count * BinaryItem.longest

    /// What the first bytes of a frame say.
    private enum Progress {
        /// This many bytes are needed to say more.
        case needs(Int)
        /// The frame has this many bytes, and all are there.
        case whole(Int)
        /// The lengths are wrong.
        case refused(BinaryFault)
    }

    private var carry: [UInt8] = []

    /// The frame that could not be read; nothing after it is decoded.
    package private(set) var refusal: BinaryRefusal?

    /// The number of bytes in all frames so far; also the offset of the unfinished or refused one.
    package private(set) var wholeFrameBytes = 0

    /// The number of all bytes received so far, those after a refused frame included.
    package private(set) var bytesSeen = 0

    package init() {}

    /// The number of bytes of the unfinished frame; 0 between frames and after a refusal.
    package var unfinished: Int { carry.count }

    /// Decodes the next bytes of the connection and appends the frames they complete. After a
    /// refusal it only counts the bytes.
    package mutating func decode(
        _ bytes: UnsafeRawBufferPointer, into frames: inout [BinaryFrame]
    ) {
        bytesSeen += bytes.count
        guard refusal == nil else { return }
        var rest = bytes
        while !carry.isEmpty, !rest.isEmpty, refusal == nil {
            completeCarry(from: &rest, into: &frames)
        }
        while !rest.isEmpty, refusal == nil {
            switch Self.progress(rest) {
            case .needs:
                carry.append(contentsOf: rest)
                return
            case .whole(let count):
                read(UnsafeRawBufferPointer(rebasing: rest[..<count]), into: &frames)
                rest = UnsafeRawBufferPointer(rebasing: rest[count...])
            case .refused(let fault):
                refuse(start(rest), fault)
            }
        }
    }

    /// Decodes the next bytes of the connection; see the form for raw buffers.
    package mutating func decode(_ bytes: [UInt8], into frames: inout [BinaryFrame]) {
        bytes.withUnsafeBytes { decode($0, into: &frames) }
    }

    /// Moves the bytes that the unfinished frame needs next, and reads it where it is whole.
    private mutating func completeCarry(
        from rest: inout UnsafeRawBufferPointer, into frames: inout [BinaryFrame]
    ) {
        switch carry.withUnsafeBytes(Self.progress) {
        case .needs(let count):
            let taken = min(count - carry.count, rest.count)
            carry.append(contentsOf: rest.prefix(taken))
            rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(taken))
        case .whole, .refused: break
        }
        switch carry.withUnsafeBytes(Self.progress) {
        case .needs: return
        case .whole:
            let whole = carry
            carry.removeAll(keepingCapacity: true)
            whole.withUnsafeBytes { read($0, into: &frames) }
        case .refused(let fault):
            let whole = carry
            carry = []
            whole.withUnsafeBytes { refuse(start($0), fault) }
        }
    }

    private static func progress(_ bytes: UnsafeRawBufferPointer) -> Progress {
        guard let first = bytes.first else { return .needs(1) }
        guard let command = BinaryCommand(rawValue: first) else {
            return .refused(BinaryFault("command \(first) is none of 0, 1 and 2"))
        }
        guard command == .framed else { return bodyProgress(bytes, command) }
        guard bytes.count >= BinaryFrame.framedHeaderLength else {
            return .needs(BinaryFrame.framedHeaderLength)
        }
        let length = Int(bytes.bigEndian(UInt32.self, at: 1))
        guard length <= mostItemBytes else {
            return .refused(
                BinaryFault(
                    "the frame announces \(length) bytes of items, the limit is \(mostItemBytes)"))
        }
        let count = BinaryFrame.framedHeaderLength + length
        return bytes.count < count ? .needs(count) : .whole(count)
    }

    /// Follows the lengths of commands 0 and 1.
    private static func bodyProgress(
        _ bytes: UnsafeRawBufferPointer, _ command: BinaryCommand
    ) -> Progress {
        let token = bodyStart(command) + 2
        guard bytes.count >= token else { return .needs(token) }
        let tokenLength = Int(bytes.bigEndian(UInt16.self, at: token - 2))
        let payload = token + tokenLength + 2
        do throws(BinaryFault) {
            try BinaryFrame.checkToken(bytes: tokenLength)
            guard bytes.count >= payload else { return .needs(payload) }
            let payloadLength = Int(bytes.bigEndian(UInt16.self, at: payload - 2))
            try BinaryFrame.checkPayload(bytes: payloadLength, of: command)
            let count = payload + payloadLength
            return bytes.count < count ? .needs(count) : .whole(count)
        } catch {
            return .refused(error)
        }
    }

    /// The offset of the token's length in commands 0 and 1.
    private static func bodyStart(_ command: BinaryCommand) -> Int {
        command == .enhanced ? 9 : 1
    }

    /// Reads a frame of which all bytes are there.
    private mutating func read(
        _ bytes: UnsafeRawBufferPointer, into frames: inout [BinaryFrame]
    ) {
        do throws(BinaryFault) {
            frames.append(
                bytes[0] == BinaryCommand.framed.rawValue
                    ? try BinaryItems.frame(
                        UnsafeRawBufferPointer(
                            rebasing: bytes.dropFirst(BinaryFrame.framedHeaderLength)))
                    : try Self.bodyFrame(bytes))
            wholeFrameBytes += bytes.count
        } catch {
            refuse(bytes, error)
        }
    }

    /// Reads a frame of command 0 or 1 whose lengths are right.
    private static func bodyFrame(
        _ bytes: UnsafeRawBufferPointer
    ) throws(BinaryFault) -> BinaryFrame {
        let isEnhanced = bytes[0] == BinaryCommand.enhanced.rawValue
        let start = bodyStart(isEnhanced ? .enhanced : .simple) + 2
        let end = start + Int(bytes.bigEndian(UInt16.self, at: start - 2))
        guard let token = DeviceToken(UnsafeRawBufferPointer(rebasing: bytes[start..<end])) else {
            throw .missingToken
        }
        let payload = Array(bytes[(end + 2)...])
        guard isEnhanced else { return try BinaryFrame(.simple, token: token, payload: payload) }
        return try BinaryFrame(
            .enhanced, identifier: bytes.bigEndian(UInt32.self, at: 1),
            expiration: bytes.bigEndian(UInt32.self, at: 5), token: token, payload: payload)
    }

    /// The bytes that are there at any split when lengths are refused: of command 1 with its
    /// identifier, of command 2 without its items.
    private func start(_ bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: bytes.prefix(BinaryFrame.framedHeaderLength))
    }

    /// Notes the frame that begins with these bytes as the last one.
    private mutating func refuse(_ bytes: UnsafeRawBufferPointer, _ fault: BinaryFault) {
        let identifier: UInt32? =
            switch BinaryCommand(rawValue: bytes[0]) {
            case .enhanced where bytes.count >= 5: bytes.bigEndian(UInt32.self, at: 1)
            case .framed:
                BinaryItems.identifier(
                    UnsafeRawBufferPointer(
                        rebasing: bytes.dropFirst(BinaryFrame.framedHeaderLength)))
            default: nil
            }
        refusal = BinaryRefusal(
            offset: wholeFrameBytes, command: bytes[0], identifier: identifier, fault: fault)
    }
}

/// Why bytes are not a frame, or a notification does not fit into one.
package struct BinaryFault: Error, Hashable, Sendable, CustomStringConvertible {
    /// The status with which a gateway answers. Source: Apple, "Binary Provider API" (archived), codes in
    /// error-response packets.
    package let status: BinaryStatus
    /// One clause for messages and reports.
    package let description: String

    /// Apple does not say which status a malformed item has; 128 is the one for frames that could not be
    /// parsed.
    init(_ description: String, _ status: BinaryStatus = .protocolError) {
        (self.status, self.description) = (status, description)
    }

    package static let missingToken = BinaryFault("it has no device token", .missingToken)
    package static let missingPayload = BinaryFault("it has no payload", .missingPayload)

    static func priority(_ number: UInt8) -> BinaryFault {
        BinaryFault("priority \(number) is none of 10 and 5, which this interface has")
    }
}

/// A frame that a decoder refused, with the values that an answer needs.
package struct BinaryRefusal: Hashable, Sendable, CustomStringConvertible {
    /// The number of the first byte of the frame, counted from 0 at the start of the connection.
    package let offset: Int
    /// The first byte of the frame.
    package let command: UInt8
    /// The identifier; nil where the frame has none, or the fault lies before it.
    package let identifier: UInt32?
    package let fault: BinaryFault

    /// The packet that a gateway sends before it closes; nil for command 0, for which it only closes
    /// (Apple, "Legacy Notification Format"). A frame without identifier is answered with 0.
    package var answer: BinaryErrorPacket? {
        guard command != BinaryCommand.simple.rawValue else { return nil }
        return BinaryErrorPacket(fault.status, identifier: identifier ?? 0)
    }

    /// One clause for messages and reports.
    package var description: String {
        let name = identifier.map { ", identifier \($0)" } ?? ""
        return "the frame at byte \(offset) (command \(command)\(name)): \(fault)"
    }
}
