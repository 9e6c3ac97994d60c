import ArgumentParser
import Foundation
import Operations
import Settings

/// The options of runs that change many rows: when to pause, and when to end early.
struct ThrottleOptions: ParsableArguments {
    @Option(
        name: .long,
        help: ArgumentHelp(
            "Pause while a replica lags more than so many seconds.", valueName: "seconds"))
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
            "Pause while so many threads run, or another figure of SHOW GLOBAL STATUS is exceeded.",
            valueName: "number|name=number,..."))
    var maxLoad: String?

    @Option(
        name: .long,
        help: ArgumentHelp(
            "End with 75 when this load is exceeded.", valueName: "number|name=number,..."))
    var criticalLoad: String?

    @Option(
        name: .long,
        help: ArgumentHelp(
            "End with 75 after this time, such as 10m; the next run goes on.", valueName: "time"))
    var timeBudget: String?

    @Option(
        name: .long,
        help: ArgumentHelp(
            "End with 75 as soon as this file exists; else the file stop in the state folder.",
            valueName: "file"))
    var stopFile: String?

    /// Settings with what was typed laid over them.
    func over(_ settings: Settings) throws(RunFailure) -> Settings {
        var overrides = ThrottleOverrides()
        overrides.maxLag = maxLag
        overrides.maxLoad = maxLoad
        overrides.criticalLoad = criticalLoad
        overrides.timeBudget = timeBudget
        overrides.stopFile = stopFile
        overrides.lagReplicas = lagReplica
        var settings = settings
        do {
            settings.throttle = try settings.throttle.overridden(
                by: overrides, folder: FileManager.default.currentDirectoryPath)
        } catch {
            throw .wrapping(error, at: .settings)
        }
        return settings
    }
}
