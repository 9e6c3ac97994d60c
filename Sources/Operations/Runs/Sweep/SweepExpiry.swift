import APNsProtocol
import Database
import Findings
import TokenHygiene
import TokenTable

// The last step of a sweep under `policy.delete-after`: the rows whose grace period has ended are removed, app
// by app.

extension EvidenceRun {
    /// Whether this plan removes rows after a grace period.
    var removesExpired: Bool {
        guard case .gateways = plan.work else { return false }
        return plan.policy.action == .delete && plan.policy.deletesAfter != nil
    }

    /// Removes the due rows. `enter` gets the result of each app, also when its removal was cut
    /// short.
    func removeExpired(_ enter: (SweepReport.Removal) -> Void) throws {
        let tableExpiry = TableExpiry(store)
        let now = try store.session.databaseTime()
        let partitions = plan.partitions.filter { plan.isAbout($0.key) }
            .sorted { "\($0.key)" < "\($1.key)" }
        for (partition, stored) in partitions {
            let expiry = Expiry(
                run: run, feed: UUIDText.random(), partition: stored,
                policy: plan.policy, now: now, lease: lease)
            guard
                let due = try tableExpiry.due(
                    expiry, shouldStop: { context.interrupt.isTripped },
                    noticing: { warn(of: partition, untouchedUntil: $0) })
            else { throw RunFailure.stopped }
            guard due > 0 else { continue }
            var entry = SweepReport.Removal(
                app: partition.app, environment: partition.environment, due: due)
            defer { enter(entry) }
            entry.cause = try cause(toHold: due, of: stored)
            if let cause = entry.cause {
                context.log.warning(
                    """
                    removal of \(due) marked rows of \(partition) is held: \(cause); they stay \
                    marked; if they are meant to go, run once with PUSHSWEEP_GUARD_FLOOR=\(due)
                    """)
            } else if !plan.dryRun {
                try remove(expiry, tableExpiry, &entry)
            }
        }
    }

    private func warn(of partition: Partition, untouchedUntil end: EpochMilliseconds) {
        context.log.warning(
            """
            removing rows of \(partition) after policy.delete-after: the ledger has lost changes of that \
            period, or names their rows by another key than store.active-users.key, so when these rows \
            were marked is unknown and none is removed before \(end.rfc3339); keep the ledger for longer \
            than the period (policy.keep-ledger, for purge on every host), and change the key seldom
            """)
    }

    /// The guard's reason against so many removals at once. Its limits are shares of the living rows.
    /// The due rows are marked already, so they are added to the living ones.
    private func cause(toHold due: Int, of partition: Partition) throws -> String? {
        let proposal = RemovalProposal(
            candidates: due, counts: Counts(applied: due), tuples: due, tokens: due)
        let living = store.livingRows(in: partition)
        let cause = try RemovalGuard(plan.limits).cause(
            toHold: proposal, after: store.removals(from: partition)
        ) { limit throws(StoreFailure) in
            try living.count(atMost: limit) + due
        }
        return cause.map { "\($0)" }
    }

    private func remove(
        _ expiry: Expiry, _ tableExpiry: TableExpiry, _ entry: inout SweepReport.Removal
    ) throws {
        let (partition, due) = (entry.partition, entry.due)
        entry.feed = expiry.feed
        try store.session.record(record())
        defer { context.progress.clear() }
        var first: String?
        let removed = try tableExpiry.remove(
            expiry, shouldStop: { context.interrupt.isTripped }
        ) { progress in
            (entry.removed, entry.refused) = (progress.rows, progress.refused)
            first = progress.firstRefused
            context.progress.show("removing rows of \(partition)", progress.rows, of: due)
        }
        if removed == nil { throw RunFailure.stopped }
        guard entry.refused > 0 else { return }
        context.log.warning(
            """
            removing rows of \(partition): \(entry.refused) of \(due) rows that are due stay marked, the \
            first is \(first ?? "not named"); correct the rows, the next sweep tries \
            them again
            """)
    }
}
