import Encodings
import Foundation
import TestSupport
import Testing

@Suite("Texts that name something outside")
struct ExactTextTests {
    private let one = "\u{E9}"
    private let two = "e\u{301}"

    @Test("texts with the same letters and other bytes are two, in comparisons, sets and lists")
    func identity() {
        #expect(one == two && !one.isExactly(two) && one.isExactly("\u{E9}"))
        #expect(ExactText(one) != ExactText(two) && ExactText(one) == ExactText("\u{E9}"))
        #expect(Set([ExactText(one), ExactText(two), ExactText("\u{E9}")]).count == 2)
        #expect([two, one].firstIndex(exactly: one) == 1 && ["a"].firstIndex(exactly: "b") == nil)
        #expect([two].contains(exactly: two) && ![two].contains(exactly: one))
        #expect("\(ExactText(two))".isExactly(two) && ExactText("").isEmpty)
        #expect(ExactText("a").isEmpty == false && Array(ExactText("az").utf8) == [97, 122])
    }

    @Test("texts are ordered by their bytes, a beginning before what it begins")
    func order() {
        let texts = ["", "a", "aa", "b", two, "z", "\u{7F}", one, "\u{FF5E}", "\u{1F4F1}"]
        var random = SeededGenerator("order of texts")
        let mixed = texts.shuffled(using: &random).map { ExactText($0) }
        #expect(mixed.sorted().map { Array($0.utf8) } == texts.map { Array($0.utf8) })
        #expect(!(ExactText("a") < ExactText("a")))
    }

    @Test(
        "a beginning has no more bytes than it may, and ends with a whole character",
        arguments: [
            (0, ""), (1, "a"), (2, "a"), (3, "aé"), (4, "aé"), (6, "aé"), (7, "aé📱"), (8, "aé📱b"),
            (9, "aé📱b"), (-1, ""),
        ])
    func beginnings(bytes: Int, beginning: String) {
        #expect("aé📱b".prefix(bytes: bytes).isExactly(beginning))
    }

    @Test("a beginning may end between a letter and its accent, which are two characters in UTF-8")
    func accents() {
        #expect(two.prefix(bytes: 1).isExactly("e") && two.prefix(bytes: 2).isExactly("e"))
        #expect(two.prefix(bytes: 3).isExactly(two))
    }
}

@Suite("Names of paths")
struct PathNameTests {
    @Test(
        "the folder and the last name of a path are those that the system finds",
        arguments: [
            ("/a/b", "/a", "b"), ("/a/b/", "/a", "b"), ("/a//b//", "/a", "b"), ("/a", "/", "a"),
            ("//a", "/", "a"), ("a", ".", "a"), ("a/", ".", "a"), ("a/b", "a", "b"), ("", ".", ""),
            ("/", ".", ""), ("/a/é\u{301}", "/a", "é\u{301}"), ("./a", ".", "a"),
        ])
    func names(path: String, parent: String, name: String) {
        #expect(path.parentPath == parent)
        #expect(path.lastName.isExactly(name))
    }
}

@Suite("Small means")
struct SmallMeansTests {
    @Test(
        "the hash is FNV-1a of 32 bits by its published values",
        arguments: [
            ("", 0x811C_9DC5), ("a", 0xE40C_292C), ("foobar", 0xBF9C_F968), ("b", 0xE70C_2DE5),
        ] as [(String, UInt32)])
    func hashes(text: String, hash: UInt32) {
        #expect(FNV1a.hash(text) == hash)
        #expect(FNV1a.hash(Array(text.utf8)) == hash)
    }

    @Test("what several threads make of a list stands in the order of the list")
    func concurrentMap() {
        #expect([Int]().concurrentMap { $0 }.isEmpty)
        #expect([7].concurrentMap { "\($0)" } == ["7"])
        #expect(Array(0..<1_000).concurrentMap { $0 * 2 } == Array(0..<1_000).map { $0 * 2 })
    }

    @Test("all bytes are written to a pipe, and a failure says so")
    func wholeWrites() throws {
        let pipe = Pipe()
        let bytes = Array("twelve bytes".utf8)
        #expect(writeWhole(bytes, to: pipe.fileHandleForWriting.fileDescriptor))
        #expect(writeWhole([UInt8](), to: -1) && !writeWhole(bytes, to: -1))
        try pipe.fileHandleForWriting.close()
        #expect(try pipe.fileHandleForReading.readToEnd() == Data(bytes))
    }

    @Test(
        "a value of an option stands behind it, and with = where it begins like an option",
        arguments: [
            ("a", "--file a"), ("-a", "--file=-a"), ("a b", "--file 'a b'"), ("", "--file ''"),
            ("- a", "'--file=- a'"),
        ])
    func optionValues(value: String, words: String) {
        #expect(value.asValue(of: "--file") == words)
    }

    @Test(
        "a part of a text is replaced wherever it stands, in another case only where that is wanted",
        arguments: [
            ("abcabc", "b", "-", false, "a-ca-c"), ("aaa", "aa", "-", false, "-a"),
            ("ABab", "ab", "-", false, "AB-"), ("ABab", "ab", "-", true, "--"),
            ("ABab", "AB", "-", true, "--"), ("ab", "", "-", false, "ab"),
            ("a", "ab", "-", false, "a"),
            ("ab", "ab", "", false, ""), ("[@", "{`", "-", true, "[@"), ("é", "e", "-", false, "é"),
        ])
    func replaced(text: String, part: String, other: String, anyCase: Bool, result: String) {
        #expect(text.replacing(exactly: part, with: other, ignoringCase: anyCase) == result)
    }
}
