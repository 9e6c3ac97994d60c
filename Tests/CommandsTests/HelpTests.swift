import Commands
import Foundation
import TestSupport
import Testing

@Suite("The help")
struct HelpTests {
    private static func page(_ words: [String]) throws -> String {
        try Answered.by(words).ends(0, for: "\(words)").output
    }

    /// The words of each command that has no further commands, and its page.
    private static let commands = Result { try commands(below: []) }

    private static func commands(below words: [String]) throws -> [(words: [String], page: String)]
    {
        let page = try page(["help"] + words)
        let parts = page.components(separatedBy: "SUBCOMMANDS:\n")
        guard parts.count == 2 else { return [(words, page)] }
        return try parts[1].split(separator: "\n").filter { $0.hasPrefix("  ") }.flatMap { line in
            let name = line.dropFirst(2).prefix { !$0.isWhitespace }
            return name.first?.isLowercase == true
                ? try commands(below: words + [String(name)]) : []
        }
    }

    @Test("each command has one example, which the command line accepts, and no exit codes")
    func examples() throws {
        let commands = try Self.commands.get()
        #expect(commands.count > 20)
        var lines: [(words: [String], line: String)] = []
        for (words, page) in commands {
            #expect(!page.contains("EXIT STATUS"), "\(words)")
            let parts = page.components(separatedBy: "EXAMPLE\n")
            #expect(parts.count == 2, "\(words)")
            guard let line = parts.last?.split(separator: "\n").first else { continue }
            let digest = String(repeating: "a", count: 64)
            lines.append((words, String(line).replacing("DIGEST", with: digest)))
        }
        // A shell takes the words apart, as it does for a person.
        let script = lines.map { "\($0.line); echo" }.joined(separator: "\n")
        let typed = try RunningTool(
            program: URL(filePath: "/bin/sh"),
            ["-c", "pushsweep() { printf '%s\\036' \"$@\"; }\n\(script)"]
        ).wait().ends(0).output.split(separator: "\n")
        #expect(typed.count == lines.count)
        for ((words, line), typed) in zip(lines, typed) {
            let given = typed.split(separator: "\u{1E}").map(String.init)
            #expect(given.starts(with: words), "\(line)")
            guard case .command = CommandLineAnswer(given, atTerminal: false) else {
                Issue.record("the command line refuses \(line)")
                continue
            }
        }
    }

    @Test("help explains a finding by its name")
    func rules() throws {
        let page = try Self.page(["help", "open-hold"])
        for words in ["open-hold\n", "Why it matters:", "Look closer:", "Next:"] {
            #expect(page.contains(words), "\(page)")
        }
        #expect(try Self.page(["help", "rules"]).contains("  open-hold\n"))
        #expect(try Self.page(["help", "quarantine"]).contains("SUBCOMMANDS"))
        #expect(try Self.page(["help", "certificate-ends"]).contains("medium within 7 days"))
    }

    @Test("exit codes stand in one place, and each that the program has is there")
    func exitCodes() throws {
        let page = try Self.page(["help", "exit-codes"])
        let codes = page.split(separator: "\n").compactMap { $0.split(separator: " ").first }
            .compactMap { Int($0) }
        #expect(codes == [0, 2, 3, 4, 64, 65, 69, 70, 73, 74, 75, 76, 77, 78])
        let help = try Self.page(["--help"])
        #expect(help.replacing("\n", with: " ").contains("pushsweep help exit-codes"))
        #expect(!help.contains("EXIT STATUS"))
    }

    @Test("called alone it prints the five commands of the first day, and how to see all")
    func firstDay() throws {
        let page = try Self.page([])
        let commands = page.split(separator: "\n").filter { $0.hasPrefix("  pushsweep ") }
            .map { $0.dropFirst(2).components(separatedBy: "  ")[0] }
        #expect(
            commands == [
                "pushsweep init ADDRESS", "pushsweep check", "pushsweep sweep --dry-run",
                "pushsweep sweep", "pushsweep explain TOKEN",
            ])
        #expect(page.contains("All commands: pushsweep help\n"))
    }

    @Test(
        "help about a word that is no command is a mistake, and names what is near",
        arguments: [
            (["nonsense"], "there is no help about 'nonsense'\n"),
            (["swep"], "did you mean 'sweep'?"), (["exit-code"], "did you mean 'exit-codes'?"),
            (["stale-token"], "did you mean 'stale-tokens'?"),
            (["holds", "lst"], "there is no help about 'lst'; did you mean 'list'?"),
            (["sweep", "now"], "there is no help about 'now'\n"),
            ([""], "there is no help about ''"), (["a\u{1B}b"], "'a\\u{1B}b'"),
        ])
    func unknown(_ words: [String], _ reason: String) throws {
        let result = try Answered.by(["help"] + words)
            .ends(64, reason, "code=64 stage=usage ")
        #expect(result.output == "")
    }

    @Test("an empty argument behind -- is no value of an option")
    func emptyArgument() throws {
        try Answered.by(["explain", "--", ""]).ends(
            64, "an argument is empty", "See 'pushsweep explain --help'")
    }

    @Test("the help tells of evidence first and of gateways last")
    func story() throws {
        for words in [["--help"], ["help", "sweep"]] {
            let page = try Self.page(words)
            let evidence = try #require(page.range(of: "410"))
            let gateway = try #require(page.range(of: "gateway"))
            #expect(evidence.lowerBound < gateway.lowerBound, "\(page)")
        }
        let names = try Self.commands.get().map { $0.words[0] }
        let (log, list) = (names.firstIndex(of: "import"), names.firstIndex(of: "replay"))
        #expect(try #require(log) < #require(list))
    }
}
