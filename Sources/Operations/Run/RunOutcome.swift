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
    /// The exit code.
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

/// The counts in the closing line of stderr. The unit depends on the kind of run: tuples, rows of the
/// queue, entries of the ledger, or feeds; see docs/json.md.
package struct ClosingCounts: Hashable, Sendable {
    /// Number of units that wait for the next run. A feed that is applied in part counts in full.
    package var pending = 0
    /// Number of units that are applied to the database; of a feed that an earlier run began, also what
    /// that run applied.
    package var applied = 0
    /// Number of units that wait for a person.
    package var held = 0

    package init(pending: Int = 0, applied: Int = 0, held: Int = 0) {
        self.pending = pending
        self.applied = applied
        self.held = held
    }
}

/// The closing line of stderr, for scripts. It has `why` when a run ended early although nothing failed.
package struct ClosingLine: Hashable, Sendable, CustomStringConvertible {
    private let exit: ExitStatus
    private let stage: String
    private let counts: ClosingCounts
    private let why: StopReason?
    private let next: ExitStatus

    /// Makes the line. `next` replaces the exit code's usual reaction.
    package init(
        _ exit: ExitStatus, stage: String, _ counts: ClosingCounts = ClosingCounts(),
        why: StopReason? = nil, next: ExitStatus? = nil
    ) {
        (self.exit, self.stage, self.counts) = (exit, stage, counts)
        (self.why, self.next) = (why, next ?? exit)
    }

    package var description: String {
        "code=\(exit.rawValue) stage=\(stage) pending=\(counts.pending) applied=\(counts.applied) "
            + "held=\(counts.held) next=\(next.next)" + (why.map { " why=\($0.rawValue)" } ?? "")
    }

    /// The same line where the report could not be written besides.
    package var reportLost: ClosingLine {
        let worse = ExitStatus.worse(exit, .cannotCreate)
        return worse == exit ? self : ClosingLine(worse, stage: "report", counts, why: why)
    }
}

/// A failure of a run, or its early end, as JSON has it. Fields may be added, never renamed.
package struct RunProblem: Codable, Hashable, Sendable {
    /// The stage of the run, on the way from socket to report.
    package var stage: String
    /// The failure in one sentence.
    package var message: String
    /// One word for the reason why the run ended early although nothing failed.
    package var why: String?
}

/// A page that is written again from the journal's content whenever a run has ended.
package protocol JournalPage: Sendable {
    /// Replaces the page; `now` is this host's clock.
    ///
    /// - Throws: exit 73 when it cannot be written; failures to read the journal.
    func write(
        from journal: EvidenceJournal, at now: EpochMilliseconds
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
    mutating func note(_ finding: ExitStatus) { findings.insert(finding) }

    /// Adds the codes for evidence that a journal still has, whatever prevented its application.
    mutating func noteWaiting(in journal: EvidenceJournal) throws(JournalFailure) {
        if try !journal.feeds(.pending).isEmpty { note(.pending) }
        if try !journal.feeds(.held).isEmpty { note(.held) }
    }

    /// Notes at the end of a run whether it leaves anything that was read.
    mutating func noteLeft(in journal: EvidenceJournal) throws(JournalFailure) {
        let waiting = try journal.feeds(.pending)
        leavesNothing = report.hasReadNothing && waiting.isEmpty
    }

    /// Adds a failure. A failure that repeats at every step, such as a damaged journal, is added
    /// once.
    mutating func fail(_ failure: RunFailure) {
        guard !failures.contains(failure) else { return }
        failures.append(failure)
        report.problems.append(failure.problem)
    }

    /// Enters the end and the exit code of the run into the report.
    mutating func stamp(at now: EpochMilliseconds) {
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
