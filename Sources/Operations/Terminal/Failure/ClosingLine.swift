import Database
import Findings

/// The counts in the closing line of stderr. The unit depends on the kind of run: tuples, rows of the
/// queue, entries of the ledger, or batches; see docs/json.md.
package struct ClosingCounts: Hashable, Sendable {
    /// Number of units that wait for the next run. A batch that is applied in part counts in full.
    package var pending = 0
    /// Number of units that are applied to the database; of a batch that an earlier run began, also what
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

    /// Makes the line.
    package init(
        _ exit: ExitStatus, stage: String, _ counts: ClosingCounts = ClosingCounts(),
        why: StopReason? = nil
    ) {
        (self.exit, self.stage, self.counts, self.why) = (exit, stage, counts, why)
    }

    package var description: String {
        "code=\(exit.rawValue) stage=\(stage) pending=\(counts.pending) applied=\(counts.applied) "
            + "held=\(counts.held) next=\(exit.next)" + (why.map { " why=\($0.rawValue)" } ?? "")
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
