import APNsProtocol
import Database
import Encodings
import EvidenceJournal
import TokenHygiene

/// What the report of every kind of run has, and what its closing line counts.
package protocol RunReport: PrintedLines, Encodable, Sendable {
    /// RFC 3339, UTC.
    var ended: String { get set }
    /// What went wrong, in order.
    var problems: [RunProblem] { get set }
    /// What the run ends with.
    var exit: Int32 { get set }
    /// What the closing line of stderr counts.
    var closingCounts: ClosingCounts { get }
    /// The stage that the closing line names where nothing failed.
    static var lastStage: String { get }
}

extension RunReport {
    /// Everything planned had its turn.
    package static var lastStage: String { "done" }
}

/// What the closing line of stderr counts; the unit is that of the kind of run.
package struct ClosingCounts: Hashable, Sendable {
    /// Waits for the next run.
    package var pending = 0
    /// Was brought to the database by this run.
    package var applied = 0
    /// Waits for a person.
    package var held = 0

    /// Counts what there is; by default nothing.
    package init(pending: Int = 0, applied: Int = 0, held: Int = 0) {
        self.pending = pending
        self.applied = applied
        self.held = held
    }

    /// The closing line of stderr, for scripts. `why` is there where a run ended early though nothing
    /// failed.
    package func closingLine(
        _ exit: ExitStatus, stage: String, why: StopReason? = nil
    ) -> String {
        "code=\(exit.rawValue) stage=\(stage) pending=\(pending) applied=\(applied) held=\(held) "
            + "next=\(exit.next)" + (why.map { " why=\($0.rawValue)" } ?? "")
    }
}

/// Something that went wrong in a run.
package struct RunProblem: Codable, Hashable, Sendable {
    /// Where on the way from socket to report.
    package var stage: String
    /// One sentence.
    package var message: String
    /// Why the run ended early, in a word, where nothing failed.
    package var why: String?
}

/// What is written anew whenever a run has ended, with what the journal says then.
package protocol JournalPage: Sendable {
    /// Replaces the page.
    ///
    /// - Throws: exit 73 where it cannot be written; what keeps the journal from being read.
    func write(from journal: EvidenceJournal) throws(RunFailure)
}

/// What a run ended with: its report, its exit code, and the failures behind both.
package struct RunOutcome<Report: RunReport>: Sendable {
    /// The result for scripts and people.
    package var report: Report
    /// What the run ends with.
    package var exit = ExitStatus.done
    /// What went wrong, in order.
    package var failures: [RunFailure] = []

    /// Opens the outcome of a run.
    init(report: Report) { self.report = report }

    /// Notes a failure; one that comes up at every step, as of a damaged journal, once.
    mutating func fail(_ failure: RunFailure) {
        guard !failures.contains(failure) else { return }
        failures.append(failure)
        report.problems.append(
            RunProblem(
                stage: failure.stage.rawValue, message: failure.description,
                why: failure.reason?.rawValue))
        exit = .worse(exit, failure.exit)
    }

    /// Writes into the report when and with what the run ends.
    mutating func stamp(at now: EpochMilliseconds) {
        report.ended = now.rfc3339
        report.exit = exit.rawValue
    }

    /// Writes the end of the run into the journal and then, with what the journal says, the metrics.
    /// Where those cannot be written, what the run did stands, and the record says so too.
    mutating func record(
        as run: String, in journal: EvidenceJournal, _ metrics: (any JournalPage)?,
        at now: () -> EpochMilliseconds
    ) throws(JournalFailure) {
        try end(run, in: journal, at: now())
        do throws(RunFailure) {
            try metrics?.write(from: journal)
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
    package var closingLine: String? {
        guard exit != .done else { return nil }
        let failure = failures.first { $0.exit == exit }
        return report.closingCounts.closingLine(
            exit, stage: failure?.stage.rawValue ?? Report.lastStage, why: failure?.reason)
    }
}
