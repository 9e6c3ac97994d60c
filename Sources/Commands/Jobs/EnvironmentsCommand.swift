import ArgumentParser
import Looks
import Operations

/// `pushsweep environments`: finds and proves rows under the wrong environment.
struct EnvironmentsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "environments",
        abstract: "Find rows under the wrong environment of APNs, and prove it.",
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

    @Option(
        help: ArgumentHelp(
            "Write the proven rows into this file, a line of JSON each; - for stdout.",
            valueName: "file"), completion: .file())
    var list: String?

    @Flag(help: "With --list: write whole tokens.")
    var wholeTokens = false

    @Option(
        help: ArgumentHelp(
            "Write the statements that move the proven rows into this file, and beside it those that take them back; whole tokens.",
            valueName: "file"), completion: .file())
    var sql: String?

    @Flag(help: "With --probe: say how many would be asked about; ask nobody.")
    var dryRun = false

    func validate() throws {
        guard probe || limit == nil && rate == nil && !again else {
            throw ValidationError("--limit, --rate and --again go with --probe only")
        }
        guard list != nil || !wholeTokens else {
            throw ValidationError("--whole-tokens goes with --list only")
        }
        guard !dryRun || probe else {
            throw ValidationError("--dry-run goes with --probe; without it nobody is asked")
        }
        guard sql != "-" else {
            throw ValidationError("--sql writes two files; give it a name")
        }
        guard list == nil || sql.map({ [$0, "\($0).back"].contains(list) }) != true else {
            throw ValidationError("--list and --sql name one file; give each its own")
        }
    }

    func run() throws {
        try common.finish { context in
            let settings = try common.settings()
            var wish = EnvironmentsWish()
            (wish.apps, wish.list, wish.sql, wish.wholeTokens) = (app, list, sql, wholeTokens)
            (wish.probes, wish.dryRun) = (probe, dryRun)
            (wish.limit, wish.rate, wish.again) = (limit ?? wish.limit, rate, again)
            let outcome = Environments.run(settings, wish, context) {
                StandardStreams.result(whole: $0)
            }
            // The list is the result.
            if list == "-", outcome.exit == .done { return .done }
            return common.print(
                outcome, context, settings, isWanted: true, informs: probe)
        }
    }
}
