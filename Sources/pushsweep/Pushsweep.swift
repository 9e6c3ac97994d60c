import ArgumentParser
import Glibc
import Operations
import SecureTransport
import Settings

/// The command: parses the command line and passes it to one file per subcommand.
@main
struct Pushsweep: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pushsweep",
        abstract: "Keeps the token table of a push sender free of dead device tokens.",
        discussion: """
            Reads feedback gateways, keeps what they say in a local journal, compares each token \
            with its registration time, and marks or deletes the stale rows of active_users.

            \(HelpText.exitStatus)
            """,
        version: Version.text,
        subcommands: [
            SweepCommand.self, SendCommand.self, PreflightCommand.self, EnqueueCommand.self,
            ReplayCommand.self,
            ImportCommand.self, UndoCommand.self, ChangesCommand.self, PurgeCommand.self,
            HoldsCommand.self, QuarantineCommand.self, AuditCommand.self, ExplainCommand.self,
            DeliveriesCommand.self,
            CheckCommand.self,
            SchemaCommand.self,
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
        var current: any ParsableCommand.Type = Pushsweep.self
        for word in words {
            let known = current.configuration.subcommands
            guard !known.isEmpty, !word.hasPrefix("-") else { return nil }
            guard let next = known.first(where: { $0.configuration.commandName == word }) else {
                return NearestName.find(word, in: known.compactMap { $0.configuration.commandName })
            }
            current = next
        }
        return nil
    }

    /// Refuses an empty word, which is mostly a variable of a script that is not set, before any file or
    /// database is looked for. No argument has a meaning when it is empty.
    private static func refuseEmpty(_ words: [String]) throws {
        guard let place = words.firstIndex(of: "") else { return }
        let option = words[..<place].last.flatMap { $0.hasPrefix("--") ? $0 : nil }
        throw ValidationError(
            (option.map { "the value of \($0) is empty" } ?? "an argument is empty")
                + "; perhaps a variable of a script is not set")
    }

    /// Runs the command line. A mistake in it ends with the closing line too.
    static func main() {
        forbidCoreDumps()
        guard let words = CommandWords.typed else {
            StandardStreams.message("pushsweep: error: \(CommandWords.absence)")
            StandardStreams.message(
                "\(ClosingLine(.configuration, stage: "usage"))")
            exit(withError: ArgumentParser.ExitCode(ExitStatus.configuration.rawValue))
        }
        do {
            var command = try parseAsRoot(words)
            try refuseEmpty(words)
            try command.run()
        } catch let code as ArgumentParser.ExitCode {
            // A command that has run has already printed its messages.
            Glibc.exit(code.rawValue)
        } catch {
            let code = exitCode(for: error)
            guard code.rawValue == ExitStatus.usage.rawValue else { exit(withError: error) }
            for line in refusal(error, of: words) { StandardStreams.message(line) }
            StandardStreams.message("\(ClosingLine(.usage, stage: "usage"))")
            exit(withError: code)
        }
    }
}
