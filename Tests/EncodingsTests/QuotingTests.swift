import Encodings
import Foundation
import TestSupport
import Testing
import YAML

/// Every quote and separator of the languages that are printed, with what makes another Character of it.
private let oddTexts: [String] = {
    let signs = [
        "'", "\"", "`", "\\", "$", "!", "/", ",", ";", ":", "#", "{", "[", "|", "<", "&", "=", "%",
        "*", "~", "-", "\n", "\t", " ", "é", "\u{212A}", "\u{37E}", "\u{1FEF}", "\u{FEFF}",
    ]
    let marks = ["", "\u{301}", "\u{200D}", "\u{20E3}", "\r", "\\", "7", "\u{202E}", "\u{FE0F}"]
    return signs.flatMap { sign in
        marks.flatMap { [sign + $0, "a\(sign)\($0)b", "\(sign)\($0)\(sign)", "\($0)\(sign)"] }
    } + ["", "$(touch x)", "\u{1F468}\u{200D}\u{1F469}", "\u{1}2", "true", "0x1F", "12", "a'b\nc'"]
}()

@Suite("Texts from outside in other languages")
struct QuotingTests {
    @Test("a shell reads each word as the text that it was")
    func shell() throws {
        let folder = try TemporaryFolder()
        let words = oddTexts.map(\.shellWord)
        try folder.write("words", "printf '%s\\0' \(words.joined(separator: " "))\n", mode: 0o600)
        let result = try RunningTool(
            program: URL(fileURLWithPath: "/bin/bash"), [folder.file("words")]
        ).wait()
        #expect(result.exit == 0 && result.error.isEmpty)
        let read = result.output.utf8.split(separator: 0, omittingEmptySubsequences: false)
            .dropLast()
        #expect(read.count == oddTexts.count)
        for (read, text) in zip(read, oddTexts) {
            #expect(read.elementsEqual(text.utf8), "\(text.debugDescription) \(text.shellWord)")
        }
        let areShown = words.joined().unicodeScalars.allSatisfy { !$0.isUnprintable }
        #expect(areShown)
    }

    @Test("an older shell reads a word without unprintable characters as the text that it was")
    func olderShell() throws {
        let folder = try TemporaryFolder()
        let texts = oddTexts.filter { !$0.unicodeScalars.contains(where: \.isUnprintable) }
        let list = texts.map(\.shellWord).joined(separator: " ")
        try folder.write("words", "printf '%s\\0' \(list)\n", mode: 0o600)
        let result = try RunningTool(
            program: URL(fileURLWithPath: "/bin/sh"), [folder.file("words")]
        ).wait()
        let read = result.output.utf8.split(separator: 0, omittingEmptySubsequences: false)
        #expect(read.count == texts.count + 1 && texts.count > 100)
        #expect(zip(read, texts).allSatisfy { $0.elementsEqual($1.utf8) })
    }

    @Test(
        "an older shell takes one word with unprintable characters for one word, and runs nothing in it"
    )
    func wordsOfOlderShell() throws {
        let folder = try TemporaryFolder()
        let texts =
            oddTexts.filter { $0.unicodeScalars.contains(where: \.isUnprintable) }
            + ["\u{200D}';touch pwned;#", "\u{1}\\';touch pwned;'"]
        let list = texts.map(\.shellWord).joined(separator: " ")
        try folder.write(
            "words", "cd \(folder.path.shellWord)\nfor word in \(list); do echo; done\n",
            mode: 0o600)
        let result = try RunningTool(
            program: URL(fileURLWithPath: "/bin/sh"), [folder.file("words")]
        ).wait()
        #expect(result.exit == 0 && result.error.isEmpty)
        #expect(result.output.utf8.count == texts.count && texts.count > 100)
        #expect(!FileManager.default.fileExists(atPath: folder.file("pwned")))
    }

    @Test("a quote is doubled whatever comes after it")
    func doubling() {
        for text in oddTexts {
            for quote: Unicode.Scalar in ["'", "\"", "`"] {
                let quoted = Array(text.doubling(quote).unicodeScalars)
                #expect(quoted.first == quote && quoted.last == quote)
                var read = String.UnicodeScalarView()
                var inside = quoted.dropFirst().dropLast()
                while let scalar = inside.popFirst() {
                    if scalar == quote { #expect(inside.popFirst() == quote) }
                    read.append(scalar)
                }
                #expect(String(read).isExactly(text), "\(text.debugDescription)")
            }
        }
    }

    @Test("a path of JSON has each key as JSON spells it")
    func path() throws {
        #expect(JSONPath.text(["push", "a_1", "token"]) == "$.push.a_1.token")
        #expect(JSONPath.text(["1st", "a.b", ""]) == "$.\"1st\".\"a.b\".\"\"")
        for text in oddTexts {
            let key = String(JSONPath.text([text]).unicodeScalars.dropFirst(2))
            let spelled = key.utf8.first == UInt8(ascii: "\"") ? key : "\"\(key)\""
            let read = try JSONDecoder().decode([String].self, from: Data("[\(spelled)]".utf8))
            #expect(read[0].isExactly(text), "\(text.debugDescription)")
        }
    }

    @Test("a scalar of YAML is read as the text that it was")
    func yaml() throws {
        for text in oddTexts {
            let scalar = text.yamlScalar
            let isShown = scalar.unicodeScalars.allSatisfy { !$0.isUnprintable }
            #expect(isShown)
            for document in ["a: \(scalar)", "[\(scalar), b]", "{a: \(scalar)}"] {
                let node = try YAMLNode.document(document)
                let read = node?["a"]?.text ?? node?.items?.first?.text
                #expect(read?.isExactly(text) == true, "\(text.debugDescription) \(scalar)")
            }
        }
        for word in [
            "no", "On", "null", "", "-", "a: b", "tab Push", "01", "0x1F", "1_000", "1e3", "1.10",
        ] {
            #expect(word.yamlScalar == "\"\(word)\"")
        }
        #expect("devices".yamlScalar == "devices" && "1".yamlScalar == "1")
        #expect("0".yamlScalar == "0" && "120".yamlScalar == "120")
    }

    @Test("the members of a declaration are read one by one")
    func members() {
        #expect("enum('a','b')".quotedMembers == ["a", "b"])
        #expect("enum('it''s','b'',''c','')".quotedMembers == ["it's", "b','c", ""])
        #expect(#"enum('a\\b','a\nb','a\'b')"#.quotedMembers.prefix(2) == [#"a\b"#, "a\nb"])
        for text in oddTexts where !text.contains("\\") {
            let read = "enum(\(text.doubling("'")),'x')".quotedMembers
            #expect(read.count == 2 && read[0].isExactly(text), "\(text.debugDescription)")
        }
        #expect("enum('a".quotedMembers.isEmpty && "int(11)".quotedMembers.isEmpty)
    }

    @Test("a part is replaced by its bytes, also with an accent behind it")
    func replacing() {
        #expect("xABCx\u{301}abc".replacing(exactly: "abc", with: "-") == "xABCx\u{301}-")
        #expect(
            "xABC\u{301}".replacing(exactly: "abc", with: "-", ignoringCase: true) == "x-\u{301}")
        #expect(
            "aaa".replacing(exactly: "aa", with: "b") == "ba"
                && "a".replacing(exactly: "", with: "b") == "a")
        #expect("ab".replacing(exactly: "abc", with: "") == "ab")
    }
}
