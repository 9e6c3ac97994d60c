import ArgumentParser
import Foundation
import Operations
import Settings

/// The options of runs that change many rows, for pauses and for the time budget.
struct ThrottleOptions: ParsableArguments {
    @Option(
        name: .long,
        help: ArgumentHelp(
            "Pause while a replica lags by more than this number of seconds.", valueName: "seconds")
    )
    var maxLag: String?

    @Option(
        name: .long,
        help: ArgumentHelp(
            "A replica to watch, as mysql://user@host/database; may be given several times.",
            valueName: "url"))
    var lagReplica: [String] = []

    @Option(
        name: .long,
        help: ArgumentHelp(
            "Pause above this load: running threads, or other figures of SHOW GLOBAL STATUS.",
            valueName: "number|name=number,..."))
    var maxLoad: String?

    @Option(
        name: .long,
        help: ArgumentHelp(
            "End with 75 above this load.", valueName: "number|name=number,..."))
    var criticalLoad: String?

    @Option(
        name: .long,
        help: ArgumentHelp(
            "End with 75 after this time, such as 10m; the next run continues.", valueName: "time"))
    var timeBudget: String?

    @Option(
        name: .long,
        help: ArgumentHelp(
            "End with 75 as soon as this file exists; else the file stop in the state folder.",
            valueName: "file"))
    var stopFile: String?

    /// The settings with these options in place of their values; paths start at the working folder.
    ///
    /// - Throws: exit 64 for a text that its setting does not allow.
    func over(_ settings: Settings) throws(RunFailure) -> Settings {
        do {
            return try settings.overlaid(
                with: [
                    // Seconds without a unit, as gh-ost and pt-archiver take them.
                    SettingOption("max-lag", sets: "throttle.max-lag", maxLag, unit: "s"),
                    SettingOption("max-load", sets: "throttle.max-load", maxLoad),
                    SettingOption("critical-load", sets: "throttle.critical-load", criticalLoad),
                    SettingOption("time-budget", sets: "throttle.time-budget", timeBudget),
                    SettingOption("stop-file", sets: "throttle.stop-file", stopFile),
                    SettingOption("lag-replica", sets: "throttle.replicas", lagReplica),
                ], folder: FileManager.default.currentDirectoryPath)
        } catch {
            throw .wrapping(error, at: .settings)
        }
    }
}
