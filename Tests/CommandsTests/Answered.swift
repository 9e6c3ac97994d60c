import Commands
import Encodings
import Operations
import TestSupport

/// What the program answers to words alone, asked in this process.
enum Answered {
    /// A command has no answer before it is run.
    struct IsCommand: Error {
        let words: [String]
    }

    /// What the program prints, to a pipe or a file, where the words name no command to run.
    static func by(_ words: [String]) throws -> ToolResult {
        switch CommandLineAnswer(words, atTerminal: false) {
        case .command: throw IsCommand(words: words)
        case .shown(let lines):
            return ToolResult(exit: 0, output: lines.joined(separator: "\n") + "\n", error: "")
        case .printed(let text): return ToolResult(exit: 0, output: text + "\n", error: "")
        case .refused(let lines):
            let closing = "\(ClosingLine(.usage, stage: "usage"))"
            return ToolResult(
                exit: 64, output: "",
                error: (lines.map(\.printable) + [closing]).joined(separator: "\n") + "\n")
        }
    }
}
