import Encodings
import Foundation
import Logging
import Looks
import Operations
import SecureTransport
import Settings
import TestSupport

// Jobs that run in this process, with the results that the program would print.

extension RunContext {
    /// A context without a log.
    static func silent() throws -> RunContext {
        RunContext(
            interrupt: try Interrupt(),
            log: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    }
}

extension ToolStage {
    /// The settings as the program reads them, or such as a text has them.
    func loaded(_ text: String? = nil, _ environment: [String: String] = [:]) throws -> Settings {
        try Settings.load(
            configFile: text.map { try folder.write("other.yaml", $0) } ?? settings(),
            environment: environment)
    }

    private func job<Report>(
        stopping phrase: String? = nil, clockAhead: Int64 = 0,
        _ run: (Settings, RunContext) throws -> RunOutcome<Report>
    ) throws -> ToolResult {
        let (heard, interrupt) = (HeardWords(), try Interrupt())
        let context = RunContext(
            now: { .current.advanced(by: clockAhead) }, interrupt: interrupt,
            log: Logger(label: "test") { _ in HeardWords.Handler(heard: heard) },
            progress: phrase.map { StopAfter(1, interrupt, doing: $0) as any ProgressDisplay }
                ?? NoProgress())
        let outcome: RunOutcome<Report>
        do {
            outcome = try run(try loaded(), context)
        } catch let failure as RunFailure {
            return ToolResult(
                exit: failure.exit.rawValue, output: "",
                error: failure.sentences.joined(separator: "\n"))
        }
        var said = [heard.all] + outcome.failures.map { "\($0)" }
        if let closing = outcome.closingLine { said.append("\(closing)") }
        return ToolResult(
            exit: outcome.exit.rawValue, output: outcome.report.jsonLine + "\n",
            error: said.filter { !$0.isEmpty }.map { $0 + "\n" }.joined())
    }

    /// Sweeps, and stops once it shows some progress with words that begin so. The clock of the host is ahead of
    /// that of the database by some milliseconds.
    func swept(
        _ apps: String..., dryRun: Bool = false, stopping phrase: String? = nil,
        clockAhead: Int64 = 0
    ) throws -> ToolResult {
        try job(stopping: phrase, clockAhead: clockAhead) { settings, context in
            var plan = try SweepPlan(sweeping: settings, apps: apps, dryRun: dryRun, context)
            plan.metrics = MetricsPlan(settings, dryRun: dryRun)
            return Sweep.run(plan, context)
        }
    }

    /// Replays a file, or a feed of the journal.
    func replayed(
        _ file: String? = nil, feed: String? = nil, app: String? = nil, dryRun: Bool = false
    ) throws -> ToolResult {
        try job { settings, context in
            let plan =
                try feed.map { SweepPlan(settings, .journaled($0), dryRun: dryRun) }
                ?? SweepPlan(
                    reading: file ?? "", app: app, environment: nil, settings, dryRun: dryRun)
            return Sweep.run(plan, context)
        }
    }

    /// Takes the changes of a run back.
    func undone(_ run: String) throws -> ToolResult {
        try job { settings, context in
            Undo.run(settings, .run(run), dryRun: false, nil, context)
        }
    }

    /// Releases the held set with a digest, and stops once it shows some progress with words that begin so.
    func released(
        _ digest: String, because reason: String? = nil, stopping phrase: String? = nil
    ) throws -> ToolResult {
        try job(stopping: phrase) { settings, context in
            Sweep.run(
                SweepPlan(releasing: digest, because: reason, settings: settings), context)
        }
    }

    /// The holds as `holds list` has them.
    func holdList() throws -> [[String: Any]] {
        try Self.object(HoldList(of: loaded(), .silent()))["holds"] as? [[String: Any]] ?? []
    }

    /// The only hold, or that of a feed, as `holds show` has it.
    func shown(_ feed: String? = nil) throws -> [String: Any] {
        let settings = try loaded()
        let name = try feed ?? holdList().first?["hold"] as? String ?? ""
        return try Self.object(settings.holds { try $0.report(of: name, settings, .silent()) })
    }

    /// Discards a feed of a hold, or all of them.
    @discardableResult
    func discarded(_ name: String, whole: Bool = false) throws -> DiscardReport {
        try loaded().holds(for: .changes) {
            try $0.discard(name, whole: whole, because: "a mistake", .silent())
        }
    }

    private static func object(_ report: some Encodable) throws -> [String: Any] {
        let object = try JSONSerialization.jsonObject(with: JSONEncoder().encode(report))
        return object as? [String: Any] ?? [:]
    }
}
