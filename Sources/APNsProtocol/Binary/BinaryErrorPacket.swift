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

    /// The status.
    package let status: BinaryStatus
    /// The identifier of the notification that was rejected, or for status 10 of the last one that
    /// was accepted. 0 where the frame had none or the gateway could not find it.
    package let identifier: UInt32

    /// Makes a packet.
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

    /// Starts at the beginning of a connection.
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
