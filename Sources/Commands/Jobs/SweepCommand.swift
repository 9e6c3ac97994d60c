import ArgumentParser
import Operations

/// `pushsweep sweep`: the hourly job.
struct SweepCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sweep",
        abstract: "Apply the reports that tokens are dead: mark or delete the stale rows.",
        discussion: HelpText.whole(PackageResources.sweep_txt))

    @OptionGroup var common: CommonOptions

    @Flag(help: "Say what would change, change no row.")
    var dryRun = false

    @Option(
        help: ArgumentHelp(
            "Read only the gateways of this app; may be given several times.", valueName: "name"))
    var app: [String] = []

    @Flag(
        help: "Hand a state folder of another database over to this one, which took its place.")
    var adopt = false

    @OptionGroup(title: "Throttle options") var applying: ThrottleOptions

    func run() throws {
        try common.finish(applying, isWanted: dryRun) { settings, context in
            try SweepPlan(sweeping: settings, apps: app, dryRun: dryRun, adopting: adopt, context)
        }
    }
}
