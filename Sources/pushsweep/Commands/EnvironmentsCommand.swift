import ArgumentParser
import Operations

/// `pushsweep environments`: finds, proves and moves rows under the wrong environment.
struct EnvironmentsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "environments",
        abstract: "Find rows under the wrong environment of APNs, prove it, and move them.",
        discussion: HelpText.whole(PackageResources.environments_txt))

    @OptionGroup var common: CommonOptions

    @Option(
        help: ArgumentHelp("Look at this app only; may be given several times.", valueName: "name")
    )
    var app: [String] = []

    @Flag(help: "Ask the other environment about tokens of which nothing is known there.")
    var probe = false

    @Option(
        help: ArgumentHelp(
            "With --probe: ask about at most this number of tokens; 1000 by default.",
            valueName: "count"), transform: CommandNumber.rows)
    var limit: Int?

    @Option(
        help: ArgumentHelp(
            "With --probe: send at most this number of requests per second.", valueName: "count"),
        transform: CommandNumber.rate)
    var rate: Double?

    @Flag(help: "With --probe: ask again about tokens that are bad in both environments.")
    var again = false

    @Flag(help: "Move the rows that are proven to be under the wrong environment.")
    var apply = false

    @Option(
        help: ArgumentHelp(
            "Write the rows into this file, a line of JSON each in the form of changes; - for stdout.",
            valueName: "file"), completion: .file())
    var list: String?

    @Flag(help: "With --list: write whole tokens.")
    var wholeTokens = false

    @Flag(help: "Say what would be asked about and moved; ask nothing, change no row.")
    var dryRun = false

    @OptionGroup(title: "Throttle options") var throttle: ThrottleOptions

    func validate() throws {
        guard probe || limit == nil && rate == nil && !again else {
            throw ValidationError("--limit, --rate and --again go with --probe only")
        }
        guard list != nil || !wholeTokens else {
            throw ValidationError("--whole-tokens goes with --list only")
        }
        guard !dryRun || probe || apply else {
            throw ValidationError(
                "--dry-run goes with --probe or --apply; without them nothing changes")
        }
    }

    func run() throws {
        try common.finish { context in
            let settings = try common.settings(with: throttle.overrides)
            var wish = EnvironmentsWish()
            wish.apps = app
            (wish.list, wish.wholeTokens) = (list, wholeTokens)
            (wish.probes, wish.applies, wish.dryRun) = (probe, apply, dryRun)
            (wish.limit, wish.rate, wish.again) = (limit ?? wish.limit, rate, again)
            let page = (probe || apply) && !dryRun ? MetricsPlan(settings) : nil
            let outcome = Environments.run(settings, wish, page, context) {
                StandardStreams.result(whole: $0)
            }
            // The list is the result.
            if list == "-", outcome.exit == .done { return .done }
            return common.print(
                outcome, context, settings, isWanted: true, informs: probe || apply)
        }
    }
}
