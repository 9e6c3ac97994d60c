import ArgumentParser
import Operations

/// `pushsweep replay`: applies a feed from a file or from the journal.
struct ReplayCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay",
        abstract: "Apply a captured feed: a file with its raw bytes, or one of the journal.",
        discussion: HelpText.whole(PackageResources.replay_txt))

    @OptionGroup var common: CommonOptions

    @Argument(help: "The file with the raw bytes of a feed.", completion: .file())
    var file: String?

    @Option(
        help: ArgumentHelp("The app the file is about, if there are several.", valueName: "name"))
    var app: String?

    @Option(
        help: ArgumentHelp(
            "The environment the file is about: production or sandbox.", valueName: "name"))
    var environment: String?

    @Option(
        help: ArgumentHelp(
            "A held or pending feed of the journal, by its name, in place of a file.",
            valueName: "uuid"))
    var feed: String?

    @Flag(help: "Say what would change, change no row and keep nothing.")
    var dryRun = false

    @OptionGroup(title: "Throttle options") var applying: ThrottleOptions

    func validate() throws {
        guard (file == nil) != (feed == nil) else {
            throw ValidationError("name either a feed file or a feed of the journal with --feed")
        }
    }

    func run() throws {
        try common.finish(applying, isWanted: dryRun) { settings, _ in
            if let feed { return SweepPlan(settings, .journaled(feed), dryRun: dryRun) }
            return try SweepPlan(
                reading: file ?? "", app: app, environment: environment, settings, dryRun: dryRun)
        }
    }
}
