import Encodings
import Foundation
import TestSupport
import Testing

@Suite("The forms of JSON documents")
struct DocumentFormTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "../..").standardizedFileURL

    private static var forms: [URL] {
        get throws {
            try FileManager.default.contentsOfDirectory(
                at: root.appending(path: "docs/json"), includingPropertiesForKeys: nil)
        }
    }

    /// The names of all fields in a form, also of objects within.
    private static func fields(_ form: Any) -> Set<String> {
        if let list = form as? [Any] { return Set(list.flatMap(fields)) }
        guard let object = form as? [String: Any] else { return [] }
        let properties = object["properties"] as? [String: Any] ?? [:]
        return Set(properties.keys).union(properties.values.flatMap(fields))
            .union(object.filter { $0.key != "properties" }.values.flatMap(fields))
    }

    @Test("each form asks for the version that is printed, and the pages name it and its fields")
    func pages() throws {
        let page = try String(
            contentsOf: Self.root.appending(path: "docs/json.md"), encoding: .utf8)
        let known =
            try page
            + String(contentsOf: Self.root.appending(path: "docs/changes.md"), encoding: .utf8)
        let forms = try Self.forms
        #expect(forms.count > 15)
        for file in forms {
            let name = file.lastPathComponent
            let form = try #require(
                try JSONSerialization.jsonObject(with: Data(contentsOf: file)) as? [String: Any])
            let properties = try #require(form["properties"] as? [String: Any])
            let version = properties["schema"] as? [String: Any]
            #expect(version?["const"] as? Int == JSONDocument<Int>.schema, "\(name)")
            #expect((form["required"] as? [String])?.contains("schema") == true, "\(name)")
            #expect(page.contains("](json/\(name))"), "docs/json.md does not name \(name)")
            for field in Self.fields(form).sorted() {
                #expect(known.contains("`\(field)`"), "\(name): no page names \(field)")
            }
        }
    }

    /// Whether the validator can be run here.
    private static let hasValidator =
        (try? ForeignProgram.python.run(["-c", "import jsonschema"]).exit) == 0

    @Test(
        "the validator passes a printed document, and names a field too many and one too few",
        .enabled(if: hasValidator))
    func validator() throws {
        let stage = try SweepStage(.sqlite, dead: 2)
        let printed = try stage.sweep().output.split(separator: "\n")
        let line = String(try #require(printed.last))
        #expect(line.contains(#""schema":1"#))
        func verdict(_ line: String, _ words: String...) throws -> ToolResult {
            let folder = try TemporaryFolder()
            let kept = try JSONSerialization.data(withJSONObject: ["words": words, "line": line])
            try folder.write("1.jsonl", String(decoding: kept, as: UTF8.self) + "\n")
            return try ForeignProgram.python.run([
                Self.root.appending(path: "scripts/lib/documents.py").path,
                Self.root.appending(path: "docs/json").path, folder.path,
            ])
        }
        try verdict(line, "sweep", "--format", "json").ends(0, "1 printed, 0 kinds of faults")
        let faults: [(String, String, String)] = [
            (#""exit":0,"#, #""exit":0,"novel":1,"#, "'novel' was unexpected"),
            (#""exit":0,"#, "", "'exit' is a required property"),
            (#""schema":1"#, #""schema":2"#, "$.schema: 1 was expected"),
            (#""bytes":"#, #""bytes":-"#, "$.apps[0].bytes: "),
        ]
        for (old, new, message) in faults {
            let wrong = try verdict(line.replacing(old, with: new), "sweep", "--format", "json")
                .ends(1)
            #expect(wrong.error.contains(message), "\(wrong.error)")
        }
        try verdict(line, "frobnicate").ends(1, "no form frobnicate.schema.json")
    }
}
