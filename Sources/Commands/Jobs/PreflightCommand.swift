import ArgumentParser
import Database
import Encodings
import Findings
import Looks
import Operations
import Settings

/// `pushsweep preflight`: the step before a send, and the filter of its tokens.
struct PreflightCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "preflight",
        abstract:
            "Look before a send: stale tokens, holds, certificate, topic, provider; or filter tokens.",
        discussion: HelpText.whole(PackageResources.preflight_txt))

    @OptionGroup var options: FileOptions

    @Option(
        help: ArgumentHelp(
            "Print the report in this form.", valueName: "text|json|markdown"))
    var format: PreflightFormat = .text

    @Option(help: ArgumentHelp("The app, if there are several.", valueName: "name"))
    var app: String?

    @Option(help: ArgumentHelp("production or sandbox.", valueName: "name"))
    var environment: String?

    @Option(
        help: ArgumentHelp("A file with a token per line; - is standard input.", valueName: "file"),
        completion: .file())
    var tokensFrom: String?

    @Flag(help: "Apply nothing before.")
    var readOnly = false

    @Flag(
        help: "Send one request to a made-up token, to try key, certificate and topic."
    )
    var probe = false

    @Option(
        help: ArgumentHelp(
            "The least severity that shuts the gate.", valueName: "note|low|medium|high|never"))
    var failOn: PreflightLimit = .high

    @Option(
        help: ArgumentHelp(
            "The largest share of stale tokens that does not shut the gate.", valueName: "percent"),
        transform: PreflightNumber.share)
    var maxStale = 0.05

    @Option(
        help: ArgumentHelp(
            "The largest share of tokens that APNs called bad that does not shut the gate.",
            valueName: "percent"),
        transform: PreflightNumber.share)
    var maxSuspect = 0.05

    @Option(
        help: ArgumentHelp(
            "Hours without a good sweep after which that is a finding.", valueName: "hours"),
        transform: PreflightNumber.hours)
    var maxHours = SweepFacts.usualHours

    @OptionGroup var decisions: IgnoreOptions

    @Flag(help: "Print the lines whose tokens may be sent to.")
    var filter = false

    @Flag(help: "With --filter: drop tokens that no row has, too.")
    var onlyKnown = false

    @Flag(help: "With --filter: drop tokens that APNs called bad this week and never knew, too.")
    var withoutSuspects = false

    @Option(
        help: ArgumentHelp("The most memory for fingerprints of tokens, in MiB.", valueName: "MiB"),
        transform: CommandNumber.mebibytes)
    var memory = PreflightPlan.usualMemory

    func validate() throws {
        guard filter else {
            if onlyKnown { throw ValidationError("--only-known goes with --filter") }
            if withoutSuspects {
                throw ValidationError("--without-suspects goes with --filter")
            }
            return
        }
        let others: [(String, Bool)] = [
            ("--probe", probe), ("--ignore", decisions.ignore != nil),
            ("--format", format != .text),
        ]
        for (name, isGiven) in others where isGiven {
            throw ValidationError("--filter prints tokens and no report; it goes without \(name)")
        }
    }

    func run() throws {
        try options.finish { context in
            let settings = try options.settings()
            return filter ? try pass(settings, context) : try look(settings, context)
        }
    }

    // MARK: The gate

    private func look(_ settings: Settings, _ context: RunContext) throws -> ExitStatus {
        var plan = try PreflightPlan(
            settings, app: app, environment: environment,
            subject: tokensFrom.map(PreflightPlan.Subject.lines))
        plan.readOnly = readOnly
        plan.probes = probe
        plan.failOn = failOn.severity
        plan.mostStale = maxStale
        plan.mostSuspect = maxSuspect
        plan.mostHours = maxHours
        plan.memory = memory
        plan.ignore = try decisions.list()
        let (report, applied) = try Preflight.run(plan, context)
        print(report)
        if let applied, !applied.report.apps.isEmpty { options.inform(applied, context, settings) }
        let status = ExitStatus(rawValue: report.exit) ?? .invariant
        if status != .done {
            let counts = applied?.report.closingCounts ?? ClosingCounts()
            StandardStreams.close(with: ClosingLine(status, stage: "preflight", counts))
        }
        return status
    }

    private func print(_ report: PreflightReport) {
        switch format {
        case .text: StandardStreams.result(report: report)
        case .json: StandardStreams.result(document: report)
        case .markdown: StandardStreams.result(whole: report.markdown + "\n")
        }
    }

    // MARK: The filter

    private func pass(_ settings: Settings, _ context: RunContext) throws -> ExitStatus {
        var plan = try PreflightPlan(
            settings, app: app, environment: environment, subject: .lines(tokensFrom ?? "-"),
            for: "filtering tokens")
        (plan.readOnly, plan.onlyKnown, plan.memory) = (readOnly, onlyKnown, memory)
        plan.withoutSuspects = withoutSuspects
        let (counts, applied) = try TokenFilter.run(plan, context) { bytes in
            StandardStreams.result(bytes: bytes)
            return StandardStreams.resultIsRead
        }
        if counts.malformed > 0 {
            context.log.warning(
                "left out \(counts.malformed.counting("line")) of \(counts.read) that \(counts.malformed == 1 ? "is not a token" : "are not tokens")"
            )
        }
        context.log.info(
            """
            of \(counts.read.counting("line")) passed \(counts.passed), dropped \(counts.stale) stale, \
            \(counts.unknown) unknown, \(counts.malformed) malformed\
            \(withoutSuspects ? ", \(counts.suspect) called bad" : "")
            """)
        if let applied, !applied.report.apps.isEmpty { options.inform(applied, context, settings) }
        return .done
    }
}

/// The forms of the report.
enum PreflightFormat: String, ExpressibleByArgument, CaseIterable {
    case text, json, markdown
}

/// What `--fail-on` takes.
enum PreflightLimit: String, ExpressibleByArgument, CaseIterable {
    case note, low, medium, high, never

    /// The severity; nil for `never`.
    var severity: Severity? { Severity(rawValue: rawValue) }
}

/// Numbers of the command line of `preflight`.
private enum PreflightNumber {
    static func share(_ text: String) throws -> Double {
        let digits = text.hasSuffix("%") ? text.dropLast() : Substring(text)
        guard let number = decimal(digits), number <= 100 else {
            throw ValidationError("must be a percentage from 0% to 100%, such as 5% or 0.5%")
        }
        return number / 100
    }

    static func hours(_ text: String) throws -> Double {
        guard let number = decimal(Substring(text)), number <= 87_600 else {
            throw ValidationError("must be hours, such as 26, at most 87600")
        }
        return number
    }

    /// Digits with at most one point between them.
    private static func decimal(_ text: Substring) -> Double? {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count <= 2, parts.allSatisfy({ PlainText.wholeNumber($0) != nil }) else {
            return nil
        }
        return Double(text)
    }
}
