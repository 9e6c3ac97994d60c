import APNsProtocol

/// The agreed vectors B1 to B5 of the binary provider interface: bytes and the frame in them.
package struct BinaryVector: Sendable, CustomStringConvertible {
    /// The vector's number, `B1` to `B5`.
    package let name: String
    /// The bytes of one frame.
    package let bytes: [UInt8]
    /// Makes the frame of its values.
    package let frame: @Sendable () throws -> BinaryFrame

    package var description: String { name }

    private init(
        _ name: String, _ hex: String, _ command: BinaryCommand, identifier: UInt32? = nil,
        expiration: UInt32? = nil, priority: NotificationPriority? = nil,
        token: [UInt8] = FeedbackVector.ascending
    ) {
        self.name = name
        bytes = FeedbackVector.bytes(hex)
        frame = {
            try BinaryFrame(
                command, identifier: identifier, expiration: expiration, priority: priority,
                token: DeviceToken(token) ?? { throw BinaryFault.missingToken }(),
                payload: Self.payload)
        }
    }

    /// The payload of all of them, 22 bytes.
    package static let payload = Array(#"{"aps":{"alert":"hi"}}"#.utf8)
    /// One day after `FeedbackVector.start`.
    package static let expiration = UInt32(0x6555_4280)

    private static let a = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
    private static let p = "7b22617073223a7b22616c657274223a226869227d7d"
    private static let long =
        a + "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"
        + "404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f60616263"

    /// All five.
    package static let all: [BinaryVector] = [
        BinaryVector("B1", "000020" + a + "0016" + p, .simple),
        BinaryVector(
            "B2", "0100000001655542800020" + a + "0016" + p,
            .enhanced, identifier: 1, expiration: expiration),
        BinaryVector(
            "B3",
            "020000004e010020" + a + "020016" + p + "0300040000000104000465554280"
                + "0500010a",
            .framed, identifier: 1, expiration: expiration, priority: .immediate),
        BinaryVector(
            "B4", "020000003c010020" + a + "020016" + p, .framed),
        BinaryVector(
            "B5",
            "0200000092010064" + long + "020016" + p
                + "030004000000020400040000000005000105",
            .framed, identifier: 2, expiration: 0, priority: .conserving,
            token: [UInt8](0...99)),
    ]

    /// The notification of B3 as a sender of old framed it: one byte of length in each item.
    package static let oneByteLengths = FeedbackVector.bytes(
        "0200000049" + "0120" + a + "0216" + p + "030400000001" + "040465554280" + "05010a")

    /// The agreed answers E1 to E5, and what they say.
    package static let answers: [(name: String, bytes: [UInt8], answer: BinaryAnswer)] = [
        ("E1", "080800000001", .packet(BinaryErrorPacket(.invalidToken, identifier: 1))),
        ("E2", "080a00000002", .packet(BinaryErrorPacket(.shutdown, identifier: 2))),
        ("E3", "088000000000", .packet(BinaryErrorPacket(.protocolError, identifier: 0))),
        ("E4", "08ffffffffff", .packet(BinaryErrorPacket(.unknown, identifier: 4_294_967_295))),
        ("E5", "0808000000", .unfinished(bytes: 5)),
    ].map { ($0, FeedbackVector.bytes($1), $2) }
}
