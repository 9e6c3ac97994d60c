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

    @Argument(help: "The file, or - for standard input.", completion: .file())
    var file: String

    @Option(
        help: ArgumentHelp(
            "What wrote the file; else its form: lines of JSON, CSV, columns with tabs, or the bytes of a feedback list.",
            valueName: ImportSource.allValueStrings.joined(separator: "|")))
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

    @OptionGroup(title: "Throttle options") var applying: ThrottleOptions

    func validate() throws {
        if case .preset(let preset) = from, map != nil {
            throw ValidationError("--from \(preset.rawValue) has a map of its own; leave --map out")
        }
        guard from == .feedback else { return }
        if map != nil || timeUnit != nil || again {
            throw ValidationError("--map, --time-unit and --again are for jsonl, csv and tsv")
        }
    }

    /// How the file is read; nil for the bytes of a feedback list.
    private var layout: ReportLayout? {
        var layout: ReportLayout? =
            switch from {
            case .form(let format): ReportLayout(format: format, map: map ?? .standard)
            case .feedback: nil
            case .preset(let preset): preset.layout
            }
        if let timeUnit { layout?.unit = timeUnit }
        return layout
    }

    func run() throws {
        try common.finish(applying, isWanted: true) { settings, _ in
            try SweepPlan(
                reading: file, as: layout, linesNameApp: from == .preset(.quarantine),
                again: again, app: app, environment: environment, settings, dryRun: dryRun)
        }
    }
}

/// What wrote a file that `import` reads, or its form.
enum ImportSource: ExpressibleByArgument, Hashable {
    /// A form whose fields a map describes.
    case form(ReportFormat)
    /// The bytes of a feedback list.
    case feedback
    /// The fixed form of the files of one sender.
    case preset(ReportPreset)

    private static let all =
        ReportFormat.allCases.map { ($0.rawValue, form($0)) } + [("feedback", feedback)]
        + ReportPreset.allCases.map { ($0.rawValue, preset($0)) }

    static var allValueStrings: [String] { all.map(\.0) }

    init?(argument: String) {
        guard let found = Self.all.first(where: { $0.0 == argument }) else { return nil }
        self = found.1
    }
}

extension ReportTimeUnit: ExpressibleByArgument {}
