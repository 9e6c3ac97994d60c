import ArgumentParser
import Encodings
import Foundation
import Logging
import Operations
import SecureTransport
import Settings

/// The output format of a result.
enum OutputFormat: String, ExpressibleByArgument, CaseIterable {
    case text
    case json
}

/// The options that every subcommand has.
struct CommonOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The settings file; else $PUSHSWEEP_CONFIG, else /etc/pushsweep/pushsweep.yaml.",
            valueName: "file"))
    var config: String?

    @Option(
        help: ArgumentHelp(
            "Print the result as text or as one JSON object per line.", valueName: "text|json"))
    var format = OutputFormat.text

    @Flag(help: CommonOptions.verboseHelp) var verbose = false

    /// What `--verbose` does.
    static let verboseHelp: ArgumentHelp =
        "Log progress to stderr, and print the result on success too."

    /// The settings from the settings file and the environment.
    func settings() throws -> Settings {
        do {
            return try Settings.load(
                configFile: config, environment: ProcessInfo.processInfo.environment)
        } catch {
            throw RunFailure.wrapping(error, at: .settings)
        }
    }

    /// The clock, stop signal, log and progress display for a job.
    func context() throws -> RunContext {
        StandardStreams.fillGaps()
        ignoreBrokenPipes()
        try Limits.ensure()
        return RunContext(
            interrupt: try StopSignals.install(), log: StoryLogHandler.logger(verbose: verbose),
            progress: StandardStreams.errorIsTerminal ? TerminalProgress() : NoProgress())
    }

    /// Runs a job and ends the process with its exit code. When the job cannot start, the failure
    /// is printed in the same way.
    func finish(_ job: (RunContext) throws -> ExitStatus) throws -> Never {
        var code: ExitStatus
        do {
            code = try job(try context())
            var closing = StandardStreams.closing.withLock { $0 }
            if StandardStreams.resultWasLost.load(ordering: .relaxed) {
                StandardStreams.story(
                    "pushsweep: error: writing the result to stdout failed; the run's "
                        + "changes stay, see its record in the state folder")
                closing = (closing ?? ClosingCounts().closingLine(code, stage: "done"))
                    .withReportLost()
                code = .worse(code, .cannotCreate)
            }
            if let closing { StandardStreams.story("\(closing)") }
        } catch {
            let failure = RunFailure.wrapping(error, at: .settings)
            for (number, sentence) in failure.sentences.enumerated() {
                StandardStreams.story((number == 0 ? "pushsweep: error: " : "") + sentence)
            }
            let closing = failure.counts.closingLine(
                failure.exit, stage: failure.stage.rawValue, why: failure.reason)
            StandardStreams.story("\(closing)")
            code = failure.exit
        }
        throw ArgumentParser.ExitCode(code.rawValue)
    }

    /// Prints a result as text or as JSON.
    func print(_ report: some PrintedLines & Encodable) {
        switch format {
        case .json: StandardStreams.result(document: report)
        case .text: StandardStreams.result(report.lines)
        }
    }

    /// Prints the end of a run: the result, the failures and the closing line. A text result is
    /// printed only when `isWanted`, with --verbose, on a terminal, or for an exit code other than
    /// 0. Then the command of `hooks.after-run` is run; the run has given up its locks before.
    /// Returns the exit code.
    func print<Report>(
        _ outcome: RunOutcome<Report>, _ context: RunContext, _ settings: Settings,
        isWanted: Bool = false
    ) -> ExitStatus {
        switch format {
        case .json: StandardStreams.result(document: outcome.report)
        case .text:
            if isWanted || verbose || StandardStreams.outputIsTerminal || outcome.exit != .done {
                StandardStreams.result(outcome.report.lines)
            }
        }
        for failure in outcome.failures { context.log.error("\(failure)") }
        if let hook = AfterRun(settings) {
            StopSignals.runHasEnded()
            hook.inform(outcome, context)
        }
        StandardStreams.close(with: outcome.closingLine)
        return outcome.exit
    }
}

/// The options of a command whose `--format` is not that of a result.
struct FileOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The settings file; else $PUSHSWEEP_CONFIG, else /etc/pushsweep/pushsweep.yaml.",
            valueName: "file"))
    var config: String?

    @Flag(help: CommonOptions.verboseHelp) var verbose = false

    /// The common options with a format for the result.
    func common(_ format: OutputFormat = .text) -> CommonOptions {
        var common = CommonOptions()
        common.config = config
        common.format = format
        common.verbose = verbose
        return common
    }
}

/// The options of runs that apply evidence.
struct ApplyOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Connections to the database over which one feed is compared and applied.",
            valueName: "number"))
    var connections: String?

    @OptionGroup(title: "Throttle options") var throttle: ThrottleOptions

    /// The settings with these options in place of their values.
    ///
    /// - Throws: exit 64 for a text that its setting does not allow.
    func over(_ settings: Settings) throws(RunFailure) -> Settings {
        let settings = try throttle.over(settings)
        do {
            return try settings.overlaid(
                with: [SettingOption("connections", sets: "store.connections", connections)],
                folder: FileManager.default.currentDirectoryPath)
        } catch {
            throw .wrapping(error, at: .settings)
        }
    }
}

/// The options of runs that change many rows, for pauses and for the time budget.
struct ThrottleOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Pause while a replica lags by more than this number of seconds.", valueName: "seconds")
    )
    var maxLag: String?

    @Option(
        help: ArgumentHelp(
            "A replica to watch, as mysql://user@host/database; may be given several times.",
            valueName: "url"))
    var lagReplica: [String] = []

    @Option(
        help: ArgumentHelp(
            "Pause above this load: running threads, or other figures of SHOW GLOBAL STATUS.",
            valueName: "number|name=number,..."))
    var maxLoad: String?

    @Option(help: ArgumentHelp("End with 75 above this load.", valueName: "number|name=number,..."))
    var criticalLoad: String?

    @Option(
        help: ArgumentHelp(
            "End with 75 after this time, such as 10m; the next run continues.", valueName: "time"))
    var timeBudget: String?

    @Option(
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
