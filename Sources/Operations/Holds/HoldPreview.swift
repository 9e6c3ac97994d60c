import Database
import EvidenceJournal
import Settings
import TokenHygiene
import TokenTable

/// Examines a hold: decodes its feeds, computes its digest, and asks the database for the present
/// outcome of every token.
package struct HoldPreview {
    /// Number of tokens in the sample of a hold.
    private static let sampleSize = 10
    private static let tokensPerBatch = 1_000

    private let hold: Hold
    private let settings: Settings
    private let context: RunContext
    private let policy: RemovalPolicy

    /// Uses the current settings to examine a hold.
    package init(_ hold: Hold, _ settings: Settings, _ context: RunContext) {
        self.hold = hold
        self.settings = settings
        self.context = context
        policy = RemovalPolicy(settings.policy)
    }

    /// The facts that a person needs for a decision. Only reads.
    ///
    /// - Throws: failures of the journal and of the database.
    package func report() throws -> HoldReport {
        guard let app = settings.apps.first(where: { $0.partition == hold.partition }) else {
            throw RunFailure(
                .configuration, .settings,
                "looking at hold \(hold.id): the settings no longer name \(hold.partition); name it "
                    + "again under apps, or discard the hold")
        }
        let store = try TokenTable(StoreSettings(settings))
        var report = HoldReport(hold, action: policy.action, now: context.now())
        let table = try EvidenceTable(in: hold.journal.folder, named: "scratch-holds")
        let digest = try HoldDigest(
            hold.partition, policy, terms: store.terms(of: app.storedPartition))
        for feed in hold.feeds {
            let decoded = try FeedDecoding.decode(feed, in: hold.journal)
            report.digest = try digest.take(decoded) { item in
                for _ in 0..<item.statements { try table.add(item.token, item.time) }
            }
            report.tuples += decoded.books.tuples
            report.quarantined += decoded.books.quarantined
        }
        let evidence = try table.seal()
        report.tokens = evidence.tokens
        try survey(evidence, into: &report)
        try compare(evidence, with: app.storedPartition, in: store, into: &report)
        return report
    }

    private func survey(_ evidence: SortedEvidence, into report: inout HoldReport) throws {
        var stream = evidence.stream()
        // Tokens are close to random, so every n-th in their order is a fair sample.
        let step = max(1, evidence.tokens / Self.sampleSize)
        var place = 0
        while case let batch = try stream.next(Self.tokensPerBatch), !batch.isEmpty {
            for item in batch {
                report.count(age: report.taken.rawValue - item.time.rawValue)
                if place.isMultiple(of: step), report.sample.count < Self.sampleSize {
                    report.sample.append(
                        HoldReport.Sample(
                            token: item.token.redacted, time: item.time.rfc3339))
                }
                place += 1
            }
        }
    }

    private func compare(
        _ evidence: SortedEvidence, with partition: Partition, in store: TokenTable,
        into report: inout HoldReport
    ) throws {
        var stream = evidence.stream()
        let forecast = try store.classify(
            &stream, in: partition, policy: policy,
            shouldStop: { context.interrupt.isTripped })
        guard forecast.isComplete else { throw RunFailure.stopped }
        report.candidates = forecast.candidateRows
        report.applied = forecast.counts.applied
        report.already = forecast.counts.already
        report.newer = forecast.counts.newer
        report.unknown = forecast.counts.unknown
        report.refused = forecast.counts.refused
        report.living = try store.livingRows(in: partition, atMost: .max)
    }
}
