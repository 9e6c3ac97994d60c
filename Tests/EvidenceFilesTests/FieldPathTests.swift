import Testing

@testable import EvidenceFiles

@Suite("The path to a field")
struct FieldPathTests {
    @Test(
        "a path is keys and indexes, and jq spells it in the same way",
        arguments: [
            ("a", ".a"), (".a", ".a"), ("a.b", ".a.b"), ("a[0].b", ".a[0].b"), ("[2]", ".[2]"),
            (#"["a b"]"#, #".["a b"]"#), (#"a["b.c"].d"#, #".a["b.c"].d"#), ("a[1][2]", ".a[1][2]"),
            ("1a", #".["1a"]"#), ("a_1", ".a_1"), ("A.Z", ".A.Z"), ("é", #".["é"]"#),
        ])
    func paths(text: String, jq: String) throws {
        let path = try JSONPath(text)
        #expect(path.text == text)
        #expect(path.jq(path.steps.count) == jq)
        #expect(path.jq(0) == "")
    }

    @Test(
        "a path that is empty or does not end is refused with what is wrong",
        arguments: [
            ("", "an empty key"), (".", "an empty key"), ("a..b", "an empty key"),
            ("a.", "an empty key"),
            ("..a", "an empty key"), ("a[x]", "an index that is no number"),
            ("a[-1]", "an index that is no number"), ("a[1", "an index that is no number"),
            ("a[]", "an index that is no number"), (#"a["b"#, "a key in quotes that is empty"),
            (#"a[""]"#, "a key in quotes that is empty"),
            (#"a["b"x"#, "a key in quotes that is empty"),
        ])
    func refusals(text: String, words: String) throws {
        let refusal = #expect(throws: UnreadableFile.self) { try JSONPath(text) }
        #expect("\(try #require(refusal))".contains(words))
    }

    @Test("a path has a hundred steps and no more")
    func longest() throws {
        func path(_ steps: Int) -> String {
            Array(repeating: "a", count: steps).joined(separator: ".")
        }
        #expect(try JSONPath(path(100)).steps.count == 100)
        #expect(throws: UnreadableFile.self) { try JSONPath(path(101)) }
    }

    @Test("what follows the name of a column leads into the JSON in it")
    func columns() throws {
        func steps(_ path: String, _ name: String) throws -> [JSONPath.Step]? {
            try JSONPath(path).steps(after: Array(name.utf8))
        }
        #expect(try steps("a.b", "a") == [.key([98])] && steps(".a.b", "a") == [.key([98])])
        #expect(try steps("a[1]", "a") == [.index(1)])
        #expect(try steps("ab", "a") == nil && steps("a", "a") == nil && steps("a.b", "") == nil)
        #expect(try steps("a.b", "b") == nil)
        #expect(try JSONPath(".a.b").wholeName == Array("a.b".utf8))
        #expect(try JSONPath(#"["a.b"]"#).wholeName == Array("a.b".utf8))
    }

    @Test(
        "a map names each field once, and the token at least",
        arguments: [
            ("token", "'token' is not FIELD=PATH"), ("x=.y", "'x=.y' is not FIELD=PATH"),
            ("token=.a,token=.b", "the field token is given twice"),
            ("time=.a", "it has no token=PATH"),
            ("", "'' is not FIELD=PATH"), ("token=.a,", "'' is not FIELD=PATH"),
        ])
    func maps(text: String, words: String) throws {
        let refusal = #expect(throws: UnreadableFile.self) { try FieldMap(text) }
        #expect("\(try #require(refusal))".contains(words))
        let map = try FieldMap(" token = .a , time=.b")
        #expect(map.paths.mapValues(\.text) == [.token: ".a", .time: ".b"])
    }
}
