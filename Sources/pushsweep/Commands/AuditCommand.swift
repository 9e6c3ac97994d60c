import ArgumentParser
import AuditFormats
import Database
import Operations
import Settings

/// `pushsweep audit`: reports on the token table, and changes nothing.
struct AuditCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "audit",
        abstract: "Report on tokens, evidence, holds, runs and certificates; change nothing.",
        discussion: """
            Counts the rows of the token table by what they are, and reports what became of the \
            evidence, what waits for a decision, how the runs ended, when certificates end, and what \
            to do. Needs SELECT only, locks nothing, and never connects to a gateway.

            --output writes a file; its name says the format: .txt, .json, .csv, .md or .html. It may \
            be given several times. Without it the report goes to stdout as --format says.

            --deep adds what needs sorting: tokens in several rows, tokens of several users or in \
            both environments, tokens per user. Its statements read the whole table; large tables \
            need a longer store.read-timeout.

            The exit code is 0 whatever the report says; preflight is the command that judges.

            \(HelpText.exitStatus)
            """)

    @OptionGroup var options: FileOptions

    @Option(help: ArgumentHelp("The format on stdout.", valueName: "text|json|csv|markdown|html"))
    var format = AuditFormat.text

    @Option(
        help: ArgumentHelp(
            "Write the report into this file, whole or not at all; may be repeated.",
            valueName: "file"))
    var output: [String] = []

    @Option(
        help: ArgumentHelp(
            "The beginning of the period of history, such as 2026-10-01 or 2026-10-01T08:00:00Z; "
                + "30 days before its end by default.", valueName: "time"))
    var since: String?

    @Option(help: ArgumentHelp("The end of the period; the present by default.", valueName: "time"))
    var until: String?

    @Option(
        help: ArgumentHelp(
            "A JSON report of an earlier audit: say what changed since.", valueName: "file"))
    var baseline: String?

    @Flag(help: "Examine what needs sorting too.")
    var deep = false

    @Option(
        help: ArgumentHelp(
            "Write the users without a living token into this CSV file; needs --deep.",
            valueName: "file"))
    var usersWithoutToken: String?

    func validate() throws {
        guard usersWithoutToken == nil || deep else {
            throw ValidationError("--users-without-token needs --deep")
        }
        for file in output where AuditFormat(file: file) == nil {
            throw ValidationError(
                "the name of \(file) says no format; end it with .txt, .json, .csv, .md or .html")
        }
    }

    /// The first line: the others are the versions of libraries.
    private var version: String { String(Version.text.prefix { !$0.isNewline }) }

    func run() throws {
        let common = options.common()
        try common.finish { context in
            var wish = AuditWish()
            wish.since = try since.map { try CommandTime.read($0, of: "--since") }
            wish.until = try until.map { try CommandTime.read($0, of: "--until") }
            wish.isDeep = deep
            wish.usersFile = usersWithoutToken
            wish.baseline = try baseline.map(AuditReport.init(file:))
            let report = try Audit.run(common.settings(), wish, version: version, context)
            for file in output {
                try ReplacedFile.report(file).replace(
                    with: report.document(AuditFormat(file: file) ?? .text))
            }
            if output.isEmpty {
                StandardStreams.result(whole: try report.document(format))
            }
            return .done
        }
    }
}

extension AuditFormat: ExpressibleByArgument {}
