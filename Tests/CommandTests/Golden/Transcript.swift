// The output of the programs. A word in angle brackets replaces everything that differs between
// runs: random names, times, durations, ports and folders. So two runs of one version print the
// same, and a difference from the kept copy is a difference for users.

import APNsSimulator
import Foundation
import TestSupport

/// Commands with their output, ready to be compared.
struct Transcript {
    private(set) var text = ""
    private var uuids: [String: String] = [:]
    /// Texts to be replaced, and by what.
    private let known: [(String, String)]

    /// A transcript in which each of the texts is shown as the word beside it.
    init(hiding known: [(String, String)] = []) {
        // Longer texts first, because one folder may be inside another.
        self.known = known.sorted { $0.0.count > $1.0.count }
    }

    /// Adds a command line with its output, its messages and its exit code.
    mutating func add(_ words: [String], _ result: ToolResult) {
        text += plain("$ pushsweep \(words.joined(separator: " "))\n")
        if !result.output.isEmpty { text += plain(Self.indented(result.output, "  ")) }
        if !result.error.isEmpty { text += plain(Self.indented(result.error, "! ")) }
        text += "= \(result.exit)\n\n"
    }

    /// Adds a text under a heading.
    mutating func add(_ heading: String, _ body: String) {
        text += "# \(heading)\n" + plain(Self.indented(body, "  ")) + "\n"
    }

    private static func indented(_ text: String, _ sign: String) -> String {
        let text = text.split(separator: "\n", omittingEmptySubsequences: false)
            .map(opened).joined(separator: "\n")
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        return (lines.last == "" ? lines.dropLast() : lines).map {
            ($0.isEmpty ? sign.trimmingCharacters(in: .whitespaces) : sign + $0) + "\n"
        }.joined()
    }

    /// An object in JSON with a line for each of its members; any other line as it is.
    private static func opened(_ line: Substring) -> String {
        guard line.hasPrefix("{"),
            let object = try? JSONSerialization.jsonObject(with: Data(line.utf8)),
            let pretty = try? JSONSerialization.data(
                withJSONObject: object,
                options: [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes])
        else { return String(line) }
        return String(decoding: pretty, as: UTF8.self)
    }

    private mutating func plain(_ text: String) -> String {
        var text = text
        for (found, word) in known { text = text.replacing(found, with: word) }
        let uuid = /[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}/
        text = text.replacing(uuid) { match in
            let name = match.output.lowercased()
            let word = uuids[name] ?? "<uuid \(uuids.count + 1)>"
            uuids[name] = word
            return word
        }
        // The beginning of a name that is known already.
        for (name, word) in uuids {
            text = text.replacing(name.prefix(8) + " ", with: word.dropLast() + ", beginning> ")
        }
        let place = FileManager.default.temporaryDirectory.standardizedFileURL.path
        text = text.replacing(place + "/ps_", with: "/tmp/ps_")
        text = text.replacing(/\/tmp\/ps_[0-9a-f]{32}/, with: { _ in "<database>" })
        // Columns are as wide as the widest folder of the run.
        text = text.replacing(/(\S) {2,}(?=\S)/) { "\($0.1)  " }
        text = text.replacing(
            /\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| UTC)?/, with: { _ in "<time>" })
        text = text.replacing(/"(digest|identity|settings)" ?: ?"[0-9a-f]+"/) {
            "\"\($0.1)\" : \"<digest>\""
        }
        text = text.replacing(/"(\w*([sS]econds|Rate|PerSecond|resident\w*))" ?: ?[\d.]+/) {
            "\"\($0.1)\" : <number>"
        }
        text = text.replacing(/\b[0-9a-f]{64}\b/, with: { _ in "<digest>" })
        text = text.replacing(/\b1\d{9}(\.\d+)?\b/, with: { _ in "<seconds>" })
        text = text.replacing(/SQLite [\d.]+/, with: { _ in "SQLite <version>" })
        text = text.replacing(/(_duration_seconds\{[^}]*\}) [\d.]+/) { "\($0.1) <number>" }
        text = text.replacing(/\b0\.\d{2,}\b/, with: { _ in "<number>" })
        return text.replacing(/\b\d+([.,]\d+)? (ms|s|MiB|days|hours)\b/) { "<number> \($0.2)" }
    }
}
