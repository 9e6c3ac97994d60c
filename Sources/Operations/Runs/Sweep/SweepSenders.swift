import Database
import EvidenceJournal
import PushQueue
import TokenHygiene
import TokenTable

// The part of a sweep that takes up what senders of this host left when they ended; see `SenderFolders`.

extension Sweep {
    /// Judges what senders left: batches that they had not closed, and answers in their logs. What fails for one
    /// sender is told, and the others are taken up.
    mutating func settleSenders(_ evidence: EvidenceRun) {
        guard plan.gateways != nil else { return }
        guard !plan.dryRun else { return noteSenders() }
        var endsRun = false
        let problems = SenderFolders.visitAbandoned(in: plan.state) {
            journal throws(JournalFailure) in
            do {
                try settleSender(journal, evidence)
            } catch let error as JournalFailure {
                throw error
            } catch is CancellationError {
                // A batch has entered its own failure.
                endsRun = true
            } catch {
                note(.wrapping(error, at: .store), of: journal.folder)
            }
            return !endsRun
        }
        for problem in problems { outcome.fail(.wrapping(problem, at: .state)) }
    }

    private mutating func settleSender(
        _ journal: EvidenceJournal, _ evidence: EvidenceRun
    ) throws {
        for batch in try LeftAnswers.closeTurns(in: journal, evidence) {
            try judge(HeardBatch(batch), evidence, resumed: true)
        }
        guard AnswerLog.isLeft(in: journal.folder) else { return }
        let queue = try PushQueue(
            evidence.store, QueueLease(run: run, host: context.host), newName: UUIDText.random)
        for batch in try LeftAnswers(settling: journal.folder, in: queue, context).batches {
            try judge(HeardBatch(batch), evidence, resumed: true)
        }
    }

    /// Tells of answers that this run could not write. An account that only sweeps may have no right to the queue,
    /// whose rows they settle too; then they wait for a sender.
    private mutating func note(_ failure: RunFailure, of folder: StateFolder) {
        guard [.permission, .configuration].contains(failure.exit) else {
            return outcome.fail(failure)
        }
        context.log.warning(
            """
            answers that a sender left in \(folder.path) wait for the next pushsweep send of this host, because this \
            run cannot write them: \(failure)
            """)
        outcome.note(.pending)
    }

    /// Tells of answers that a run would write.
    private mutating func noteSenders() {
        let left = HostFacts(in: plan.state).leftReports.values.reduce(0, +)
        guard left > 0 else { return }
        context.log.warning(
            """
            \(left.counting("answer")) against tokens that \(left == 1 ? "a sender" : "senders") of this host left \
            \(left == 1 ? "is" : "are") not judged here; a sweep stores and judges \(left == 1 ? "it" : "them")
            """)
        outcome.note(.pending)
    }
}
