import ArgumentParser
import Operations

/// `pushsweep purge`: deletes records older than the retention period.
struct PurgeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "purge",
        abstract:
            "Drop ledger entries, batches and run records older than policy.keep-ledger.",
        discussion: HelpText.whole(PackageResources.purge_txt))

    @OptionGroup var common: CommonOptions

    @Flag(help: "Say what would be dropped, drop nothing.")
    var dryRun = false

    @OptionGroup(title: "Throttle options") var throttle: ThrottleOptions

    func run() throws {
        try common.finish { context in
            let settings = try common.settings(with: throttle.overrides)
            return common.print(
                Purge.run(settings, dryRun: dryRun, context), context, settings, isWanted: dryRun)
        }
    }
}
