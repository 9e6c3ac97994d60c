import APNsProtocol
import ArgumentParser
import Encodings
import FoundationEssentials
import Glibc
import Logging
import Looks
import Operations
import SecureTransport
import Settings

/// The output format of a result.
enum OutputFormat: String, ExpressibleByArgument, CaseIterable {
    case text
    case json
}

/// The options that every subcommand has.
struct CommonOptions: ParsableArguments, JobOptions {
    @Option(help: configHelp, completion: .file()) var config: String?

    @Option(
        help: ArgumentHelp(
            "Print the result as text or as one JSON object per line.", valueName: "text|json"))
    var format = OutputFormat.text

    @Option(help: colourHelp) var color = ColourChoice.auto

    @Flag(help: verboseHelp) var verbose = false
}

/// The options of a command whose `--format` has other words than text and json.
struct FileOptions: ParsableArguments, JobOptions {
    @Option(help: configHelp, completion: .file()) var config: String?
    @Option(help: colourHelp) var color = ColourChoice.auto
    @Flag(help: verboseHelp) var verbose = false
    var format: OutputFormat { .text }
}

/// What a job has from its options, and what is the same around the work of all jobs.
protocol JobOptions {
    var config: String? { get }
    /// The form of the result.
    var format: OutputFormat { get }
    var color: ColourChoice { get }
    var verbose: Bool { get }
}

extension ColourChoice: ExpressibleByArgument {}

extension JobOptions {
    static var configHelp: ArgumentHelp {
        ArgumentHelp(
            "The settings file; else $PUSHSWEEP_CONFIG, else /etc/pushsweep/pushsweep.yaml.",
            valueName: "file")
    }
    static var colourHelp: ArgumentHelp {
        ArgumentHelp(
            "Colour the words of severity; auto: at a terminal, unless NO_COLOR is set.",
            valueName: "auto|always|never")
    }
    static var verboseHelp: ArgumentHelp {
        "Log progress to stderr, and print the result on success too."
    }

    /// The settings from the settings file and the environment, with options in place of their values;
    /// paths in options start at the working folder.
    ///
    /// - Throws: exit 64 for a text of an option that its setting does not allow.
    func settings(with options: [SettingOption] = []) throws(RunFailure) -> Settings {
        do {
            return try Settings.load(
                configFile: config, environment: ProcessInfo.processInfo.environment
            ).overlaid(with: options, folder: FileManager.default.currentDirectoryPath)
        } catch {
            throw .wrapping(error, at: .settings)
        }
    }

    /// The clock, stop signal, log and progress display for a job.
    func context() throws -> RunContext {
        StandardStreams.fillGaps()
        StandardStreams.colour.withLock { $0 = color }
        ignoreBrokenPipes()
        try Limits.ensure()
        return RunContext(
            interrupt: try StopSignals.install(), log: MessageLogHandler.logger(verbose: verbose),
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
                StandardStreams.message(
                    "pushsweep: error: writing the result to stdout failed; the run's "
                        + "changes stay, see its record in the state folder")
                closing = (closing ?? ClosingLine(code, stage: "done")).reportLost
                code = .worse(code, .cannotCreate)
            }
            if let closing { StandardStreams.message(closing) }
        } catch {
            let failure = RunFailure.wrapping(error, at: .settings)
            tell([failure])
            StandardStreams.message(
                ClosingLine(
                    failure.exit, stage: failure.stage.rawValue, failure.counts,
                    why: failure.reason))
            code = failure.exit
        }
        throw ArgumentParser.ExitCode(code.rawValue)
    }

    /// Runs a job that makes one result, and prints it.
    func finish<Report: PrintedLines & Encodable>(
        printing job: (Settings, RunContext) throws -> Report
    ) throws -> Never {
        try finish { context in
            print(try job(settings(), context))
            return .done
        }
    }

    /// Applies evidence by a plan, and prints the end of the run. With `isWanted` its result is always
    /// printed.
    func finish(
        _ applying: ThrottleOptions, isWanted: Bool,
        _ plan: (Settings, RunContext) throws -> SweepPlan
    ) throws -> Never {
        try finish { context in
            let settings = try settings(with: applying.overrides)
            var plan = try plan(settings, context)
            plan.metrics = MetricsPlan(settings, dryRun: plan.dryRun)
            let outcome = Sweep.run(plan, context)
            return print(outcome, context, settings, isWanted: isWanted)
        }
    }

    /// Prints a result as text or as JSON.
    func print(_ report: some PrintedLines & Encodable) {
        switch format {
        case .json: StandardStreams.result(document: report)
        case .text: StandardStreams.result(report: report)
        }
    }

    /// Tells why a command refuses or ended early, on stderr: the gravest failure first, and where there are
    /// several a last line that counts them.
    func tell(_ failures: [RunFailure]) {
        for failure in failures.gravestFirst {
            for (number, sentence) in failure.sentences.enumerated() {
                StandardStreams.message((number == 0 ? "pushsweep: error: " : "") + sentence)
            }
            for line in failure.details { StandardStreams.message(line) }
        }
        if let line = failures.closing { StandardStreams.message("pushsweep: \(line)") }
    }

    /// Prints the end of a run: the result, the failures and the closing line. A text result is
    /// printed only when `isWanted`, with --verbose, on a terminal, or for an exit code other than
    /// 0. Then the command of `hooks.after-run` is run, unless nothing could change; the run has given up its locks before.
    /// Returns the exit code.
    func print<Report>(
        _ outcome: RunOutcome<Report>, _ context: RunContext, _ settings: Settings,
        isWanted: Bool, informs: Bool = true
    ) -> ExitStatus {
        switch format {
        case .json: StandardStreams.result(document: outcome.report)
        case .text:
            if isWanted || verbose || StandardStreams.outputIsTerminal || outcome.exit != .done {
                StandardStreams.result(report: outcome.report)
            }
        }
        tell(outcome.failures)
        if informs { inform(outcome, context, settings) }
        StandardStreams.close(with: outcome.closingLine)
        return outcome.exit
    }

    /// Runs the command of `hooks.after-run`.
    func inform<Report>(
        _ outcome: RunOutcome<Report>, _ context: RunContext, _ settings: Settings
    ) {
        guard let hook = AfterRun(settings) else { return }
        StopSignals.runHasEnded()
        hook.inform(outcome, context)
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
            "End with 75 after this time, such as 10m.", valueName: "time"))
    var timeBudget: String?

    @Option(
        help: ArgumentHelp(
            "End with 75 as soon as this file exists; else the file stop in the state folder.",
            valueName: "file"), completion: .file())
    var stopFile: String?

    /// The settings that the options replace.
    var overrides: [SettingOption] {
        [
            // Seconds without a unit, as gh-ost and pt-archiver take them.
            SettingOption("max-lag", sets: "throttle.max-lag", maxLag, unit: "s"),
            SettingOption("max-load", sets: "throttle.max-load", maxLoad),
            SettingOption("critical-load", sets: "throttle.critical-load", criticalLoad),
            SettingOption("time-budget", sets: "throttle.time-budget", timeBudget),
            SettingOption("stop-file", sets: "throttle.stop-file", stopFile),
            SettingOption("lag-replica", sets: "throttle.replicas", lagReplica),
        ]
    }
}

/// A token that the command line gives, or the file that has it; `-` is standard input. Words of a command
/// line are seen by other users of the machine, and stay in the history of the shell.
struct GivenToken {
    /// The text of the command line; `-` reads standard input.
    let text: String?
    /// The path of a file with the token alone.
    let file: String?

    /// The token, or the one that begins as messages print it.
    ///
    /// - Throws: usage for a text that is neither, or a file that has not exactly one line.
    func subject(_ context: RunContext) throws -> TokenSubject {
        guard let file = file ?? (text == "-" ? "-" : nil) else {
            return try parsed(text ?? "", from: "the token of the command line")
        }
        let source = try GivenSource(
            file, doing: "reading the token from", at: .settings, context.interrupt)
        let lines = try source.lines(atMost: 1 << 20).filter { !$0.isEmpty }
        guard lines.count == 1 else {
            throw RunFailure(
                .usage, .settings,
                "reading the token from \(source.name): it has \(lines.count.counting("line")) with text "
                    + "instead of one; give one token")
        }
        return try parsed(lines[0], from: source.name)
    }

    /// What a text spells. The message never repeats the text.
    private func parsed(_ text: String, from place: String) throws(RunFailure) -> TokenSubject {
        if let beginning = TokenBeginning(text) { return .beginning(beginning) }
        do throws(Refusal) {
            return .token(try DeviceToken(spelling: text))
        } catch {
            throw RunFailure(
                .usage, .settings,
                "reading \(place): it is no device token in hex (\(error)); give all its digits, as the "
                    + "token table or the device has them, or the first \(TokenBeginning.least) and more"
            )
        }
    }
}

/// The option of the commands that look: findings to live with.
struct IgnoreOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "A YAML list of findings to live with: rule, object, reason, until.", valueName: "file"),
        completion: .file())
    var ignore: String?

    /// The decisions in the file; none without one.
    func list() throws -> IgnoreList {
        try ignore.map { try IgnoreList(file: $0, rules: RuleBook.ignorable) } ?? .none
    }
}
