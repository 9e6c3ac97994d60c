// One notification as the binary provider interface (port 2195) takes it.
//
// Three commands are in use. Apple added them one after the other, and gateways accept all three on
// one connection:
//
//   0 simple    00, token length (2), token, payload length (2), payload
//   1 enhanced  01, identifier (4), expiration (4), then as command 0
//   2 framed    02, length of all items (4), items; item = number (1), length (2), data
//
// All numbers are big-endian. A gateway answers a good frame with nothing. It answers a bad frame
// with one error packet, which needs the identifier to be of use; so command 0 cannot tell which
// notification failed. The lengths of tokens, payloads and items always have two bytes: senders that
// wrote one byte exist, and what they wrote cannot be read.

/// The first byte of a frame: its layout. Sources: Apple, "Binary Provider API" (2) and "Legacy
/// Notification Format" (0, 1), both archived.
package enum BinaryCommand: UInt8, Hashable, Sendable, CaseIterable {
    /// Token and payload only.
    case simple = 0
    /// With identifier and expiration.
    case enhanced = 1
    /// Items in any order; the only command with a priority.
    case framed = 2

    /// The largest payload in bytes: 256, and 2048 for `framed`.
    package var payloadLimit: Int { self == .framed ? 2_048 : 256 }
}

/// The number of an item in a frame of command 2. Source: Apple, "Binary Provider API" (archived),
/// table of items.
package enum BinaryItem: UInt8, Hashable, Sendable, CaseIterable {
    /// The device token, 1 to 100 bytes; required.
    case token = 1
    /// The payload, JSON of 1 to 2048 bytes without a final NUL; required.
    case payload = 2
    /// The identifier, 4 bytes, which an error packet repeats.
    case identifier = 3
    /// The expiration, 4 bytes: seconds since the Unix epoch; 0 means that APNs stores nothing.
    case expiration = 4
    /// The priority, 1 byte: 10 or 5.
    case priority = 5

    /// The bytes before the data of an item: number and length.
    static let headerLength = 3
    /// The longest item that its two bytes of length can announce, header included.
    static let longest = headerLength + Int(UInt16.max)

    /// The item in messages.
    fileprivate var name: String { "item \(rawValue) (\(self))" }

    /// The only length of the data in bytes; nil for token and payload.
    var fixedLength: Int? {
        switch self {
        case .token, .payload: nil
        case .identifier, .expiration: 4
        case .priority: 1
        }
    }
}

/// One notification of the binary provider interface. A value of this type fits the limits of its
/// command. Sources: Apple, "Binary Provider API" and "Legacy Notification Format" (archived).
package struct BinaryFrame: Hashable, Sendable {
    /// The longest token in bytes.
    package static let longestToken = 100
    /// The bytes before the items of command 2: command and length.
    static let framedHeaderLength = 5
    /// The longest size on the wire in bytes: command 2 with all items at their limits.
    package static let longest = 2_177

    package let command: BinaryCommand
    /// The sender's choice, which an error packet repeats; nil where the frame has none.
    package let identifier: UInt32?
    /// Seconds since the Unix epoch, 0 for one attempt; nil where the frame has none.
    package let expiration: UInt32?
    /// Nil where the frame has none, which APNs takes as 10.
    package let priority: NotificationPriority?
    /// The device token, 1 to 100 bytes.
    package let token: DeviceToken
    /// The payload: JSON, not checked here.
    package let payload: [UInt8]

    /// Makes a frame, without the values that its command does not have. Command 1 requires identifier and
    /// expiration, which are 0 where they are nil.
    package init(
        _ command: BinaryCommand, identifier: UInt32? = nil, expiration: UInt32? = nil,
        priority: NotificationPriority? = nil, token: DeviceToken, payload: [UInt8]
    ) throws(BinaryFault) {
        try Self.checkToken(bytes: token.count)
        try Self.checkPayload(bytes: payload.count, of: command)
        if command == .framed, priority == .lowest {
            throw .priority(NotificationPriority.lowest.rawValue)
        }
        let needed: UInt32? = command == .enhanced ? 0 : nil
        self.command = command
        self.identifier = command == .simple ? nil : identifier ?? needed
        self.expiration = command == .simple ? nil : expiration ?? needed
        self.priority = command == .framed ? priority : nil
        (self.token, self.payload) = (token, payload)
    }

    /// Checks the length of a token in bytes.
    static func checkToken(bytes count: Int) throws(BinaryFault) {
        guard count > 0 else { throw .missingToken }
        guard count <= longestToken else {
            throw BinaryFault(
                "the token has \(count) bytes, the limit is \(longestToken)", .invalidTokenSize)
        }
    }

    /// Checks the length of a payload in bytes.
    package static func checkPayload(
        bytes count: Int, of command: BinaryCommand
    ) throws(BinaryFault) {
        guard count > 0 else { throw .missingPayload }
        guard count <= command.payloadLimit else {
            throw BinaryFault(
                "the payload has \(count) bytes, the limit of this command is "
                    + "\(command.payloadLimit)", .invalidPayloadSize)
        }
    }
}

extension BinaryFrame {
    /// The size on the wire in bytes.
    package var encodedLength: Int {
        switch command {
        case .simple: 5 + token.count + payload.count
        case .enhanced: 13 + token.count + payload.count
        case .framed: Self.framedHeaderLength + itemsLength
        }
    }

    /// The bytes of all items with their headers.
    private var itemsLength: Int {
        var length = token.count + payload.count + 2 * BinaryItem.headerLength
        if identifier != nil { length += BinaryItem.headerLength + 4 }
        if expiration != nil { length += BinaryItem.headerLength + 4 }
        if priority != nil { length += BinaryItem.headerLength + 1 }
        return length
    }

    /// Appends the wire form; items of command 2 in the order of their numbers.
    package func encode(into buffer: inout [UInt8]) {
        let length = encodedLength
        // Each append to an array checks its capacity, so a frame is appended at once.
        withUnsafeTemporaryAllocation(byteCount: length, alignment: 1) { bytes in
            var writer = FrameWriter(bytes)
            write(to: &writer)
            precondition(writer.count == length)
            buffer.append(contentsOf: UnsafeRawBufferPointer(bytes))
        }
    }

    private func write(to writer: inout FrameWriter) {
        writer.put(command.rawValue)
        switch command {
        case .simple: writeBody(to: &writer)
        case .enhanced:
            writer.put(identifier ?? 0)
            writer.put(expiration ?? 0)
            writeBody(to: &writer)
        case .framed:
            writer.put(UInt32(itemsLength))
            writer.put(headerOf: .token, length: token.count)
            writer.put(token)
            writer.put(headerOf: .payload, length: payload.count)
            writer.put(payload)
            if let identifier { writer.put(.identifier, identifier) }
            if let expiration { writer.put(.expiration, expiration) }
            if let priority { writer.put(.priority, priority.rawValue) }
        }
    }

    /// Token and payload with their lengths, as in commands 0 and 1.
    private func writeBody(to writer: inout FrameWriter) {
        writer.put(UInt16(token.count))
        writer.put(token)
        writer.put(UInt16(payload.count))
        writer.put(payload)
    }
}

/// Writes the parts of a frame one after the other into a buffer that has room for all of them.
private struct FrameWriter {
    private var rest: UnsafeMutableRawBufferPointer
    /// The number of bytes written.
    private(set) var count = 0

    init(_ buffer: UnsafeMutableRawBufferPointer) { rest = buffer }

    private mutating func advance(_ length: Int) {
        rest = UnsafeMutableRawBufferPointer(rebasing: rest[length...])
        count += length
    }

    /// A number in the byte order of the network.
    mutating func put<Number: FixedWidthInteger>(_ number: Number) {
        let length = MemoryLayout<Number>.size
        precondition(rest.count >= length)
        rest.storeBytes(of: number.bigEndian, as: Number.self)
        advance(length)
    }

    mutating func put(_ token: DeviceToken) {
        token.copy(to: rest)
        advance(token.count)
    }

    mutating func put(_ bytes: [UInt8]) {
        rest.copyBytes(from: bytes)
        advance(bytes.count)
    }

    /// The header of an item.
    mutating func put(headerOf item: BinaryItem, length: Int) {
        put(item.rawValue)
        put(UInt16(length))
    }

    /// An item whose data is a number.
    mutating func put<Number: FixedWidthInteger>(_ item: BinaryItem, _ number: Number) {
        put(headerOf: item, length: MemoryLayout<Number>.size)
        put(number)
    }
}

extension UnsafeRawBufferPointer {
    /// Reads a number in the byte order of the network.
    ///
    /// - Precondition: the buffer has its bytes from `offset` on.
    func bigEndian<Number: FixedWidthInteger>(_: Number.Type, at offset: Int) -> Number {
        Number(bigEndian: loadUnaligned(fromByteOffset: offset, as: Number.self))
    }
}

/// Reads the items of a frame of command 2. Source: Apple, "Binary Provider API" (archived).
enum BinaryItems {
    /// The items found so far; nil for those that did not occur.
    private struct Found {
        var token: DeviceToken?
        var payload: [UInt8]?
        var identifier: UInt32?
        var expiration: UInt32?
        var priority: NotificationPriority?

        mutating func add(
            _ item: BinaryItem, _ data: UnsafeRawBufferPointer
        ) throws(BinaryFault) {
            if let length = item.fixedLength, data.count != length {
                throw BinaryFault("\(item.name) has \(data.count) bytes in place of \(length)")
            }
            switch item {
            case .token:
                try BinaryFrame.checkToken(bytes: data.count)
                try once(token, item)
                token = DeviceToken(data)
            case .payload:
                try BinaryFrame.checkPayload(bytes: data.count, of: .framed)
                try once(payload, item)
                payload = Array(data)
            case .identifier:
                try once(identifier, item)
                identifier = data.bigEndian(UInt32.self, at: 0)
            case .expiration:
                try once(expiration, item)
                expiration = data.bigEndian(UInt32.self, at: 0)
            case .priority:
                try once(priority, item)
                guard let known = NotificationPriority(rawValue: data[0]), known != .lowest else {
                    throw .priority(data[0])
                }
                priority = known
            }
        }

        private func once<Value>(_ found: Value?, _ item: BinaryItem) throws(BinaryFault) {
            guard found == nil else { throw BinaryFault("\(item.name) occurs twice") }
        }
    }

    /// Reads all items of a frame. Throws the fault of the first wrong item in their order, or of lengths
    /// of one byte, from which others follow.
    static func frame(_ body: UnsafeRawBufferPointer) throws(BinaryFault) -> BinaryFrame {
        var found = Found()
        do throws(BinaryFault) {
            try walk(body) { (item, data) throws(BinaryFault) in try found.add(item, data) }
        } catch {
            guard hasOneByteLengths(body) else { throw error }
            throw BinaryFault(
                "its items have lengths of one byte; the format has two, so the sender must be "
                    + "changed")
        }
        guard let token = found.token else { throw .missingToken }
        guard let payload = found.payload else { throw .missingPayload }
        return try BinaryFrame(
            .framed, identifier: found.identifier, expiration: found.expiration,
            priority: found.priority, token: token, payload: payload)
    }

    /// The first identifier among the items up to the first that cannot be read. It may stand behind
    /// items that are wrong in themselves.
    static func identifier(_ body: UnsafeRawBufferPointer) -> UInt32? {
        var identifier: UInt32?
        try? walk(body) { (item, data) throws(BinaryFault) in
            if item == .identifier, data.count == 4, identifier == nil {
                identifier = data.bigEndian(UInt32.self, at: 0)
            }
        }
        return identifier
    }

    /// Passes each item to a body.
    private static func walk(
        _ body: UnsafeRawBufferPointer,
        _ visit: (BinaryItem, UnsafeRawBufferPointer) throws(BinaryFault) -> Void
    ) throws(BinaryFault) {
        var offset = 0
        while offset < body.count {
            let left = body.count - offset - BinaryItem.headerLength
            guard let item = BinaryItem(rawValue: body[offset]) else {
                throw BinaryFault("item \(body[offset]) is none of 1 to 5")
            }
            guard left >= 0 else {
                throw BinaryFault(
                    "the frame ends \(body.count - offset) bytes into the 3-byte header of an item")
            }
            let length = Int(body.bigEndian(UInt16.self, at: offset + 1))
            guard length <= left else {
                throw BinaryFault(
                    "\(item.name) announces \(length) bytes, and the frame has \(left) left")
            }
            offset += BinaryItem.headerLength
            try visit(item, UnsafeRawBufferPointer(rebasing: body[offset..<(offset + length)]))
            offset += length
        }
    }

    /// Whether the whole frame can be read as items with one byte of length, a token and a payload
    /// among them.
    private static func hasOneByteLengths(_ body: UnsafeRawBufferPointer) -> Bool {
        var seen: Set<BinaryItem> = []
        var offset = 0
        while offset + 2 <= body.count {
            let length = Int(body[offset + 1])
            guard let item = BinaryItem(rawValue: body[offset]), length > 0,
                length == item.fixedLength ?? length, seen.insert(item).inserted
            else { return false }
            offset += 2 + length
        }
        return offset == body.count && seen.isSuperset(of: [.token, .payload])
    }
}
