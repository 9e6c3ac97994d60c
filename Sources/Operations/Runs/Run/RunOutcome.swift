import APNsProtocol
import Database
import Encodings
import EvidenceJournal
import TokenHygiene

/// The common parts of the reports of all kinds of run, with the counts for the closing line.
package protocol RunReport: PrintedLines, Encodable, Sendable {
    /// The run's name, a UUID; empty for a run without a record.
    var run: String { get }
    /// The kind of run, as the records name it.
    var kind: String { get }
    /// Whether the run was a dry run, which changes nothing.
    var dryRun: Bool { get }
    /// The time at which the run ended, RFC 3339 in UTC.
    var ended: String { get set }
    /// The failures of the run, in order.
    var problems: [RunProblem] { get set }
    var exit: Int32 { get set }
    /// The counts in the closing line of stderr.
    var closingCounts: ClosingCounts { get }
    /// The stage that the closing line names when nothing failed.
    static var lastStage: String { get }
    /// Whether the run has neither read nor taken anything so far.
    var hasReadNothing: Bool { get }
}

extension RunReport {
    /// The run completed every step of its plan.
    package static var lastStage: String { "done" }
    /// Only runs that read evidence or notifications can have read nothing.
    package var hasReadNothing: Bool { false }
}

/// A page that is written again from the journal's content whenever a run has ended.
package protocol JournalPage: Sendable {
    /// Replaces the page; `now` is this host's clock, and `journal` that of the run, where it has one.
    ///
    /// - Throws: exit 73 when it cannot be written; failures to read the journal.
    func write(
        from journal: EvidenceJournal?, at now: EpochMilliseconds
    ) throws(RunFailure)
}

/// The end of a run: its report, and the failures and findings that make its exit code.
package struct RunOutcome<Report: RunReport>: Sendable {
    package var report: Report
    /// The failures, in order.
    package private(set) var failures: [RunFailure] = []
    /// The exit codes of results that are no failures: a hold, quarantined bytes, evidence that
    /// waits.
    private var findings: Set<ExitStatus> = []

    /// Whether no evidence was read and none waits, so that a failing database leaves nothing behind.
    private var leavesNothing = false

    package init(report: Report) { self.report = report }

    /// The exit code: that of the failure or finding with the most urgent reaction.
    package var exit: ExitStatus {
        findings.union(failures.map(exit(for:))).reduce(.done, ExitStatus.worse)
    }

    /// The exit code for a failure. 75 says that evidence waits here; where there is none, a database
    /// that is busy or read-only is one that could not be used.
    private func exit(for failure: RunFailure) -> ExitStatus {
        let isOfStore = failure.stage == .store && failure.reason == nil
        return leavesNothing && isOfStore && failure.exit == .pending ? .unreachable : failure.exit
    }

    /// Adds the exit code of a result that is no failure.
    package mutating func note(_ finding: ExitStatus) { findings.insert(finding) }

    /// Adds the code for evidence that a state folder still has, whatever prevented that it was poured.
    mutating func noteWaiting(in folder: StateFolder) throws(JournalFailure) {
        if try !folder.lists(.pending, .held).isEmpty { note(.pending) }
    }

    /// Notes at the end of a run whether it leaves anything that was read.
    mutating func noteLeft(in folder: StateFolder) throws(JournalFailure) {
        let waiting = try folder.lists(.pending)
        leavesNothing = report.hasReadNothing && waiting.isEmpty
    }

    /// Adds a failure. A failure that repeats at every step, such as a damaged file, is added
    /// once.
    package mutating func fail(_ failure: RunFailure) {
        guard !failures.contains(failure) else { return }
        failures.append(failure)
        report.problems.append(failure.problem)
    }

    /// Enters the end and the exit code of the run into the report.
    package mutating func stamp(at now: EpochMilliseconds) {
        report.ended = now.rfc3339
        report.exit = exit.rawValue
    }

    /// Writes the end of the run into the journal, then the metrics from the journal's content. When
    /// the metrics cannot be written, the run's changes are kept, and its record includes this
    /// failure.
    mutating func record(
        as run: String, in journal: EvidenceJournal, _ metrics: (any JournalPage)?,
        at now: () -> EpochMilliseconds
    ) throws(JournalFailure) {
        try end(run, in: journal, at: now())
        do throws(RunFailure) {
            try metrics?.write(from: journal, at: now())
        } catch {
            fail(error)
            try end(run, in: journal, at: now())
        }
    }

    private mutating func end(
        _ run: String, in journal: EvidenceJournal, at now: EpochMilliseconds
    ) throws(JournalFailure) {
        stamp(at: now)
        try journal.endRun(run, exit: exit.rawValue, summary: report.jsonLine, at: now)
    }

    /// The closing line of stderr, for scripts; nil after success.
    package var closingLine: ClosingLine? {
        guard exit != .done else { return nil }
        // What waits after a failure has a code of its own; the stage is still that of the failure.
        let cause = failures.first { self.exit(for: $0) == exit }
        let worst = ExitStatus.byUrgency.lazy
            .compactMap { code in failures.first { self.exit(for: $0) == code } }.first
        return ClosingLine(
            exit, stage: (cause ?? worst)?.stage.rawValue ?? Report.lastStage,
            report.closingCounts, why: cause?.reason)
    }
}
