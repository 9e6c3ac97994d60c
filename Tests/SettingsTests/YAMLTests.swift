import TestSupport
import Testing
import YAML

@Suite("YAML as texts with places")
struct YAMLTests {
    @Test("each scalar is the text of the file, whatever YAML would make of it")
    func texts() throws {
        let list = try #require(
            try YAMLNode.document("[no, 1e3, 2:30, 0x1F, ~, \"a\\tb\", 'it''s', 2026-11-29, <<]"))
        #expect(
            list.items?.map(\.text) == [
                "no", "1e3", "2:30", "0x1F", "~", "a\tb", "it's", "2026-11-29", "<<",
            ])
        #expect(
            list.items?.map(\.isNull)
                == [4].reduce(into: Array(repeating: false, count: 9)) {
                    $0[$1] = true
                })
        let block = try #require(
            try YAMLNode.document("a: |\n  two\n  lines\nb: >-\n  one\n  line\n"))
        #expect(block["a"]?.text == "two\nlines\n" && block["b"]?.text == "one line")
        #expect(block["c"] == nil && block.items == nil && block["a"]?["x"] == nil)
    }

    @Test("a quoted or tagged null is a text, and a tag other than that of a text is told")
    func nulls() throws {
        let list = try #require(try YAMLNode.document("[\"\", '~', !!str ~, !!int 5, !x 5, ! 5]"))
        #expect(list.items?.map(\.isNull) == [false, false, true, false, false, false])
        #expect(list.items?.map(\.isTagged) == [false, false, false, true, true, false])
    }

    @Test("an alias is the node of its anchor, the last of a name")
    func aliases() throws {
        let node = try #require(
            try YAMLNode.document("a: &x {k: [1, 2]}\nb: *x\nc: &x 3\nd: *x\n"))
        #expect(node["b"] == node["a"] && node["d"]?.text == "3")
        #expect(node["b"]?["k"]?.items?.map(\.text) == ["1", "2"])
    }

    @Test("a value has the line and the column, in characters, where it begins")
    func places() throws {
        let node = try #require(try YAMLNode.document("\u{FEFF}ключ: [ä, b]\nx:\n  - y: z\n"))
        let list = try #require(node.pairs?.first?.value)
        #expect(list.line == 1 && list.column == 7)
        #expect(list.items?.map(\.column) == [8, 11])
        let inner = try #require(node["x"]?.items?.first?["y"])
        #expect(inner.line == 3 && inner.column == 8)
    }

    @Test(
        "a text without a document is nothing",
        arguments: ["", "# only a remark\n", "\u{FEFF}", "\n\n"])
    func empty(_ text: String) throws {
        #expect(try YAMLNode.document(text) == nil)
    }

    /// Why a text is refused, and where.
    private func refusal(_ text: String) -> YAMLFailure? {
        do throws(YAMLFailure) {
            _ = try YAMLNode.document(text)
            return nil
        } catch {
            return error
        }
    }

    @Test("aliases of aliases are refused before they fill the memory")
    func laughs() {
        var text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
        for level in 1...12 {
            let before = Array(repeating: "*a\(level - 1)", count: 10).joined(separator: ", ")
            text += "a\(level): &a\(level) [\(before)]\n"
        }
        let failure = refusal(text)
        #expect(failure?.kind == .size && failure?.line == 5)
    }

    @Test("what is nested too deep is refused, also in block style")
    func depth() {
        let deep = (0..<40).map { String(repeating: " ", count: $0) + "k:\n" }.joined()
        #expect(refusal(deep)?.kind == .depth)
        #expect(refusal(String(repeating: "- ", count: 40) + "x")?.kind == .depth)
        #expect(refusal(String(repeating: "[", count: 100_000))?.kind == .depth)
        #expect(
            refusal(String(repeating: "[", count: 31) + String(repeating: "]", count: 31)) == nil)
    }

    @Test("a key stands once, by its bytes; what is no text may stand twice")
    func twice() {
        #expect(refusal("a: 1\n'a': 2")?.kind == .twice("a"))
        let second = refusal("x: {b: 1, c: 2, b: 3}")
        #expect(second?.kind == .twice("b") && second?.column == 17)
        #expect(refusal("\u{E9}: 1\ne\u{301}: 2") == nil)
        #expect(refusal("? [a]\n: 1\n? [a]\n: 2\n") == nil)
    }

    @Test(
        "a mistake of the grammar has its line",
        arguments: [("a: [1\nb: 2", 2), ("x: 1\na: 'x", 2), ("a:\n\tb: 1", 2), ("%x\n", 1)])
    func mistakes(_ text: String, _ line: Int) {
        let failure = refusal(text)
        if case .grammar? = failure?.kind {} else { Issue.record("\(text.debugDescription)") }
        #expect(failure?.line == line, "\(text.debugDescription)")
    }

    @Test("a loop of an anchor in itself is refused")
    func loop() {
        #expect(refusal("a: &a [*a]")?.kind == .alias("a"))
    }
}
