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
        let batch = batch(of: partition, source, inlet, label: label, reports: list.count)
        guard !plan.dryRun else { return judge(HeardBatch(batch, .listed(list))) }
        return judge(HeardBatch(try insert(list, as: batch, once: false)))
    }

    /// A batch of this run that is not in the database yet.
    func batch(
        of partition: Partition, _ source: EvidenceSource, _ inlet: Inlet, label: String,
        reports: Int, opened: EpochMilliseconds? = nil
    ) -> ReportBatch {
        var batch = ReportBatch(
            id: UUIDText.random(), run: run, partition, source, inlet, label: label,
            host: context.host, opened: opened ?? context.now().advanced(by: ahead))
        batch.reports = reports
        return batch
    }

    /// Inserts evidence, which is in the order of tokens, as a batch that waits. What was heard `once` is inserted to its
    /// end, also where the run is told to stop.
    ///
    /// - Throws: failures of inserting.
    func insert(
        _ list: [TokenEvidence], as batch: ReportBatch, once: Bool
    ) throws -> ReportBatch {
        guard
            try store.fill(
                batch, lease: lease, shouldStop: { !once && context.interrupt.isTripped },
                from: { last in ListedReports(list, after: last?.token) })
        else { throw RunFailure.stopped }
        return try batches.batch(batch.id) ?? batch
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

    /// Judges again what a probe heard of tokens that APNs called dead in an app and environment, where living rows of it
    /// have such tokens now.
    ///
    /// - Throws: failures of the database.
    func judgeDeaths(of other: Partition) throws -> [Result] {
        guard !plan.dryRun, !isTrial else { return [] }
        let probed = try batches.probed(about: other).filter { try hasLiving($0) }
        let old = Dictionary(grouping: probed, by: \.source)
        return try old.sorted { $0.key.rawValue < $1.key.rawValue }.compactMap { source, old in
            // The first of them counts, so that what a person took back there since stays so.
            var batch = batch(
                of: other, source, .probe, label: old[0].label, reports: 0,
                opened: old.map(\.opened).min())
            batch.mappings = old[0].mappings
            let moved = try old.reduce(0) { sum, each in
                try sum + batches.move(.all, of: each, to: batch, lease: lease)
            }
            guard moved > 0 else { return nil }
            try batches.closeMoved(batch)
            return try batches.batch(batch.id).map { judge(HeardBatch($0)) }
        }
    }

    /// Judges what a probe of an app and environment heard, and was stopped before it judged.
    ///
    /// - Throws: failures of the database.
    func judgeHeard(of other: Partition) throws -> [Result] {
        try batches.all(.waiting, .applying).filter { $0.inlet == .probe && $0.partition == other }
            .map { judge(HeardBatch($0)) }
    }

    /// Whether a living row has a token of a batch.
    private func hasLiving(_ batch: ReportBatch) throws -> Bool {
        guard let stored = plan.partitions[batch.partition] else { return false }
        let lookup = try store.tokenStatuses(in: stored)
        var reports = StoredReports(of: batch.id, .all, in: store)
        while case let page = try reports.next(500), !page.isEmpty {
            if try lookup.statuses(of: page.map(\.token)).values.contains(where: {
                $0 == .living || $0 == .idle
            }) {
                return true
            }
        }
        return false
    }
}
