import Foundation
import TestSupport
import Testing

/// A figure on a page is true of the code that was measured. The page has the digest of that code.
@Suite("The figures on the pages")
struct FigureDigestTests {
    private static let root = ReliabilityDocumentTests.root

    /// The digest of each figure's code now.
    private static func digests() throws -> [String: String] {
        let program = root.appending(path: "scripts/lib/measured")
        let result = try RunningTool(program: program, []).wait()
        try #require(result.exit == 0, "\(result.error)")
        let pairs = result.output.split(separator: "\n").map { $0.split(separator: " ") }
        return Dictionary(uniqueKeysWithValues: pairs.map { (String($0[0]), String($0[1])) })
    }

    /// Words of code in a text.
    private static func words(_ text: some StringProtocol) -> [String] {
        text.split(separator: "`", omittingEmptySubsequences: false).enumerated()
            .filter { $0.offset % 2 == 1 }.map { String($0.element) }
    }

    /// What a page says of the age of figures, and which ones.
    private static func entries(_ text: String) throws -> [(
        line: String, age: String, names: [String]
    )] {
        let lines = text.split(separator: "\n").map(String.init)
        if let line = lines.first(where: { $0.hasPrefix("- code: ") }) {
            return line.dropFirst(8).split(separator: ", ").map {
                (String($0), String($0), [words($0).first ?? ""])
            }
        }
        let start = try #require(lines.firstIndex(of: "## Figures"))
        return lines[start...].filter { $0.hasPrefix("| `") }.map { line in
            let cells = line.split(separator: "|", omittingEmptySubsequences: false).map(
                String.init)
            return (line, cells.count > 4 ? cells[4] : "", words(cells[1]))
        }
    }

    @Test(
        "a figure whose code has changed is called old; PUSHSWEEP_TEST_WRITE_DOCS=1 calls it so",
        arguments: ["benchmarks", "peers"])
    func ages(page: String) throws {
        let file = Self.root.appending(path: "docs/internals/\(page).md")
        let digests = try Self.digests()
        var text = try String(contentsOf: file, encoding: .utf8)
        if ProcessInfo.processInfo.environment["PUSHSWEEP_TEST_WRITE_DOCS"] == "1" {
            for entry in try Self.entries(text) where !Self.isTrue(entry.age, entry.names, digests)
            {
                let old = entry.age.replacing(/`[0-9a-f]{8}`/, with: "old")
                text = text.replacing(
                    entry.line, with: entry.line.replacing(entry.age, with: old))
            }
            try text.write(to: file, atomically: true, encoding: .utf8)
        }
        let entries = try Self.entries(text)
        #expect(entries.count >= 9)
        for entry in entries {
            #expect(
                entry.names.contains { digests[$0] != nil },
                "Benchmarks/paths has no \(entry.names)")
            #expect(
                Self.isTrue(entry.age, entry.names, digests),
                "of \(entry.names) another code was measured: the row has to say old")
        }
    }

    /// Whether it says old, or has the digests of today.
    private static func isTrue(
        _ age: String, _ names: [String], _ digests: [String: String]
    ) -> Bool {
        age.contains("old")
            || names.compactMap { digests[$0] }.allSatisfy { age.contains("`\($0)`") }
    }
}
