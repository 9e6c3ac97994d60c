import APNsProtocol
import Findings
import TokenHygiene
import TokenTable

// Evidence that a run itself has found or heard, in place of one that came in by an inlet of others.

extension EvidenceRun {
    /// Inserts evidence, which is in the order of tokens, as a batch of its own and judges it; a dry run only judges it.
    /// What was heard `once` is inserted to its end, also where the run is told to stop.
    ///
    /// - Throws: failures of inserting.
    func take(
        _ list: [TokenEvidence], of partition: Partition, _ source: EvidenceSource, _ inlet: Inlet,
        label: String, once: Bool = false
    ) throws -> Result {
        var batch = ReportBatch(
            id: UUIDText.random(), run: run, partition, source, inlet, label: label,
            host: context.host, opened: context.now().advanced(by: ahead))
        batch.reports = list.count
        guard !plan.dryRun else { return judge(HeardBatch(batch, .listed(list))) }
        guard
            try store.fill(
                batch, lease: lease, shouldStop: { !once && context.interrupt.isTripped },
                from: { last in ListedReports(list, after: last?.token) })
        else { throw RunFailure.stopped }
        return judge(HeardBatch(try batches.batch(batch.id) ?? batch))
    }

    /// Judges again what a probe heard of tokens that APNs called dead in the other environment, once a batch has moved rows
    /// there.
    ///
    /// - Throws: failures of the database.
    func judgeDeaths(after move: Result) throws -> [Result] {
        guard move.entry.moves, move.failure == nil, move.entry.applied > 0,
            let other = move.entry.partition.elsewhere
        else { return [] }
        return try judgeDeaths(of: other)
    }

    /// Judges again what a probe heard of tokens that APNs called dead in an app and environment, and of which no row was
    /// there.
    ///
    /// - Throws: failures of the database.
    func judgeDeaths(of other: Partition) throws -> [Result] {
        guard !plan.dryRun, !isTrial else { return [] }
        let old = Dictionary(grouping: try batches.probed(about: other), by: \.source)
        return try old.sorted { $0.key.rawValue < $1.key.rawValue }.compactMap { source, old in
            var batch = ReportBatch(
                id: UUIDText.random(), run: run, other, source, .probe,
                label: old[0].label, host: context.host,
                opened: old.map(\.opened).min() ?? started)
            batch.mappings = old[0].mappings
            let moved = try old.reduce(0) { sum, each in
                try sum + batches.move(.unmatched, of: each, to: batch, lease: lease)
            }
            guard moved > 0 else { return nil }
            try batches.closeMoved(batch)
            return try batches.batch(batch.id).map { judge(HeardBatch($0)) }
        }
    }
}
