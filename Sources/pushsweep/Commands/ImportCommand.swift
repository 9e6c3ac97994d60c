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
            "What wrote the file, or the form of any other one: lines of JSON, CSV, the bytes of a "
                + "feedback list.", valueName: ImportForm.allValueStrings.joined(separator: "|")))
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
        if case .preset(let preset) = from, map != nil {
            throw ValidationError(
                "--from \(preset.rawValue) knows the fields; give --map with --from jsonl or --from csv"
            )
        }
        guard from == .feedback else { return }
        if map != nil || timeUnit != nil || again {
            throw ValidationError("--map, --time-unit and --again are for jsonl and csv")
        }
    }

    /// How the file is read; nil for the bytes of a feedback list.
    private var layout: ReportLayout? {
        var layout: ReportLayout? =
            switch from {
            case .preset(let preset): preset.layout
            case .plain(let format): ReportLayout(format: format, map: map ?? .standard)
            case .feedback: nil
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

/// The words of `import --from`.
enum ImportForm: Hashable, ExpressibleByArgument {
    /// A log or export whose fields and unit are known.
    case preset(ReportPreset)
    /// Fields by `--map`, times by `--time-unit`.
    case plain(ReportFormat)
    /// The bytes of a feedback list.
    case feedback

    private static let feedbackWord = "feedback"

    init?(argument: String) {
        if let preset = ReportPreset(rawValue: argument) {
            self = .preset(preset)
        } else if let format = ReportFormat(rawValue: argument) {
            self = .plain(format)
        } else if argument == Self.feedbackWord {
            self = .feedback
        } else {
            return nil
        }
    }

    static var allValueStrings: [String] {
        ReportPreset.allCases.map(\.rawValue) + ReportFormat.allCases.map(\.rawValue)
            + [feedbackWord]
    }
}

extension ReportTimeUnit: ExpressibleByArgument {}
extension ReportPreset: ExpressibleByArgument {}
