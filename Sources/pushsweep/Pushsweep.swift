import ArgumentParser
import Operations

/// The command: parses what was typed and hands it to one file per subcommand.
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
            SweepCommand.self, ReplayCommand.self, CheckCommand.self, SchemaCommand.self,
            QuarantineCommand.self,
        ])
}

/// The version of this build.
enum Version {
    static let text = "0.1.0"
}

/// The block about exit codes that every help text carries.
enum HelpText {
    static let exitStatus =
        "EXIT STATUS\n"
        + ExitStatus.allCases.map { code in
            let number = String(code.rawValue)
            return "  " + number + String(repeating: " ", count: 4 - number.count) + code.meaning
        }.joined(separator: "\n")
        + "\n\nAny other code means failure. After a failure the last line of stderr is one summary "
        + "for scripts."
}
