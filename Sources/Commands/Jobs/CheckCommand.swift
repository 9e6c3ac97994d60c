import ArgumentParser
import Glibc
import Looks
import Operations
import Settings

/// `pushsweep check`: tests what a sweep or a sender needs, and changes no batch and no row.
struct CheckCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Examine settings, certificates, state and database; print the exact GRANTs.",
        discussion: HelpText.whole(PackageResources.check_txt))

    @OptionGroup var common: CommonOptions

    // A name is text here, because the parser takes the default for a name that it cannot read.
    @Option(
        defaultAsFlag: SettingsExample.short.rawValue, parsing: .next,
        help: ArgumentHelp(
            "Print a settings file to start from, as YAML; read and check nothing. "
                + "Names: \(CheckCommand.exampleNames).", valueName: "name"),
        completion: .list(SettingsExample.allCases.map(\.rawValue)))
    var example: String?

    /// The names that `--example` takes.
    private static let exampleNames = SettingsExample.allCases.map(\.rawValue).joined(
        separator: ", ")

    @Flag(help: "With --example: print every setting.")
    var all = false

    @Flag(help: "Print the statements that make the account and give it its rights, as SQL.")
    var grants = false

    @Flag(help: "Print every setting with its origin too.")
    var settings = false

    @OptionGroup var decisions: IgnoreOptions

    @Argument(help: "With --grants: the account, as name or name@host.")
    var user: String?

    func validate() throws {
        if example != nil && grants {
            throw ValidationError("--example goes without --grants")
        }
        if decisions.ignore != nil && (example != nil || grants) {
            throw ValidationError("--ignore goes with neither --example nor --grants")
        }
        if settings && (example != nil || grants) {
            throw ValidationError("--settings goes with neither --example nor --grants")
        }
        if let example, SettingsExample(rawValue: example) == nil {
            throw ValidationError(
                "there is no example '\(example)'; the names are \(Self.exampleNames)")
        }
        guard !all || example == SettingsExample.short.rawValue else {
            throw ValidationError("--all goes with --example, and without a name")
        }
        guard let user else { return }
        guard grants else { throw ValidationError("an account goes with --grants only") }
        guard let first = user.first, first != "@" else {
            throw ValidationError("the account needs a name, as name or name@host")
        }
    }

    func run() throws {
        try common.finish { context in
            if let example = example.flatMap(SettingsExample.init(rawValue:)) {
                let file = all ? SettingsTable.sampleFile() : example.text
                StandardStreams.result(
                    file.dropLast().split(
                        separator: "\n", omittingEmptySubsequences: false
                    ).map(String.init))
                return .done
            }
            if grants {
                common.print(try GrantReport(common.settings(), user: user))
                return .done
            }
            var report = Check.run(
                try common.settings(), ignoring: try decisions.list(), context)
            report.showsSettings = settings
            common.print(report)
            // A person has just read them.
            if !StandardStreams.outputIsTerminal || common.format == .json {
                for failure in report.failures { context.log.error("\(failure)") }
            }
            let status = ExitStatus(rawValue: report.exit) ?? .invariant
            if status != .done {
                StandardStreams.close(
                    with: ClosingLine(
                        status, stage: "check",
                        ClosingCounts(pending: report.pending, held: report.held)))
            }
            return status
        }
    }
}
