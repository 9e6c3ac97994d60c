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

    @OptionGroup var options: FileOptions

    @Option(
        help: ArgumentHelp(
            "Print the result as text or as one JSON object.", valueName: "text|json"))
    var report = OutputFormat.text

    @Argument(help: "The file, or - for standard input.")
    var file: String

    @Option(
        help: ArgumentHelp(
            "What wrote the file, in place of --format and --map.",
            valueName: ReportPreset.allCases.map(\.rawValue).joined(separator: "|")))
    var from: ReportPreset?

    @Option(
        help: ArgumentHelp(
            "The form of any other file: lines of JSON, CSV, or the bytes of a feedback list.",
            valueName: "jsonl|csv|feedback"))
    var format: ImportFormat?

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
        guard from != nil || format != nil else {
            throw ValidationError(
                "name what wrote the file, with --from (\(ReportPreset.names)), or its form, with --format "
                    + "(jsonl, csv, feedback)")
        }
        if from != nil, map != nil || format == .feedback {
            throw ValidationError(
                "--from stands for --map; give either the one or the other, and a form only where the file "
                    + "has another (jsonl, csv)")
        }
        guard format == .feedback else { return }
        if map != nil || timeUnit != nil || again {
            throw ValidationError("--map, --time-unit and --again are for jsonl and csv")
        }
    }

    /// How the file is read; nil for the bytes of a feedback list.
    private var layout: ReportLayout? {
        let form = format.flatMap { ReportFormat(rawValue: $0.rawValue) }
        var layout =
            from?.layout ?? form.map { ReportLayout(format: $0, map: map ?? .standard) }
        if let form { layout?.format = form }
        if let timeUnit { layout?.unit = timeUnit }
        return layout
    }

    func run() throws {
        // `--format` is the form of the file here.
        try options.finish(applying, isWanted: true, as: report) { settings, _ in
            try SweepPlan(
                reading: file, as: layout, again: again, app: app, environment: environment,
                settings, dryRun: dryRun)
        }
    }
}

/// The forms of files that `import` reads.
enum ImportFormat: String, ExpressibleByArgument, CaseIterable {
    case jsonl, csv, feedback
}

extension ReportTimeUnit: ExpressibleByArgument {}
extension ReportPreset: ExpressibleByArgument {}
