import APNsProtocol
import Database
import EvidenceJournal
import Findings
import TokenHygiene
import TokenTable

// The last step of a sweep under `policy.delete-after`: the rows whose grace period has ended become a batch of each
// app, which is judged as any other. While one of an app is open, no other is made.

extension Sweep {
    /// Whether this plan removes rows after a grace period.
    private var endsGracePeriods: Bool {
        guard case .gateways = plan.work else { return false }
        return plan.policy.action == .delete && plan.policy.deletesAfter != nil
    }

    /// Finds the rows that are due, and judges them app by app.
    mutating func endGracePeriods(_ evidence: EvidenceRun, in folder: StateFolder) {
        guard endsGracePeriods else { return }
        do {
            let period = try evidence.gracePeriod()
            let partitions = plan.partitions.filter { plan.isAbout($0.key) }
                .sorted { "\($0.key)" < "\($1.key)" }
            for (name, stored) in partitions {
                if let end = period.stays {
                    warn(of: name, untouchedUntil: end)
                } else if try !evidence.hasOpenGrace(of: name),
                    let heard = try graceBatch(of: name, stored, period, evidence, folder)
                {
                    try judge(heard, evidence, resumed: false)
                }
            }
        } catch is CancellationError {
            // Its cause is in the outcome.
        } catch {
            outcome.fail(.wrapping(error, at: .apply))
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

    /// The batch of the rows of an app that are due; nil where there are none. They are found in the order of keys and
    /// judged in that of tokens, so they are sorted on this host's disk.
    private func graceBatch(
        of name: Partition, _ stored: Partition, _ period: GracePeriod, _ evidence: EvidenceRun,
        _ folder: StateFolder
    ) throws -> HeardBatch? {
        defer { context.progress.clear() }
        let table = EvidenceTable(in: folder)
        var found = 0
        let isWhole = try GraceSearch(period, in: stored, evidence.store).run(
            shouldStop: { context.interrupt.isTripped }
        ) { due in
            for item in due { try table.add(item.token, item.time, to: 0) }
            found += due.count
            context.progress.show("rows of \(name) that are due", found, of: nil)
        }
        guard isWhole else { throw RunFailure.stopped }
        guard found > 0, let sorted = try table.seal(groups: 1).first else { return nil }
        var batch = ReportBatch(
            id: UUIDText.random(), run: run, name, .grace, .grace, label: "policy.delete-after",
            host: context.host, opened: evidence.now)
        batch.reports = sorted.reports
        var heard = HeardBatch(batch, .sorted(sorted))
        heard.grace = period
        guard !plan.dryRun else { return heard }
        let isFilled = try evidence.store.fill(
            batch, lease: evidence.lease, shouldStop: { context.interrupt.isTripped },
            from: { sorted.reports(after: $0) })
        guard isFilled else { throw RunFailure.stopped }
        return heard
    }
}

extension EvidenceRun {
    /// The grace period of the policy now.
    func gracePeriod() throws(StoreFailure) -> GracePeriod {
        try store.gracePeriod(plan.policy, mustSee: !plan.dryRun)
    }

    /// Whether a batch of rows that were due is open for an app. What a killed run has begun to fill is not.
    fileprivate func hasOpenGrace(of name: Partition) throws -> Bool {
        // An account of a dry run may see the token table alone.
        guard !plan.dryRun || (try? batches.visibility()) == .readable else { return false }
        return try batches.all(.waiting, .applying, .held, .discarding).contains {
            $0.source == .grace && $0.partition == name
        }
    }
}
