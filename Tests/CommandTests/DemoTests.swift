import Foundation
import TestSupport
import Testing

@Suite("The command demo")
struct DemoTests {
    /// Ports and times differ from run to run, and all of them are digits.
    private static func timeless(_ text: String) -> [String] {
        text.split(separator: "\n").map { line in
            var end = Substring(line)
            while end.last == " " { end.removeLast() }
            return String(end.map { $0.isNumber ? "0" : $0 })
        }
    }

    /// The block of the README that begins with the demo's first sentence.
    private static func readme() throws -> String {
        let file = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../../README.md").standardizedFileURL
        let text = try String(contentsOf: file, encoding: .utf8)
        let block = text.components(separatedBy: "```\n").first { $0.hasPrefix("1. A gateway") }
        return try #require(block)
    }

    @Test("demo sweeps and sends with real connections and prints what the README shows")
    func story() throws {
        let result = try Tool.pushsweep("demo")
        #expect(result.exit == 0, "\(result.error)")
        #expect(result.output.contains("rows changed by the second run: none"))
        #expect(result.output.contains("never on the wire: ada\n"))
        let rows = result.output.split(separator: "\n").filter { $0.hasPrefix("     eve") }
        try #require(rows.count == 4)
        #expect(rows[1].contains("  valid  "), "marked before anything was sent to it")
        #expect(rows[2].contains("gone (Unregistered)"))
        #expect(rows[3].contains("invalid since"))
        #expect(try Self.timeless(result.output) == Self.timeless(Self.readme()))
    }
}
