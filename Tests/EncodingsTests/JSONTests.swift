import Encodings
import Foundation
import TestSupport
import Testing

@Suite("JSON")
struct JSONTests {
    /// The result of a scanner for the bytes of a text.
    private func scan<Result>(
        _ text: [UInt8], _ body: (inout JSONScanner) -> Result?
    ) -> Result? {
        text.withUnsafeBytes { bytes in
            var scanner = JSONScanner(bytes)
            guard let result = body(&scanner), scanner.isAtEnd else { return nil }
            return result
        }
    }

    private func string(_ text: String) -> String? {
        scan(Array(text.utf8)) { $0.string() }.flatMap { String(validating: $0, as: UTF8.self) }
    }

    private func isValue(_ text: String) -> Bool {
        scan(Array(text.utf8)) { $0.skipValue().map { _ in true } } ?? false
    }

    private func random(_ random: inout SeededGenerator) -> String {
        var text = String.UnicodeScalarView()
        for _ in 0..<Int.random(in: 0...30, using: &random) {
            let ranges: [ClosedRange<UInt32>] = [0...0x7F, 0x80...0x7FF, 0xE000...0x10FFFF]
            let range = ranges.randomElement(using: &random) ?? 0...0
            if let scalar = Unicode.Scalar(UInt32.random(in: range, using: &random)) {
                text.append(scalar)
            }
        }
        return String(text)
    }

    @Test("Foundation reads every written string back unchanged")
    func strings() throws {
        var generator = SeededGenerator("JSON strings")
        for _ in 0..<2_000 {
            let text = random(&generator)
            var json: [UInt8] = []
            JSONText.append(text, to: &json)
            let written = String(decoding: json, as: UTF8.self)
            #expect(string(written).map { Array($0.utf8) } == Array(text.utf8), "\(generator.seed)")
            let other = try JSONDecoder().decode([String].self, from: Data("[\(written)]".utf8))
            #expect(Array((other.first ?? "").utf8) == Array(text.utf8), "\(generator.seed)")
            let numbers = text.unicodeScalars.map(JSONText.number).joined()
            #expect(string("\"\(numbers)\"").map { Array($0.utf8) } == Array(text.utf8))
        }
    }

    @Test("each escape is resolved, pairs of surrogates to one character")
    func escapes() {
        #expect(string(#""\"\\\/\b\f\n\r\t\u00e9\uD83D\udcf1""#) == "\"\\/\u{8}\u{C}\n\r\té📱")
        #expect(JSONText.number(of: "é") == "\\u00e9")
        #expect(JSONText.number(of: "📱") == "\\ud83d\\udcf1")
    }

    @Test(
        "half a surrogate pair, an unknown escape, a control character or no end is refused",
        arguments: [
            #""\ud83d""#, #""\ud83d\u0041""#, #""\ud83dx""#, #""\udcf1""#, #""\x""#, #""\u12""#,
            #""\u+123""#, #""\u12g4""#, #""\U0041""#, "\"\n\"", "\"\u{0}\"", "\"\\\n\"", #"""#,
            #""\"#, #""a"#, "'a'", "a", "",
        ])
    func noStrings(text: String) {
        #expect(string(text) == nil)
    }

    @Test(
        "the scanner steps over values of every kind",
        arguments: [
            "0", "-0", "10", "-1.50", "1e9", "1E+9", "1.5e-300", "true", "false", "null", "\"\"",
            "[]", "{}", " [ 1 , [ ] , { } ] ", "{\"a\":{\"b\":[1,{\"c\":\"]}\"}]},\"d\":null}",
        ])
    func values(text: String) {
        #expect(isValue(text))
    }

    @Test(
        "the scanner refuses whatever the grammar does not have",
        arguments: [
            "", " ", "01", "+1", ".5", "1.", "1e", "-", "0x1", "NaN", "True", "nul", "[1,]", "[,1]",
            "[1 2]", "[1", "]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}", "{1:1}", "[}", "{]",
            "1 2", "\u{FEFF}1", "/**/1",
        ])
    func noValues(text: String) {
        #expect(!isValue(text))
    }

    @Test("values nested deeper than the limit are refused, whatever their length")
    func depth() {
        func nested(_ depth: Int) -> String {
            String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
        }
        #expect(isValue(nested(JSONScanner.deepest)))
        #expect(!isValue(nested(JSONScanner.deepest + 1)))
        #expect(!isValue(String(repeating: "[", count: 100_000)))
    }

    @Test("a line has sorted keys and plain slashes; a value that JSON lacks gives an empty object")
    func lines() throws {
        #expect(["b": "1/2", "a": "\n"].jsonLine == #"{"a":"\n","b":"1/2"}"#)
        #expect([Double.infinity].jsonLine == "{}")
        #expect(throws: EncodingError.self) { try JSONLine.bytes([Double.nan]) }
    }

    private func object(_ text: String) -> JSONObject? {
        Array(text.utf8).withUnsafeBytes { JSONObject($0) }
    }

    @Test("an object gives texts and whole numbers, and of anything else that it is there")
    func objects() throws {
        let json =
            #" {"a":"\u00e9","b":-12,"c":1.5,"d":[1],"e":null,"f":9223372036854775808,"a":2} "#
        let object = try #require(self.object(json))
        #expect(object["a"] == .text("é") && object["b"] == .integer(-12))
        for key in ["c", "d", "e", "f"] { #expect(object[key] == .other) }
        #expect(object["g"] == nil)
        #expect(object.isAmbiguous("a") && !object.isAmbiguous("b") && !object.isAmbiguous("g"))
        #expect(self.object("{}") != nil)
        for text in ["", "[]", "{} {}", #"{"a":1"#, #"{"a":1,}"#, #"{"a" 1}"#, #"{a:1}"#, "{,}"] {
            #expect(self.object(text) == nil, "\(text)")
        }
    }

    @Test("a document keeps each kind of value, and is an object or a list")
    func documents() throws {
        let json = #"{"a":[null,true,false,7,-1.5,"x",{}],"b":{"c":{"d":"deep"}},"e":[]}"#
        let value = try #require(JSONValue(document: Array(json.utf8)))
        #expect(
            value[["a"]]
                == .list([
                    .null, .bool(true), .bool(false), .integer(7), .number(-1.5), .text("x"),
                    .object([:]),
                ]))
        #expect(value[["b", "c", "d"]]?.text == "deep" && value[["b", "x", "d"]] == nil)
        #expect(value[["a", "b"]] == nil && value[["e"]]?.text == nil && value[[]] == value)
        #expect(value.keys.sorted() == ["a", "b", "e"] && value[["e"]]?.keys == [])
        #expect(value.jsonLine == json)
        for text in ["1", "\"a\"", "null", "[1", "[1,]", #"{"a":}"#, "[1e999]", "[tru]", "[] []"] {
            #expect(JSONValue(document: Array(text.utf8)) == nil, "\(text)")
        }
    }

    @Test("a document may be nested as deep as its limit, and no deeper")
    func nesting() {
        for (depth, isRead) in [(JSONValue.deepest, true), (JSONValue.deepest + 1, false)] {
            for (open, close) in [("[", "]"), (#"{"a":"#, "}")] {
                let inner = open == "[" ? "" : "[]"
                let levels = open == "[" ? depth : depth - 1
                let text =
                    String(repeating: open, count: levels) + inner
                    + String(repeating: close, count: levels)
                #expect((JSONValue(document: Array(text.utf8)) != nil) == isRead, "\(depth)")
            }
        }
    }

    @Test("a printed document has the version of its form beside its own keys")
    func version() {
        #expect(["a": 1].documentLine == #"{"a":1,"schema":1}"#)
    }
}
