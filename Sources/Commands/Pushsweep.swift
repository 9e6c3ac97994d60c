import ArgumentParser
import Glibc
import Operations
import SecureTransport

/// The command: its subcommands are a file each in `Jobs`.
package struct Pushsweep: ParsableCommand {
    package static let configuration = CommandConfiguration(
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

    package init() {}

    /// Runs the command line of this process, and ends the process. A mistake in it ends with the closing line
    /// too.
    package static func start() -> Never {
        forbidCoreDumps()
        guard let words = CommandWords.typed else {
            StandardStreams.message("pushsweep: error: \(CommandWords.absence)")
            StandardStreams.message(ClosingLine(.configuration, stage: "usage"))
            Glibc.exit(ExitStatus.configuration.rawValue)
        }
        let atTerminal = StandardStreams.outputIsTerminal
        switch CommandLineAnswer(words, atTerminal: atTerminal) {
        case .command(var command):
            do {
                try command.run()
                Glibc.exit(ExitStatus.done.rawValue)
            } catch let code as ArgumentParser.ExitCode {
                // A command that has run has already printed its messages.
                Glibc.exit(code.rawValue)
            } catch {
                end(with: .thrown(error, by: words, atTerminal: atTerminal))
            }
        case let answer: end(with: answer)
        }
    }

    /// Ends the process with what is no command to run.
    private static func end(with answer: CommandLineAnswer) -> Never {
        switch answer {
        case .command: preconditionFailure("a command is run")
        case .shown(let lines): StandardStreams.show(lines, .prose)
        case .printed(let text): StandardStreams.result(whole: text + "\n")
        case .refused(let lines):
            for line in lines { StandardStreams.message(line) }
            StandardStreams.message(ClosingLine(.usage, stage: "usage"))
            Glibc.exit(ExitStatus.usage.rawValue)
        }
        Glibc.exit(StandardStreams.resultWasLost.load(ordering: .relaxed) ? 73 : 0)
    }
}
