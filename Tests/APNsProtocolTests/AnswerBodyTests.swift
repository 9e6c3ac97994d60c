import APNsProtocol
import TestSupport
import Testing

/// A body of an answer and its expected values.
struct BodyCase: Sendable, CustomStringConvertible {
    let text: String
    var reason: ProviderReason?
    var timestamp: Int64?

    var description: String { String(text.prefix(60)) }

    static func good(
        _ text: String, _ reason: ProviderReason?, _ timestamp: Int64? = nil
    ) -> BodyCase {
        BodyCase(text: text, reason: reason, timestamp: timestamp)
    }

    /// A body without a usable value.
    static func bad(_ text: String) -> BodyCase { BodyCase(text: text) }

    static let time: Int64 = 1_700_000_000_123

    static let readable: [BodyCase] = [
        good(#"{"reason":"Unregistered","timestamp":1700000000123}"#, .unregistered, time),
        good(#"{"timestamp":1700000000123,"reason":"ExpiredToken"}"#, .expiredToken, time),
        good(
            " \t\r\n{ \"reason\" : \"Unregistered\" , \"timestamp\" : 1700000000123 } \n",
            .unregistered, time),
        good(#"{"reason":"BadDeviceToken"}"#, .badDeviceToken),
        good(#"{}"#, nil), good(#"{ }"#, nil), good("", nil),
        good(#"{"timestamp":1700000000123}"#, nil, time),
        good(#"{"reason":"Unregist\u0065red"}"#, .unregistered),
        good(#"{"reason":null,"timestamp":null}"#, nil),
        good(#"{"reason":{"a":"b"}}"#, nil), good(#"{"reason":7}"#, nil),
        good(#"{"Reason":"Unregistered"}"#, nil),
        good(#"{"reason":"unregistered"}"#, ProviderReason("unregistered")),
        good(#"{"reason":"Service Unavailable"}"#, ProviderReason("Service Unavailable")),
        good(#"{"reason":""}"#, ProviderReason("")),
        good(#"{"reason":"a\"b\\c\/d\n\u00e4"}"#, ProviderReason(#"a"b\c/d???"#)),
        good(
            #"{"x":[1,{"y":[]},"],}",-0.5e+3,true,[[]]],"reason":"Unregistered","z":{"reason":"Shutdown"}}"#,
            .unregistered),
    ]

    static let timestamps: [(String, Int64?)] =
        // The boundary of the unit guard, and the largest number there is.
        [("100000000000", 100_000_000_000), ("9223372036854775807", .max)]
        // Seconds, and what is no whole number.
        + [
            "1700000000", "99999999999", "9223372036854775808", "18446744073709551616",
            String(repeating: "9", count: 5_000), "0", "-1700000000123", "-0", "1700000000123.0",
            "1700000000123.5", "1.700000000123e12", "1700000000123E0", #""1700000000123""#, "true",
            "[1700000000123]", #"{"ms":1700000000123}"#, "null",
        ].map { ($0, nil) }

    static let unreadable: [BodyCase] = [
        "{", "}", "{\"", "{\"reason", #"{"reason""#, #"{"reason":"#, #"{"reason":"Unregis"#,
        #"{"reason":"Unregistered""#, #"{"reason":"Unregistered","#,
        #"{"reason":"Unregistered",}"#, #"{"reason":"Unregistered","timestamp":1700000000123"#,
        #"{"reason":"Unregistered","timestamp":}"#, #"{"reason":"Unregistered"} x"#,
        #"{"reason":"Unregistered"}{}"#, #"[{"reason":"Unregistered"}]"#, #""Unregistered""#,
        "null", "410", "<html>", "\u{FEFF}{}", #"{"reason":"Unregistered" "timestamp":1}"#,
        #"{'reason':'Unregistered'}"#, #"{reason:"Unregistered"}"#,
        // One key twice: neither value is certain.
        #"{"reason":"Unregistered","reason":"Unregistered"}"#,
        #"{"timestamp":1700000000123,"timestamp":1800000000123}"#,
        #"{"timestamp":1700000000123,"timest\u0061mp":1700000000123}"#,
        #"{"timestamp":01700000000123}"#, #"{"timestamp":+1700000000123}"#,
        #"{"timestamp":1700000000123.}"#, #"{"timestamp":0x18BCFE5687B}"#,
        #"{"timestamp":NaN}"#, #"{"timestamp":1e}"#, #"{"timestamp":-}"#,
        #"{"a":tru}"#, #"{"a":[1,]}"#, #"{"a":{"b"}}"#, #"{"a":{"b":1,}}"#, #"{"a":[}]}"#,
        #"{"a":"\x"}"#, #"{"a":"\u12"}"#, #"{"a":"\u12g4"}"#, "{\"a\":\"\n\"}", "{\"a\\",
        "{\"reason\":\"Unregistered\0\"}",
    ].map(bad)
}

@Suite("The body of an answer")
struct AnswerBodyTests {
    private func check(_ body: BodyCase, _ location: SourceLocation = #_sourceLocation) {
        let read = AnswerBody(Array(body.text.utf8))
        #expect(read.reason == body.reason, sourceLocation: location)
        #expect(read.timestamp == body.timestamp, sourceLocation: location)
    }

    @Test(
        "a body is read with white space, unknown keys and any order, and else gives nothing",
        arguments: BodyCase.readable + BodyCase.unreadable)
    func form(body: BodyCase) { check(body) }

    @Test("a body has a time only where its timestamp is an integer of milliseconds")
    func timestamps() {
        for (text, expected) in BodyCase.timestamps {
            check(
                .good(#"{"reason":"Unregistered","timestamp":\#(text)}"#, .unregistered, expected))
            check(.good(#"{"timestamp":\#(text) }"#, nil, expected))
        }
    }

    @Test("a body cut anywhere, at its beginning or its end, gives no reason and no time")
    func cut() {
        let whole = Array(#"{"reason":"Unregistered","timestamp":1700000000123}"#.utf8)
        for place in 1..<whole.count {
            for part in [whole[..<place], whole[place...]] {
                let body = AnswerBody(Array(part))
                #expect(body.reason == nil && body.timestamp == nil)
            }
        }
    }

    @Test("a body over 16 KiB is ignored; up to that size any nesting and length is harmless")
    func size() {
        let good = #"{"reason":"Unregistered","timestamp":1700000000123}"#
        let spaces = String(repeating: " ", count: AnswerBody.longest - good.utf8.count)
        check(.good(good + spaces, .unregistered, BodyCase.time))
        check(.bad(good + spaces + " "))
        check(.bad(good + String(repeating: " ", count: 1 << 20)))
        check(.bad(#"{"a":"# + String(repeating: "[", count: 16_000)))
        check(.bad(String(repeating: #"{"a":"#, count: 3_000)))
        let nested = String(repeating: "[", count: 30) + String(repeating: "]", count: 30)
        check(.good(#"{"a":\#(nested),"reason":"Shutdown"}"#, .shutdown))
        let long = String(repeating: "x", count: 10_000)
        check(.good(#"{"reason":"\#(long)"}"#, ProviderReason(String(long.prefix(64)))))
    }

    @Test("50,000 damaged bodies never trap and never give a time that is not in them")
    func damage() {
        var random = SeededGenerator("damaged bodies")
        let pieces: [[UInt8]] = [
            "{", "}", "[", "]", ",", ":", "\"", "\\", "\\u00", "reason", "timestamp",
            "\"reason\":", "\"timestamp\":", "1700000000123", "-", ".", "e", "0", "true", " ",
            "\u{0}", "ä", "\"Unregistered\"",
        ].map { Array($0.utf8) }
        for _ in 0..<50_000 {
            var bytes: [UInt8] = Bool.random(using: &random) ? Array("{".utf8) : []
            for _ in 0..<Int.random(in: 0...12, using: &random) {
                bytes += pieces.randomElement(using: &random) ?? []
            }
            if Int.random(in: 0..<8, using: &random) == 0 { bytes += random.bytes(3) }
            let body = AnswerBody(bytes)
            if let time = body.timestamp {
                let text = String(decoding: bytes, as: UTF8.self)
                #expect(
                    text.contains("\(time)") && time >= AnswerBody.leastMilliseconds,
                    "seed \(random.seed): \(text)")
            }
        }
    }
}
