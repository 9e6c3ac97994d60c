// What a person reads who calls the program alone, asks for help, or asks for it about a word. Exit codes stand
// here once, for all commands, and in the man page of the program.

import ArgumentParser
import Looks
import Operations
import Settings

/// The texts of the help.
enum HelpText {
    /// The discussion of a command: the text of a file in `Help`. The lines of a paragraph are joined, for the
    /// parser breaks them at the width of the terminal; those of the example stay.
    static func whole(_ file: [UInt8]) -> String {
        String(decoding: file, as: UTF8.self).split(separator: "\n\n").map { paragraph in
            paragraph.contains("\n  ")
                ? paragraph.trimmed : paragraph.split(separator: "\n").joined(separator: " ")
        }.joined(separator: "\n\n")
    }

    /// What `pushsweep help exit-codes` prints.
    static let exitCodes: [String] =
        ["EXIT STATUS"]
        + ExitStatus.allCases.map { code in
            let number = String(code.rawValue)
            return "  " + number + String(repeating: " ", count: 4 - number.count) + code.meaning
        } + [
            "",
            "Any other code means failure. After a failure the last line of stderr is one summary for "
                + "scripts.",
        ]

    /// The lines that the program prints where it is called alone, behind its purpose.
    static func firstDay(_ purpose: String) -> [String] {
        [purpose, "", "The first day:"]
            + firstCommands.map { command, job in
                let gap = String(repeating: " ", count: 27 - command.count)
                return "  \(command)\(gap)\(job)"
            } + [
                "", "All commands: pushsweep help", "One of them:  pushsweep help sweep",
                "Exit codes:   pushsweep help exit-codes",
                "Findings:     pushsweep help rules, or help with the name of one",
            ]
    }

    private static let firstCommands = [
        (
            "pushsweep init ADDRESS",
            "the first look at a database: finds the token table and proposes the settings"
        ),
        ("pushsweep check", "examines settings, rights and rows before anything changes"),
        ("pushsweep sweep --dry-run", "says which rows would change, and changes none"),
        ("pushsweep sweep", "marks or deletes the rows of dead tokens"),
        ("pushsweep explain TOKEN", "tells what happened to a token, and why"),
    ]
}

extension StringProtocol {
    /// The text without line breaks at its end.
    fileprivate var trimmed: String {
        var text = self[...]
        while text.last?.isNewline == true { text.removeLast() }
        return String(text)
    }
}

/// What the words behind `pushsweep help` ask for.
enum HelpRequest {
    /// The program, or one of its commands: the parser prints its help.
    case command
    case exitCodes
    /// The names of all rules.
    case rules
    /// A rule of `check`, `audit` and `preflight`.
    case rule(Rule)
    /// The program has no such topic; the message says which are near.
    case unknown(String)

    private static let (topic, list) = ("exit-codes", "rules")

    /// Reads the words of the command line of a program; nil where they do not begin with `help`.
    init?(_ words: [String], of program: any ParsableCommand.Type) {
        guard words.first == "help" else { return nil }
        let topics = words.dropFirst().filter { !["-h", "--help", "help"].contains($0) }
        if topics.elementsEqual([Self.topic]) {
            self = .exitCodes
            return
        }
        if topics.elementsEqual([Self.list]) {
            self = .rules
            return
        }
        let (commands, unknown) = program.path(topics)
        guard let unknown else {
            self = .command
            return
        }
        if topics.count == 1, let rule = RuleBook.rule(unknown) {
            self = .rule(rule)
            return
        }
        let names = (commands.last?.configuration.subcommands ?? [])
            .compactMap { $0.configuration.commandName }
        let near = NearestName.find(
            unknown,
            in: names
                + (commands.count == 1 ? [Self.topic, Self.list] + RuleBook.all.map(\.name) : []))
        self = .unknown(
            "Error: there is no help about '\(unknown)'"
                + (near.map { "; did you mean '\($0)'?" } ?? ""))
    }
}

extension ParsableCommand {
    /// Whether a command is this one, or one below it.
    static func has(_ command: any ParsableCommand.Type) -> Bool {
        self == command || configuration.subcommands.contains { $0.has(command) }
    }

    /// This command and those below it that the first words name, and the first word that names none.
    static func path(
        _ words: some Sequence<String>
    ) -> (commands: [any ParsableCommand.Type], unknown: String?) {
        var commands: [any ParsableCommand.Type] = [Self.self]
        for word in words {
            let below = commands[commands.count - 1].configuration.subcommands
            guard let next = below.first(where: { $0.configuration.commandName == word }) else {
                return (commands, word)
            }
            commands.append(next)
        }
        return (commands, nil)
    }
}
