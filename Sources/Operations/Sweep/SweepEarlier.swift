import Encodings
import TokenHygiene
import TokenTable

// The part of a sweep that judges reports again, because the terms under which they were judged are others now.

extension Sweep {
    /// Judges again what changed nothing under other terms, by app, environment and source. Without a registration
    /// time nothing is beyond doubt, so there it is left to a person.
    mutating func judgeEarlier(_ evidence: EvidenceRun) throws(CancellationError) {
        guard !plan.dryRun, plan.gateways != nil else { return }
        do {
            guard try evidence.store.layout().registration != nil else { return }
            try judgeEach(evidence)
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

    private mutating func judgeEach(_ evidence: EvidenceRun) throws {
        for (name, stored) in plan.partitions.sorted(by: { "\($0.key)" < "\($1.key)" })
        where plan.isAbout(name) {
            let terms = try evidence.terms(of: name, stored)
            let old = try evidence.batches.judged(neverUnder: terms, about: name)
            let moved = try Dictionary(grouping: old, by: \.source).values.compactMap {
                try move($0, under: terms, evidence)
            }
            // Where the guard stops the largest, the others wait behind it, so that a person is asked once.
            for batch in moved.sorted(by: { ($1.reports, $0.id) < ($0.reports, $1.id) }) {
                try settle(HeardBatch(batch), evidence, resumed: true)
            }
        }
    }

    /// Moves what changed nothing of batches of one source into a new one, and returns it; nil where there is
    /// nothing.
    private func move(
        _ old: [ReportBatch], under terms: String, _ evidence: EvidenceRun
    ) throws -> ReportBatch? {
        guard let first = old.first else { return nil }
        var batch = ReportBatch(
            id: UUIDText.random(), run: run, first.partition, first.source, .earlier,
            label: "reports that were judged before", host: context.host,
            opened: old.map(\.opened).min() ?? first.opened)
        batch.terms = old.reduce(into: []) { known, next in
            known += next.terms.filter { !known.contains($0) }
        }
        var moved = 0
        defer { context.progress.clear() }
        for each in old {
            // What has moved is judged by the next run.
            guard !context.interrupt.isTripped else { throw RunFailure.stopped }
            moved += try evidence.batches.moveUnchanged(
                of: each, to: batch, under: terms, lease: evidence.lease)
            context.progress.show(
                "reports of \(first.partition) that are judged again", moved, of: nil)
        }
        guard moved > 0 else { return nil }
        try evidence.batches.closeMoved(batch)
        context.log.info(
            """
            \(first.partition): \(moved.counting("report")) of \(old.count.counting("batch")) changed nothing under other \
            settings or another table, and are judged again as batch \(batch.id)
            """)
        return try evidence.batches.batch(batch.id)
    }
}
