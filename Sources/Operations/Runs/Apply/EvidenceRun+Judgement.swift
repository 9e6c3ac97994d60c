// The judgement of one batch: a forecast that changes nothing, the guard's opinion, and then the rows.

import APNsProtocol
import Findings
import TokenHygiene
import TokenTable

extension EvidenceRun {
    /// What became of the evidence of a batch.
    struct Judged {
        var progress = BatchProgress(counts: Counts())
        var hold: GuardHold?
        /// The first rows that refused the changes; nil where none did.
        var refusals: [String]?
        /// Reports that change nothing because a person said no to them.
        var spared = 0
    }

    /// Logs the first rows that refused the changes of a batch. The applied changes are kept, whether or not
    /// these rows can be read.
    private func refusals(_ batch: ReportBatch, _ progress: BatchProgress) -> [String]? {
        guard progress.isApplied, progress.rowsRefused > 0 else { return nil }
        let limit = BatchReport.mostRefusals
        let named = (try? store.refusedChanges(ofBatch: batch.id, limit: limit)) ?? []
        let first = named.first.map { ", the first is \($0.refusalInWords)" } ?? ""
        let what = progress.rowsRefused == 1 ? "1 row stays" : "\(progress.rowsRefused) rows stay"
        context.log.warning(
            """
            \(batch.partition): \(what) as before although the token is dead\(first); correct the rows, then run \
            pushsweep replay --batch \(batch.id)
            """)
        return named.map(\.refusalInWords)
    }

    /// Judges the evidence: first a forecast, then the rows themselves, unless the guard holds the
    /// batch or this is a dry run. A batch that was begun continues without asking the guard: half a
    /// batch applied is no safer than a whole one, and the rest would be held because of the number of
    /// the first half.
    func judgement(of heard: HeardBatch, in partition: Partition) throws -> Judged {
        let batch = heard.batch
        // Of a list that is stored as it is decided, what is stored is decided, also where its host never came back.
        let isBegun =
            [.applying, .applied].contains(batch.state) || batch.progress.counts.total > 0
        let known = isBegun ? batch.progress : nil
        seen.enter(known)
        if let known, known.isApplied {
            // A run that was killed after its last commit has told nobody.
            return Judged(progress: known, refusals: refusals(batch, known))
        }
        let asksGuard = known == nil && !batch.isReleased
        if asksGuard, !plan.dryRun, let hold = try holdBehind(batch) { return Judged(hold: hold) }
        // Rows that are removed are read whole, and under locks.
        let isMarking = !policy(for: batch).deletesAtOnce && batch.source != .grace
        let rows = !plan.dryRun && isMarking ? ReadRows() : nil
        let forecast = try forecast(heard, after: known?.position, in: partition, keeping: rows)
        let hold = asksGuard ? try ask(about: heard, forecast, in: partition) : nil
        if plan.dryRun {
            var counts = forecast.counts
            counts += known?.counts ?? Counts()
            foretold.note(heard.batch, forecast.candidateRows, isHeld: hold != nil, in: partition)
            return Judged(
                progress: BatchProgress(counts: counts), hold: hold, spared: forecast.spared)
        }
        if batch.reports > 0 {
            opinions.note(hold, about: batch.partition, asked: asksGuard)
            try store.session.record(record(guardResult: opinions.summary))
        }
        if let hold { return Judged(hold: hold) }
        let mapping = try MappingDigest.of(batch.partition, store.terms(of: partition))
        let application = BatchApplication(
            run: run, batch: batch.id, partition: partition, policy: policy(for: batch),
            source: batch.source, lease: lease, mapping: mapping,
            hearing: hearing(of: heard.batch), storesReports: !heard.isStored)
        let applied = try write(application, heard, after: known?.position, knowing: rows)
        return Judged(
            progress: applied, refusals: refusals(batch, applied),
            // Of what an earlier run had judged nobody counted them.
            spared: known == nil ? forecast.spared : 0)
    }

    /// What the judgement of a batch needs of its grace period; nil for other batches.
    private func grace(of heard: HeardBatch) throws(StoreFailure) -> GracePeriod? {
        guard heard.batch.source == .grace else { return nil }
        return if let grace = heard.grace { grace } else { try gracePeriod() }
    }

    /// Whether it can be asked what persons said no to. An account of a dry run may see the token table alone.
    private var mayLookForRefusals: Bool { !plan.dryRun || (try? store.seesSpared()) == true }

    private func forecast(
        _ heard: HeardBatch, after position: DeviceToken?, in partition: Partition,
        keeping rows: ReadRows?
    ) throws -> Classification {
        var stream = heard.stream(after: position, in: store)
        let (interrupt, context) = (context.interrupt, context)
        let forecast = try store.classify(
            &stream, in: partition, policy: policy(for: heard.batch),
            hearing: mayLookForRefusals ? hearing(of: heard.batch) : nil,
            grace: grace(of: heard), keeping: rows, shouldStop: { interrupt.isTripped },
            report: {
                context.progress.show(
                    "comparing \(partition) (reports)", $0.counts.total, of: heard.batch.reports)
            })
        context.progress.clear()
        context.log.debug(
            "batch judged",
            metadata: [
                "partition": "\(partition)", "reports": "\(heard.batch.reports)",
                "candidates": "\(forecast.counts.applied)",
            ])
        if forecast.spared > 0 {
            context.log.warning(
                """
                \(heard.batch.partition): \(forecast.spared.counting("report")) of batch \(heard.batch.id) \
                \(forecast.spared == 1 ? "changes" : "change") nothing, because a person undid or discarded what \
                \(forecast.spared == 1 ? "it says" : "they say"); pushsweep replay --batch makes them count
                """)
        }
        guard forecast.isComplete else {
            throw RunFailure(
                .pending, .apply,
                "comparing batch \(heard.batch.id) with the table: stopped before its end; run again"
            )
        }
        return forecast
    }

    /// Changes the rows.
    private func write(
        _ application: BatchApplication, _ heard: HeardBatch, after position: DeviceToken?,
        knowing rows: ReadRows?
    ) throws -> BatchProgress {
        let (context, seen, counts) = (context, seen, heard.batch.counts)
        let partition = heard.batch.partition
        defer { context.progress.clear() }
        try store.renewLayout(for: application.policy)
        var stream = heard.stream(after: position, in: store)
        return try store.applyReports(
            &stream, application, grace: grace(of: heard), known: rows,
            shouldStop: { context.interrupt.isTripped }
        ) { progress in
            seen.enter(progress)
            context.progress.show(
                "applying \(partition) (reports)", progress.counts.total, of: counts.tuples)
        }
    }
}
