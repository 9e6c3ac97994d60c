import ArgumentParser
import Looks
import Operations

/// `pushsweep send`: sends the notifications in the queue.
struct SendCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "send",
        abstract: "Send waiting rows of the queue to APNs over HTTP/2, never to a stale token.",
        discussion: HelpText.whole(PackageResources.send_txt))

    @OptionGroup var common: CommonOptions

    @Option(
        help: ArgumentHelp("Send for this app only; may be given several times.", valueName: "name")
    )
    var app: [String] = []

    @Option(
        help: ArgumentHelp("Claim at most this number of rows for each app.", valueName: "count"),
        transform: CommandNumber.rows)
    var limit: Int?

    @Option(
        help: ArgumentHelp(
            "Send at most this number of notifications per second and app.", valueName: "count"),
        transform: CommandNumber.rate)
    var rate: Double?

    @Flag(help: "Wait for new rows until SIGTERM.")
    var follow = false

    @Flag(help: "Say what would be sent and skipped; claim and send nothing.")
    var dryRun = false

    func validate() throws {
        if follow && (dryRun || limit != nil) {
            throw ValidationError("--follow goes with neither --dry-run nor --limit")
        }
    }

    func run() throws {
        try common.finish { context in
            let settings = try common.settings()
            var plan = try SendPlan(settings, apps: app, context)
            plan.metrics = MetricsPlan(settings)
            plan.limit = limit
            plan.rate = rate
            plan.follows = follow
            plan.dryRun = dryRun
            StopSignals.extendShutdown(to: plan.longestShutdown)
            return common.print(
                Send.run(plan, context), context, settings, isWanted: dryRun)
        }
    }
}
