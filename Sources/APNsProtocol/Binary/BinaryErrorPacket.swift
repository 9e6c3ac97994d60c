/// The status in an error packet of the binary provider interface. Every value names one
/// notification by its identifier; that notification and all before it were read, and all after it
/// were discarded and must be sent again on a new connection. Source: Apple, "Binary Provider API"
/// (archived), "Codes in error-response packet".
package struct BinaryStatus: Hashable, Sendable, CustomStringConvertible {
    /// The number on the wire.
    package let number: UInt8

    package init(_ number: UInt8) { self.number = number }

    /// Gateways do not send it for a good notification; success has no answer.
    package static let noErrors = BinaryStatus(0)
    package static let missingToken = BinaryStatus(2)
    package static let missingPayload = BinaryStatus(4)
    package static let invalidTokenSize = BinaryStatus(5)
    package static let invalidPayloadSize = BinaryStatus(7)
    /// The token is malformed, of another app, or of the other environment.
    package static let invalidToken = BinaryStatus(8)
    /// The gateway closes for maintenance. The identifier names the last notification that it accepted.
    package static let shutdown = BinaryStatus(10)
    /// The gateway could not parse the notification.
    package static let protocolError = BinaryStatus(128)
    package static let unknown = BinaryStatus(255)

    /// The part of the notification, or of its way, at which the status points.
    package enum Subject: Hashable, Sendable {
        /// The device token. This is no proof that a device is gone: no status of this interface
        /// has a time, and a token of the other environment has the same status.
        case token
        case payload
        /// The topic, so the certificate.
        case topic
        /// The frame, so the sender's program.
        case frame
        /// The gateway: nothing is known about the notification.
        case gateway
    }

    /// Apple's table: the words of each number, and what it points at.
    private static let table: [UInt8: (words: String, subject: Subject)] = [
        0: ("no errors", .gateway),
        1: ("processing error", .gateway),
        2: ("missing device token", .token),
        3: ("missing topic", .topic),
        4: ("missing payload", .payload),
        5: ("invalid token size", .token),
        6: ("invalid topic size", .topic),
        7: ("invalid payload size", .payload),
        8: ("invalid token", .token),
        10: ("shutdown", .gateway),
        128: ("protocol error", .frame),
        255: ("none (unknown)", .gateway),
    ]

    /// The statuses of Apple's table, in its order.
    package static let listed = table.keys.sorted().map(BinaryStatus.init)

    /// The part at which the status points.
    package var subject: Subject { Self.table[number]?.subject ?? .gateway }

    /// Whether the gateway accepted the notification that the packet names. Only status 10 does; with
    /// all others it is the first one that was not accepted.
    package var acceptsNamed: Bool { self == .shutdown }

    /// Apple's words with the number, as in "invalid token (8)".
    package var description: String {
        "\(Self.table[number]?.words ?? "a status outside Apple's list") (\(number))"
    }
}

// A gateway says nothing about good notifications. For a bad one it sends one packet of six bytes and
// closes the connection. TLS and TCP may deliver the six bytes in pieces, and a close may cut them;
// only the whole packet is a verdict.

/// The one answer of a gateway on a connection. On the wire: 8, status (1 byte), identifier (4 bytes,
/// big-endian). Source: Apple, "Binary Provider API" (archived), "error-response packet".
package struct BinaryErrorPacket: Hashable, Sendable, CustomStringConvertible {
    /// The size on the wire in bytes.
    package static let length = 6
    /// The first byte.
    package static let command: UInt8 = 8

    package let status: BinaryStatus
    /// The identifier of the notification that was rejected, or for status 10 of the last one that
    /// was accepted. 0 where the frame had none or the gateway could not find it.
    package let identifier: UInt32

    package init(_ status: BinaryStatus, identifier: UInt32) {
        (self.status, self.identifier) = (status, identifier)
    }

    /// Appends the wire form, as a gateway sends it.
    package func encode(into buffer: inout [UInt8]) {
        buffer.append(Self.command)
        buffer.append(status.number)
        withUnsafeBytes(of: identifier.bigEndian) { buffer.append(contentsOf: $0) }
    }

    /// One clause for messages, without the notification's content.
    package var description: String { "status \(status), identifier \(identifier)" }
}

/// All that a gateway sent on one connection so far.
package enum BinaryAnswer: Hashable, Sendable, CustomStringConvertible {
    /// Nothing. At the end of a connection: closed without a verdict on any notification.
    case nothing
    /// The first 1 to 5 bytes of a packet. At the end of a connection: no verdict, as `nothing`.
    case unfinished(bytes: Int)
    /// A whole packet.
    case packet(BinaryErrorPacket)
    /// Something else, with its first byte: the peer is no gateway of this interface.
    case foreign(UInt8)

    /// One clause for messages and reports.
    package var description: String {
        switch self {
        case .nothing: "no error packet"
        case .unfinished(let bytes):
            "\(bytes) of the \(BinaryErrorPacket.length) bytes of an error packet"
        case .packet(let packet): "an error packet: \(packet)"
        case .foreign(let first): "bytes that are no error packet, the first is \(first)"
        }
    }
}

/// Assembles the error packet of one connection from bytes cut at any place. A pure value of six
/// bytes.
package struct BinaryErrorDecoder: Sendable {
    private var bytes: [UInt8] = []

    /// The number of bytes after the packet, which no gateway sends; they are dropped.
    package private(set) var excess = 0

    package init() {}

    /// Takes the next bytes that the gateway sent.
    package mutating func decode(_ more: UnsafeRawBufferPointer) {
        let taken = more.prefix(BinaryErrorPacket.length - bytes.count)
        bytes.append(contentsOf: taken)
        excess += more.count - taken.count
    }

    /// Takes the next bytes that the gateway sent; see the form for raw buffers.
    package mutating func decode(_ more: [UInt8]) {
        more.withUnsafeBytes { decode($0) }
    }

    /// What the bytes so far say.
    package var answer: BinaryAnswer {
        guard let first = bytes.first else { return .nothing }
        guard first == BinaryErrorPacket.command else { return .foreign(first) }
        guard bytes.count == BinaryErrorPacket.length else {
            return .unfinished(bytes: bytes.count)
        }
        return .packet(
            BinaryErrorPacket(
                BinaryStatus(bytes[1]),
                identifier: bytes.withUnsafeBytes { $0.bigEndian(UInt32.self, at: 2) }))
    }
}
