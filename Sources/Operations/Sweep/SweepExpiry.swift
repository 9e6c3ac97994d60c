import Foundation
import TokenHygiene
import TokenStore

extension SweepReport {
    /// What removal after the grace period did in one app's rows.
    package struct Removal: Codable, Hashable, Sendable {
        /// The app's name in the settings.
        package var app: String
        /// `production` or `sandbox`.
        package var environment: String
        /// Rows that have stayed marked for long enough.
        package var due = 0
        /// Those removed; none in a dry run.
        package var removed = 0
        /// The name of the changes in the ledger; absent where nothing was removed.
        package var feed: String?
    }
}

/// The last step of a sweep under `policy.delete-after`: removes the rows that have stayed marked for
/// so long, app by app.
struct SweepExpiry {
    let store: TokenStore
    let plan: SweepPlan
    let context: RunContext
    let run: String
    let started: EpochMilliseconds

    /// Whether this plan removes anything after a grace period.
    var isWanted: Bool {
        guard case .gateways = plan.work else { return false }
        return plan.policy.action == .delete && plan.policy.deletesAfter != nil
    }

    /// Removes what is due; `enter` hears of each app, also of one whose removal was cut short.
    func remove(_ enter: (SweepReport.Removal) -> Void) throws {
        let partitions = plan.partitions.sorted { "\($0.key)" < "\($1.key)" }
        for (partition, stored) in partitions {
            var entry = SweepReport.Removal(
                app: partition.app, environment: partition.environment)
            let expiry = Expiry(
                run: run, feed: UUID().uuidString.lowercased(), partition: stored,
                policy: plan.policy, now: started)
            guard let due = try store.due(expiry, shouldStop: { context.interrupt.isTripped })
            else { throw RunFailure.stopped }
            entry.due = due
            if due > 0 && !plan.dryRun && mayRemove(due, of: partition) {
                entry.feed = expiry.feed
                try remove(expiry, partition, due, into: &entry, enter)
            } else if due > 0 {
                enter(entry)
            }
        }
    }

    /// Here the guard's verdict on so many removals is asked.
    private func mayRemove(_ candidates: Int, of partition: Partition) -> Bool { true }

    private func remove(
        _ expiry: Expiry, _ partition: Partition, _ due: Int,
        into entry: inout SweepReport.Removal, _ enter: (SweepReport.Removal) -> Void
    ) throws {
        try store.record(
            RunRecord(id: run, kind: plan.work.kind, started: started, host: context.host))
        defer {
            context.progress.clear()
            enter(entry)
        }
        let removed = try store.remove(
            expiry, shouldStop: { context.interrupt.isTripped }
        ) { removed in
            entry.removed = removed
            context.progress.show("removing rows of \(partition)", removed, of: due)
        }
        if removed == nil { throw RunFailure.stopped }
    }
}
