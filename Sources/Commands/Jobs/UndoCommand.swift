import APNsProtocol
import ArgumentParser
import Database
import Encodings
import Looks
import Operations
import Settings
import TokenHygiene
import TokenTable

/// `pushsweep undo`: undoes the changes of runs.
struct UndoCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "undo",
        abstract: "Take back the marks and deletions of a run, where nothing newer happened.",
        discussion: HelpText.whole(PackageResources.undo_txt))

    @OptionGroup var common: CommonOptions

    @Argument(help: "The run, or at least four characters of its beginning; see --list.")
    var name: String?

    @Option(
        help: ArgumentHelp(
            "Take back every run that began at this time or later: 2026-11-22T10:00:00Z, or without "
                + "zone in UTC.", valueName: "time"))
    var since: String?

    @Option(
        help: ArgumentHelp(
            "Take back the changes of all runs to one token, given whole.", valueName: "hex"))
    var token: String?

    @Flag(help: "List the runs that changed rows, newest first.")
    var list = false

    @Flag(help: "Say what would be taken back, change no row.")
    var dryRun = false

    @OptionGroup(title: "Throttle options") var throttle: ThrottleOptions

    func validate() throws {
        let chosen = [name != nil, since != nil, token != nil, list].filter { $0 }.count
        guard chosen == 1 else {
            throw ValidationError("name one of: a run, --since, --token, --list")
        }
        _ = try wish()
    }

    private func wish() throws -> UndoScope? {
        if let name { return .run(name) }
        if let since {
            guard let time = EpochMilliseconds(iso8601: since) else {
                throw ValidationError(
                    "--since \(since) is no time such as 2026-11-22 or 2026-11-22T10:00:00Z")
            }
            return .since(time)
        }
        if let token {
            guard let token = try? DeviceToken(spelling: token) else {
                throw ValidationError("--token is not a device token in hex")
            }
            return .token(token)
        }
        return nil
    }

    func run() throws {
        try common.finish { context in
            let settings = try common.settings(with: throttle.overrides)
            guard let wish = try wish() else { return try printList(settings) }
            return common.print(
                Undo.run(
                    settings, wish, dryRun: dryRun, MetricsPlan(settings, dryRun: dryRun), context),
                context, settings, isWanted: true)
        }
    }

    private func printList(_ settings: Settings) throws -> ExitStatus {
        let runs = try Undo.list(settings)
        for run in runs { common.print(run) }
        if runs.isEmpty && common.format == .text {
            StandardStreams.result("no run changed rows")
        }
        return .done
    }
}
