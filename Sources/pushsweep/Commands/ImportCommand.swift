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
            "What wrote the file; else its form: lines of JSON, CSV, or the bytes of a feedback list.",
            valueName: ImportSource.names("|")))
    var from: ImportSource

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

    @Option(
        help: ArgumentHelp(
            "The unit of times: ms, s or iso (ISO 8601, UTC without a zone); ms where --from says no other.",
            valueName: "ms|s|iso"))
    var timeUnit: ReportTimeUnit?

    @Flag(help: "Import a content again that was imported before.")
    var again = false

    @Flag(help: "Say what would change, change no row and keep nothing.")
    var dryRun = false

    @OptionGroup var applying: ApplyOptions

    func validate() throws {
        if from.preset != nil, map != nil {
            throw ValidationError("--from \(from.rawValue) has a map of its own; leave --map out")
        }
        guard from == .feedback else { return }
        if map != nil || timeUnit != nil || again {
            throw ValidationError("--map, --time-unit and --again are for jsonl and csv")
        }
    }

    /// How the file is read; nil for the bytes of a feedback list.
    private var layout: ReportLayout? {
        var layout =
            from.preset?.layout
            ?? ReportFormat(rawValue: from.rawValue).map {
                ReportLayout(format: $0, map: map ?? .standard)
            }
        if let timeUnit { layout?.unit = timeUnit }
        return layout
    }

    func run() throws {
        try common.finish(applying, isWanted: true) { settings, _ in
            try SweepPlan(
                reading: file, as: layout, again: again, app: app, environment: environment,
                settings, dryRun: dryRun)
        }
    }
}

/// What wrote a file that `import` reads, or its form.
enum ImportSource: String, ExpressibleByArgument, CaseIterable {
    case jsonl, csv, feedback
    case gorush, sns, rpush, quarantine

    /// The fixed form of the files of one sender; nil for a form that a map describes.
    var preset: ReportPreset? { ReportPreset(rawValue: rawValue) }

    static func names(_ separator: String) -> String {
        allCases.map(\.rawValue).joined(separator: separator)
    }
}

extension ReportTimeUnit: ExpressibleByArgument {}
