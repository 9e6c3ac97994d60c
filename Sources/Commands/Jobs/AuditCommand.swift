import ArgumentParser
import AuditFormats
import Database
import Looks
import Operations
import Settings

/// `pushsweep audit`: reports on the token table, and changes nothing.
struct AuditCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "audit",
        abstract: "Report on tokens, evidence, holds, runs and certificates; change nothing.",
        discussion: HelpText.whole(PackageResources.audit_txt))

    @OptionGroup var options: FileOptions

    @Option(help: ArgumentHelp("The format on stdout.", valueName: "text|json|markdown|html"))
    var format = AuditFormat.text

    @Option(
        help: ArgumentHelp(
            "Write the report into this file, whole or not at all; may be repeated.",
            valueName: "file"), completion: .file())
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
            "A JSON report of an earlier audit: say what changed since.", valueName: "file"),
        completion: .file())
    var baseline: String?

    @Flag(help: "Examine what needs sorting too.")
    var deep = false

    @Option(
        help: ArgumentHelp(
            "Write the users without a living token into this CSV file; needs --deep.",
            valueName: "file"), completion: .file())
    var usersWithoutToken: String?

    @Option(
        help: ArgumentHelp(
            "Write the rows whose tokens APNs called bad into this CSV file.", valueName: "file"),
        completion: .file())
    var suspects: String?

    @OptionGroup var decisions: IgnoreOptions

    func validate() throws {
        guard usersWithoutToken == nil || deep else {
            throw ValidationError("--users-without-token needs --deep")
        }
        for file in output { try AuditFormat.check(file) }
    }

    func run() throws {
        try options.finish { context in
            var wish = AuditWish()
            wish.since = try since.map { try CommandTime.read($0, of: "--since") }
            wish.until = try until.map { try CommandTime.read($0, of: "--until") }
            wish.isDeep = deep
            wish.usersFile = usersWithoutToken
            wish.suspectsFile = suspects
            wish.ignore = try decisions.list()
            wish.baseline = try baseline.map(AuditReport.init(file:))
            let report = try Audit.run(options.settings(), wish, version: Version.name, context)
            for file in output {
                try ReplacedFile(file, of: "the report").replace(
                    with: report.document(AuditFormat(file: file) ?? .text))
            }
            if output.isEmpty && format == .text {
                let text = try report.document(.text, columns: StandardStreams.resultColumns)
                StandardStreams.show(
                    text.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
                        .map(String.init), .exact)
            } else if output.isEmpty {
                StandardStreams.result(whole: try report.document(format))
            }
            return .done
        }
    }
}

extension AuditFormat: ExpressibleByArgument {
    /// Refuses a file whose name says no format.
    static func check(_ file: String) throws(ValidationError) {
        guard AuditFormat(file: file) == nil else { return }
        throw ValidationError(
            "the name of \(file) says no format; end it with .txt, .json, .md or .html")
    }
}
