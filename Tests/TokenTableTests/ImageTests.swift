import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

@Suite("Images of rows")
struct ImageTests {
    private static func value(_ random: inout SeededGenerator) -> SQLValue {
        switch Int.random(in: 0..<10, using: &random) {
        case 0: .null
        case 1: .integer([.min, -1, 0, 1, .max].randomElement(using: &random) ?? 0)
        case 2: .integer(.random(in: .min...(.max), using: &random))
        case 3: .unsigned(.random(in: UInt64(Int64.max) + 1...(.max), using: &random))
        case 4:
            .real(
                [0.1, -0.0, .infinity, -.infinity, .leastNonzeroMagnitude, 1e308, 5]
                    .randomElement(using: &random) ?? 0)
        case 5: .real(Double(bitPattern: .random(in: 0...0x7FEF_FFFF_FFFF_FFFF, using: &random)))
        case 6: .bytes(random.bytes(.random(in: 0...600, using: &random)))
        case 7: .text(text(&random))
        case 8:
            .wallClock(
                WallClock(
                    microseconds: .random(
                        in: -62_135_596_800_000_000...253_402_300_799_999_999, using: &random)))
        default: .text("{\"hex\":\"00\"}")
        }
    }

    private static func text(_ random: inout SeededGenerator) -> String {
        var text = String.UnicodeScalarView()
        for _ in 0..<Int.random(in: 0...40, using: &random) {
            let ranges: [ClosedRange<UInt32>] = [
                0...0x1F, 0x20...0x7F, 0x80...0x7FF, 0xE000...0x10FFFF,
            ]
            let range = ranges.randomElement(using: &random) ?? 0...0
            if let scalar = Unicode.Scalar(UInt32.random(in: range, using: &random)) {
                text.append(scalar)
            }
        }
        return String(text)
    }

    private static func content(_ random: inout SeededGenerator) -> RowContent {
        let columns = (0..<Int.random(in: 0...8, using: &random)).map { "\(text(&random))#\($0)" }
        return RowContent(columns, columns.map { _ in value(&random) })
    }

    /// Dates come back as their text.
    private static func imaged(_ content: RowContent?) -> RowContent? {
        content.map { RowContent($0.columns, $0.values.map(\.asImaged)) }
    }

    @Test("an image returns whatever a row holds unchanged")
    func roundTrips() {
        var random = SeededGenerator("images of rows")
        for _ in 0..<5_000 {
            let content = Self.content(&random)
            let json = RowImage.object(content.columns, content.values)
            #expect(
                RowImageReader.content(json) == Self.imaged(content),
                "seed \(random.seed): \(json)")
            let key = (0..<Int.random(in: 1...3, using: &random)).map { _ in Self.value(&random) }
            #expect(RowImageReader.key(RowImage.key(key)) == key.map(\.asImaged))
            let other: RowContent? = Bool.random(using: &random) ? nil : Self.content(&random)
            let step = RowImageReader.pair(RowImage.pair(before: other, after: content))
            #expect(step?.before == Self.imaged(other) && step?.after == Self.imaged(content))
        }
    }

    @Test("an image that is cut or has a byte changed is read differently or not at all")
    func damaged() {
        var random = SeededGenerator("damaged images")
        for _ in 0..<500 {
            let content = Self.content(&random)
            let json = Array(RowImage.object(content.columns, content.values).utf8)
            let cut = String(decoding: json.dropLast(), as: UTF8.self)
            #expect(RowImageReader.content(cut) == nil, "seed \(random.seed): \(cut)")
            var changed = json
            let place = Int.random(in: changed.indices, using: &random)
            changed[place] = UInt8.random(in: 0...255, using: &random)
            // Reading any result must end.
            _ = RowImageReader.content(String(decoding: changed, as: UTF8.self))
        }
    }

    @Test(
        "JSON in any layout is read, anything else is refused",
        arguments: [
            ("{ \"a\" : 1 ,\n\"b\": null}", true), ("{\"a\":\"\\u00e9\\ud83d\\udcf1\\/\"}", true),
            ("{\"a\":true}", false), ("{\"a\":1.5}", false), ("{\"a\":1,\"a\":2}", false),
            ("{\"a\":{\"hex\":\"0\"}}", false), ("{\"a\":{\"hex\":\"zz\"}}", false),
            ("{\"a\":\"\\ud83d\"}", false), ("{\"a\":1}x", false), ("[1]", false), ("", false),
            ("{\"a\":99999999999999999999}", false), ("{\"a\":{\"oct\":\"7\"}}", false),
        ])
    func strictness(_ json: String, _ isRead: Bool) {
        #expect((RowImageReader.content(json) != nil) == isRead)
    }
}
