import ArgumentParser
import EvidenceFiles
import Operations
import Settings

/// `pushsweep import`: applies the 410 answers in a log or export of another sender.
struct ImportCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Apply the 410 answers in a log or an export of another sender.",
        discussion: HelpText.whole(PackageResources.import_txt))

    @OptionGroup var common: CommonOptions

    @Argument(help: "The file, or - for standard input.")
    var file: String

    @Option(
        help: ArgumentHelp(
            "The form of the file: lines of JSON, CSV, or the bytes of a feedback list.",
            valueName: "jsonl|csv|feedback"))
    var from: ImportForm

    @Option(
        help: ArgumentHelp("The app the file is about, if there are several.", valueName: "name"))
    var app: String?

    @Option(
        help: ArgumentHelp(
            "The environment the file is about: production or sandbox.", valueName: "name"))
    var environment: String?

    @Option(
        help: ArgumentHelp(
            "The fields, such as token=.device,time=.timestamp,status=.status,reason=.reason; without it the columns of pushsweep_evidence.",
            valueName: "field=path,..."),
        transform: { text in
            do throws(UnreadableFile) {
                return try FieldMap(text)
            } catch {
                throw ValidationError("\(error)")
            }
        })
    var map: FieldMap?

    @Option(help: ArgumentHelp("The unit of times: ms, s or iso (ISO 8601, UTC without a zone)."))
    var timeUnit: ReportTimeUnit = .milliseconds

    @Flag(help: "Import a content again that was imported before.")
    var again = false

    @Flag(help: "Say what would change, change no row and keep nothing.")
    var dryRun = false

    @OptionGroup var applying: ApplyOptions

    func validate() throws {
        guard from == .feedback else { return }
        if map != nil || timeUnit != .milliseconds || again {
            throw ValidationError("--map, --time-unit and --again are for jsonl and csv")
        }
    }

    func run() throws {
        let layout = ReportFormat(rawValue: from.rawValue).map {
            ReportLayout(format: $0, map: map ?? .standard, unit: timeUnit)
        }
        try common.finish(applying, isWanted: true) { settings, _ in
            try SweepPlan(
                reading: file, as: layout, again: again, app: app, environment: environment,
                settings, dryRun: dryRun)
        }
    }
}

/// The forms of files that `import` reads.
enum ImportForm: String, ExpressibleByArgument, CaseIterable {
    case jsonl, csv, feedback
}

extension ReportTimeUnit: ExpressibleByArgument {}
