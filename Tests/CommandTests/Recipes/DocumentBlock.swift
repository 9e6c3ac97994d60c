import Foundation

/// A fenced block of a document: the words after its fence, its heading, and its lines.
struct DocumentBlock {
    /// The first word after the fence.
    let language: String
    /// The second word after the fence; empty without one.
    let name: String
    /// The last heading above the block.
    let section: String
    /// The lines, each with its line break.
    let text: String

    /// The path of a document, named from the root of the project.
    static func path(_ document: String) -> URL {
        URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: document)
    }

    /// The blocks of a document, in their order.
    static func all(of document: String) throws -> [DocumentBlock] {
        let text = try String(contentsOf: path(document), encoding: .utf8)
        var blocks: [DocumentBlock] = []
        var lines: [Substring]?
        var head: [Substring] = []
        var section = ""
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            if line.hasPrefix("```") {
                if let content = lines {
                    blocks.append(
                        DocumentBlock(
                            language: String(head.first ?? ""),
                            name: head.count > 1 ? String(head[1]) : "", section: section,
                            text: content.joined(separator: "\n") + "\n"))
                    lines = nil
                } else {
                    head = line.dropFirst(3).split(separator: " ")
                    lines = []
                }
            } else if lines != nil {
                lines?.append(line)
            } else if line.hasPrefix("#") {
                section = String(line.drop { $0 == "#" || $0 == " " })
            }
        }
        return blocks
    }

    /// The words of a shell command with double quotes.
    static func words(_ command: String) -> [String] {
        var words: [String] = [""]
        var isQuoted = false
        for character in command {
            if character == "\"" {
                isQuoted.toggle()
            } else if character == " ", !isQuoted {
                words.append("")
            } else {
                words[words.count - 1].append(character)
            }
        }
        return words.filter { !$0.isEmpty }
    }

    /// The statements of a block of SQL, each without its semicolon.
    var statements: [String] {
        text.split(separator: ";\n").map { $0.trimmingCharacters(in: .whitespacesAndNewlines) }
            .filter { !$0.isEmpty }
    }

    /// The commands of a block for the shell, without their comments, each with the exit code that
    /// its comment names; 0 without one.
    var commands: [(words: [String], exit: Int32)] {
        text.split(separator: "\n").filter { !$0.hasPrefix("#") }.map { line in
            let parts = line.split(separator: "#", maxSplits: 1)
            let code = parts.count > 1 ? parts[1].firstMatch(of: /ends with (\d+)/) : nil
            return (Self.words(String(parts[0])), code.flatMap { Int32($0.1) } ?? 0)
        }
    }
}
