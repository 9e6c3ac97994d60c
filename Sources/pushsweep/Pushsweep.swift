import ArgumentParser
import Glibc
import Looks
import Operations
import SecureTransport
import Settings

/// The command: parses the command line and passes it to one file per subcommand.
@main
struct Pushsweep: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pushsweep",
        abstract: "Keeps the token table of an Apple push sender free of dead device tokens.",
        discussion: """
            Takes each report that a token is dead: an answer 410 that your sender inserts into a \
            table, a line in the log of another sender, an answer to a notification that this \
            program sent, an entry in the list of a private gateway. Keeps it in a local journal, \
            compares it with the registration of the token, and marks or deletes the rows of tokens \
            that did not register again.

            Called alone the program prints the commands of the first day; pushsweep help exit-codes \
            explains how commands end, and pushsweep help with the name of a finding explains that.
            """,
        version: Version.text,
        subcommands: [
            InitCommand.self, CheckCommand.self, SweepCommand.self, ExplainCommand.self,
            ImportCommand.self,
            UndoCommand.self, HoldsCommand.self, QuarantineCommand.self, ChangesCommand.self,
            AuditCommand.self, EnvironmentsCommand.self, PurgeCommand.self, SchemaCommand.self,
            PreflightCommand.self,
            SendCommand.self, ReplayCommand.self,
            DemoCommand.self,
        ])

    /// The parser's error message, line by line. The message repeats words of the command line, and
    /// a line break in one of them would look like a line of the message. So when a word has such a
    /// character, the words are parsed again with each of these characters escaped.
    private static func refusal(_ error: any Error, of words: [String]) -> [String] {
        let printable = words.map(\.printable)
        var said = error
        if printable != words {
            do {
                _ = try parseAsRoot(printable)
                return ["Error: a word of the command line has an unprintable character"]
            } catch {
                said = error
            }
        }
        var lines = fullMessage(for: said).split(separator: "\n", omittingEmptySubsequences: false)
            .map(String.init)
        if let command = command(near: words) { lines[0] += "; did you mean '\(command)'?" }
        return lines
    }

    /// The command that a mistyped one among the words probably means; nil when each is known, or
    /// none is near.
    private static func command(near words: [String]) -> String? {
        let (commands, unknown) = path(words)
        let known = commands.last?.configuration.subcommands ?? []
        guard let unknown, !known.isEmpty, !unknown.hasPrefix("-") else { return nil }
        return NearestName.find(unknown, in: known.compactMap { $0.configuration.commandName })
    }

    /// Refuses an empty word, which is mostly a variable of a script that is not set, before any file or
    /// database is looked for. No argument has a meaning when it is empty. The words were parsed before,
    /// so those in front are a command.
    private static func refuseEmpty(_ words: [String]) {
        guard let place = words.firstIndex(of: "") else { return }
        let before = words[..<place]
        let last = before.contains("--") ? nil : before.last
        let option = last.flatMap { $0.hasPrefix("--") ? $0 : nil }
        let command = path(words).commands.compactMap { $0.configuration.commandName }
        refuse([
            "Error: " + (option.map { "the value of \($0) is empty" } ?? "an argument is empty")
                + "; perhaps a variable of a script is not set",
            "  See '\(command.joined(separator: " ")) --help' for more information.",
        ])
    }

    /// Runs the command line. A mistake in it ends with the closing line too.
    static func main() {
        forbidCoreDumps()
        guard let words = CommandWords.typed else {
            StandardStreams.message("pushsweep: error: \(CommandWords.absence)")
            StandardStreams.message(ClosingLine(.configuration, stage: "usage"))
            exit(withError: ArgumentParser.ExitCode(ExitStatus.configuration.rawValue))
        }
        answerHelp(words)
        do {
            var command = try parseAsRoot(words)
            refuseEmpty(words)
            try command.run()
        } catch let code as ArgumentParser.ExitCode {
            // A command that has run has already printed its messages.
            Glibc.exit(code.rawValue)
        } catch {
            let code = exitCode(for: error)
            guard code.rawValue == ExitStatus.usage.rawValue else { finish(with: error) }
            refuse(refusal(error, of: words))
        }
    }

    /// Ends the process where it is called alone, or asked about exit codes, a rule, or a word that is no
    /// command. The parser prints the other help.
    private static func answerHelp(_ words: [String]) {
        switch (words.isEmpty, HelpRequest(words, of: Pushsweep.self)) {
        case (true, _): StandardStreams.show(HelpText.firstDay(configuration.abstract), .prose)
        case (_, .exitCodes): StandardStreams.show(HelpText.exitCodes, .prose)
        case (_, .rules): StandardStreams.show(RuleBook.index, .prose)
        case (_, .rule(let rule)): StandardStreams.show(rule.lines, .prose)
        case (_, .unknown(let message)):
            refuse([message, "  See 'pushsweep help' for all commands."])
        case (_, .command), (_, nil): return
        }
        Glibc.exit(StandardStreams.resultWasLost.load(ordering: .relaxed) ? 73 : 0)
    }

    /// Ends the process with what the parser prints: a help, the version, a script. The parser breaks a help at
    /// the width of the terminal, also inside of its example, so here it is broken as reports are.
    private static func finish(with error: any Error) -> Never {
        let text = fullMessage(for: error, columns: 10_000)
        guard text.hasPrefix("OVERVIEW: "), StandardStreams.outputIsTerminal else {
            exit(withError: error)
        }
        StandardStreams.show(
            text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init), .prose)
        Glibc.exit(0)
    }

    /// Ends the process because of a mistake in the command line.
    private static func refuse(_ lines: [String]) -> Never {
        for line in lines { StandardStreams.message(line) }
        StandardStreams.message(ClosingLine(.usage, stage: "usage"))
        Glibc.exit(ExitStatus.usage.rawValue)
    }
}
