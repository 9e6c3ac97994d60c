import APNsProtocol
import Database
import Findings
import Foundation
import TokenHygiene
import TokenTable

/// The end of grace periods in one partition at a moment: the search for due rows, and their removal as a batch.
package struct GraceEnd {
    package let run: String
    package let feed: String
    package let partition: Partition
    package let policy: RemovalPolicy
    package let now: EpochMilliseconds

    package init(
        run: String, feed: String, partition: Partition, policy: RemovalPolicy,
        now: EpochMilliseconds
    ) {
        (self.run, self.feed, self.partition) = (run, feed, partition)
        (self.policy, self.now) = (policy, now)
    }

    /// The removal of rows a week after their mark, as a batch of its own.
    package static func afterAWeek(at now: Int64, run: String = "sweep") -> GraceEnd {
        GraceEnd(
            run: run, feed: UUID().uuidString.lowercased(), partition: chat,
            policy: RemovalPolicy(action: .delete, deletesAfter: 7 * 86_400_000),
            now: EpochMilliseconds(now))
    }
}

extension TokenTable {
    /// The due tokens with the times of their marks; nil where `shouldStop` ended the search. `noticing` receives the
    /// time until which no row goes, where the ledger has lost changes.
    private func search(
        _ end: GraceEnd, _ period: GracePeriod, shouldStop: () -> Bool
    ) throws -> [TokenEvidence]? {
        var due: [TokenEvidence] = []
        let isWhole = try GraceSearch(period, in: end.partition, self).run(shouldStop: shouldStop) {
            due += $0
        }
        return isWhole ? due : nil
    }

    /// The number of due tokens.
    package func due(
        _ end: GraceEnd, shouldStop: () -> Bool = { false },
        noticing: (EpochMilliseconds) -> Void = { _ in }
    ) throws -> Int? {
        let period = try gracePeriod(end.policy, at: end.now, mustSee: false)
        if let stays = period.stays { noticing(stays) }
        return try search(end, period, shouldStop: shouldStop)?.count
    }

    /// Removes the due rows as a batch, and returns the number of rows that went; nil where it was stopped.
    package func remove(
        _ end: GraceEnd, shouldStop: () -> Bool = { false },
        report: (BatchProgress) -> Void = { _ in }
    ) throws -> Int? {
        let period = try gracePeriod(end.policy, at: end.now, mustSee: true)
        guard let due = try search(end, period, shouldStop: shouldStop) else { return nil }
        guard !due.isEmpty else { return 0 }
        var list = EvidenceList(due)
        let application = BatchApplication(
            run: end.run, batch: end.feed, partition: end.partition, policy: end.policy,
            source: .grace, hearing: .unknown)
        let stream = list
        _ = try fill(
            ReportBatch(
                id: end.feed, run: end.run, end.partition, .grace, .grace, label: "test", host: "h",
                opened: end.now)
        ) { place in ExpandedReports(stream, after: place) }
        let progress = try applyReports(
            &list, application, grace: period, shouldStop: shouldStop, report: report)
        guard progress.isApplied else { return nil }
        return try TokenTable(settings).retries.retrying("counting rows that went") {
            () throws(SQLFailure) in
            try connection.query(
                "SELECT COUNT(*) FROM \(ledgerWithRuns) WHERE batch = ? AND action = 'delete'",
                [.text(end.feed)]
            ).scalar?.count
        }
    }
}
