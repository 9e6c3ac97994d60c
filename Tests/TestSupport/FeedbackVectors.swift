import APNsProtocol

/// The agreed feedback vectors F1 to F12: bytes in hex, their tuples and their end.
package struct FeedbackVector: Sendable, CustomStringConvertible {
    /// The vector's number, `F1` to `F12`.
    package let name: String
    /// The bytes of the feed.
    package let bytes: [UInt8]
    /// The whole tuples in order.
    package let tuples: [FeedbackTuple]
    /// How the feed ends.
    package let ending: FeedbackEnding

    package var description: String { name }

    private init(
        _ name: String, _ hex: String, _ tuples: [(UInt32, [UInt8])], _ ending: FeedbackEnding
    ) {
        self.name = name
        bytes = Self.bytes(hex)
        self.tuples = tuples.map {
            FeedbackTuple(time: EpochSeconds($0.0), token: DeviceToken($0.1))
        }
        self.ending = ending
    }

    /// 2023-11-14T22:13:20Z.
    package static let start: UInt32 = 1_700_000_000
    /// Bytes 00 to 1f.
    package static let ascending = [UInt8](0...31)
    /// 32 times `ab`.
    package static let repeated = [UInt8](repeating: 0xab, count: 32)
    /// The token of the Server Density tutorial.
    package static let tutorial = bytes(tutorialHex)
    /// The same in hex.
    package static let tutorialHex =
        "c9d4c07cfbbc26d6ef87a44d53e169831096a5d5fd82547556659dddf715defc"

    /// The bytes of plain hex. It is for test data that is known to be valid.
    package static func bytes(_ hex: String) -> [UInt8] {
        let digits = hex.compactMap { $0.hexDigitValue }
        return stride(from: 0, to: digits.count - 1, by: 2).map {
            UInt8(digits[$0] << 4 | digits[$0 + 1])
        }
    }

    private static let a = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
    private static let b = String(repeating: "ab", count: 32)
    private static let f1 = "6553f1000020" + a

    /// All twelve.
    package static let all: [FeedbackVector] = [
        FeedbackVector("F1", f1, [(start, ascending)], .clean),
        FeedbackVector(
            "F2", f1 + "6553f13c0020" + b + "6553e2f00020" + a,
            [(start, ascending), (start + 60, repeated), (start - 3600, ascending)], .clean),
        FeedbackVector("F3", "", [], .clean),
        FeedbackVector(
            "F4", f1 + "6553f1", [(start, ascending)], .truncatedHeader(present: 3)),
        FeedbackVector("F5", "6553f10000", [], .truncatedHeader(present: 5)),
        FeedbackVector(
            "F6", String(f1.dropLast(2)), [], .truncatedToken(present: 31, announced: 32)),
        FeedbackVector(
            "F7",
            "6553f1000064"
                + (0..<100).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined(),
            [(start, [UInt8](0..<100))], .clean),
        FeedbackVector(
            "F8", "6553f1000000" + "6553f1010020" + b,
            [(start, []), (start + 1, repeated)], .clean),
        FeedbackVector(
            "F9",
            "6553f1000036" + (0x80...0xb5).map { String($0, radix: 16) }.joined() + "6553f1020020"
                + tutorialHex,
            [(start, [UInt8](0x80...0xb5)), (start + 2, tutorial)], .clean),
        FeedbackVector("F10", "800000000020" + tutorialHex, [(1 << 31, tutorial)], .clean),
        FeedbackVector(
            "F11", "6553f100ffff" + a, [], .truncatedToken(present: 32, announced: 65535)),
        FeedbackVector("F12", "000000000020" + tutorialHex, [(0, tutorial)], .clean),
    ]
}
