import ArgumentParser
import Operations

/// `pushsweep replay`: applies a gateway's list from a file, or judges a batch again.
struct ReplayCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay",
        abstract: "Apply a list: a file with its raw bytes, or judge a batch again.",
        discussion: HelpText.whole(PackageResources.replay_txt))

    @OptionGroup var common: CommonOptions

    @Argument(help: "The file with the raw bytes of a gateway's list.", completion: .file())
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
            "A batch, by its name, in place of a file.",
            valueName: "uuid"))
    var batch: String?

    @Flag(help: "Say what would change, change no row and keep nothing.")
    var dryRun = false

    @OptionGroup(title: "Throttle options") var applying: ThrottleOptions

    func validate() throws {
        guard (file == nil) != (batch == nil) else {
            throw ValidationError("name either a file or a batch with --batch")
        }
    }

    func run() throws {
        try common.finish(applying, isWanted: dryRun) { settings, _ in
            if let batch { return SweepPlan(settings, .journaled(batch), dryRun: dryRun) }
            return try SweepPlan(
                reading: file ?? "", app: app, environment: environment, settings, dryRun: dryRun)
        }
    }
}
