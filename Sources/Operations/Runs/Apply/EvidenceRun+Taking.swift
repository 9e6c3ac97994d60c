import APNsProtocol
import Findings
import TokenHygiene
import TokenTable

// Evidence that a run itself has found or heard, in place of one that came in by an inlet of others.

extension EvidenceRun {
    /// Inserts evidence, which is in the order of tokens, as a batch of its own and judges it; a dry run only judges it.
    ///
    /// - Throws: failures of inserting.
    func take(
        _ list: [TokenEvidence], of partition: Partition, _ source: EvidenceSource, _ inlet: Inlet,
        label: String
    ) throws -> Result {
        var batch = ReportBatch(
            id: UUIDText.random(), run: run, partition, source, inlet, label: label,
            host: context.host, opened: context.now().advanced(by: ahead))
        batch.reports = list.count
        guard !plan.dryRun else { return judge(HeardBatch(batch, .listed(list))) }
        guard
            try store.fill(
                batch, lease: lease, shouldStop: { context.interrupt.isTripped },
                from: { last in ListedReports(list, after: last?.token) })
        else { throw RunFailure.stopped }
        return judge(HeardBatch(try batches.batch(batch.id) ?? batch))
    }
}
