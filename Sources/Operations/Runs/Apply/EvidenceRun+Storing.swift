import EvidenceJournal
import TokenTable

extension EvidenceRun {
    /// Inserts the reports of a batch that this run has sorted, undecided, from where an earlier run stopped. Gives it
    /// back as the database has it then.
    ///
    /// - Throws: `stopped` where a stop signal came; failures of the database. What is inserted stays.
    func store(_ heard: inout HeardBatch) throws {
        guard case .sorted(let sorted) = heard.home else { return }
        let (context, made) = (context, heard.batch)
        let isWhole = try store.fill(
            made, lease: lease, shouldStop: { context.interrupt.isTripped },
            report: {
                context.progress.show(
                    "storing \(made.partition) (reports)", $0, of: made.counts.tuples)
            }
        ) { place in sorted.reports(after: place) }
        context.progress.clear()
        guard isWhole else { throw RunFailure.stopped }
        heard.batch = try batches.batch(made.id) ?? made
        heard.isStored = true
        guard
            ![.discarding, .discarded].contains(heard.batch.state) || heard.batch.reports > 0
                || sorted.reports == 0
        else {
            throw RunFailure(
                .pending, .apply,
                "storing list \(made.id): a person gave it up meanwhile, so nothing of it is stored; run again, which "
                    + "stores it under another name")
        }
    }
}
