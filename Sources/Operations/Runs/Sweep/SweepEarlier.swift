import APNsProtocol
import Encodings
import TokenHygiene
import TokenTable

// The part of a sweep that judges reports again, because the mapping under which they were judged is another one now.

extension Sweep {
    /// Judges again what found no row that it could change under another mapping, by app, environment and source; a
    /// dry run says what that would do. Without a registration time nothing is beyond doubt, so there it is left to a
    /// person.
    mutating func judgeEarlier(_ evidence: EvidenceRun) throws(CancellationError) {
        guard plan.gateways != nil else { return }
        if plan.dryRun, (try? evidence.batches.visibility()) != .readable { return }
        do {
            guard try evidence.store.layout().registration != nil else { return }
            let refused = try evidence.store.refusalTimes(mustSee: !plan.dryRun)
            for (name, stored) in plan.partitions.sorted(by: { "\($0.key)" < "\($1.key)" })
            where plan.isAbout(name) {
                let mapping = try MappingDigest.of(name, evidence.store.terms(of: stored))
                let old = try evidence.batches.judged(neverUnder: mapping, about: name)
                try judge(old, again: mapping, refused, evidence)
            }
        } catch let end as CancellationError {
            throw end
        } catch {
            let failure = RunFailure.wrapping(error, at: .apply)
            outcome.fail(failure)
            // What moved is judged by the next run, and this one goes on where the database does.
            guard [.permission, .configuration, .pending].contains(failure.exit) else {
                throw CancellationError()
            }
        }
    }

    /// What becomes one batch: reports of one source, before or after the same no of a person, and those of which
    /// nobody knows when they were heard.
    private struct Group: Hashable {
        let source: EvidenceSource
        let refusal: EpochMilliseconds?
        let isKnown: Bool
    }

    private mutating func judge(
        _ old: [ReportBatch], again mapping: String, _ refused: [EpochMilliseconds],
        _ evidence: EvidenceRun
    ) throws {
        let groups = Dictionary(grouping: old) { batch in
            let heard = batch.asked ?? batch.heard
            return Group(
                source: batch.source,
                refusal: heard.flatMap(refused.first(notBefore:)),
                isKnown: heard != nil)
        }
        let batches = try groups.values.compactMap { old -> HeardBatch? in
            guard let batch = earlier(old) else { return nil }
            return plan.dryRun
                ? HeardBatch(batch, .earlier(old.map(\.id), .unmatched))
                : try move(old, into: batch, under: mapping, evidence).map { HeardBatch($0) }
        }
        // Where the guard stops the largest, the others wait behind it, so that a person is asked once.
        for heard in batches.sorted(by: {
            ($1.batch.reports, $0.batch.id) < ($0.batch.reports, $1.batch.id)
        }) {
            try judge(heard, evidence, resumed: false)
        }
    }

    /// The batch of what is judged again of some batches, in which nothing is yet.
    private func earlier(_ old: [ReportBatch]) -> ReportBatch? {
        guard let first = old.first else { return nil }
        var batch = ReportBatch(
            id: UUIDText.random(), run: run, first.partition, first.source, .earlier,
            label: "reports that found no row", host: context.host,
            opened: old.map(\.opened).min() ?? first.opened)
        // Known of each of a group, or of none.
        batch.heard = old.compactMap { $0.asked ?? $0.heard }.min()
        if plan.dryRun {
            batch.reports = old.reduce(0) {
                $0 + $1.progress.counts.unknown + $1.progress.counts.refused
            }
        }
        return batch
    }

    /// Moves what found no row of some batches, and returns the batch in which it is; nil where there is nothing.
    private func move(
        _ old: [ReportBatch], into batch: ReportBatch, under mapping: String,
        _ evidence: EvidenceRun
    ) throws -> ReportBatch? {
        var moved = 0
        defer { context.progress.clear() }
        for each in old {
            // What has moved is judged by the next run.
            guard !context.interrupt.isTripped else { throw RunFailure.stopped }
            moved += try evidence.batches.move(
                .unmatched, of: each, to: batch, under: mapping, lease: evidence.lease)
            context.progress.show(
                "reports of \(batch.partition) that are judged again", moved, of: nil)
        }
        guard moved > 0 else { return nil }
        try evidence.batches.closeMoved(batch)
        context.log.warning(
            """
            \(batch.partition): \(moved.counting("report")) of \(old.count.counting("batch")) found no row under another \
            mapping, and \(moved == 1 ? "is" : "are") judged again as batch \(batch.id)
            """)
        return try evidence.batches.batch(batch.id)
    }
}
