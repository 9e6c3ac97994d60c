// The end of a grace period (`policy.delete-after`). Evidence marks rows; a row goes when its mark is as old as the
// period, unless its device registered since or the mark was removed. Such rows are found by a search and are reports
// like any other: a batch of the source `grace`, whose reports have the time of the mark. So the guard judges it, a
// person sees, releases and discards it, the ledger has each row that goes, and an undo brings it back.
//
//   marked rows --search--> sorted on this host --> batch, filling --> waiting --> judged as any other
//
// A mark carries the time of the evidence, not the time at which it was set: a list replayed late marks rows with times
// long past. The ledger stores, by the database's clock, when this program set a mark (see `RecentChanges`). A row that
// was changed within the period stays, also one that an undo brought back.
//
// A chunk looks at all of this again, with its rows locked: a row goes whose mark is not later than that of the report,
// that is stale and surely older, and was not changed within the period. Any other report is `newer`. Several rows of one
// token may have different marks; the report has the latest, and what a person refused is asked for each mark. A mark
// beside the table goes with the last row of its token.

import APNsProtocol
import Database
import Encodings
import Findings
import TokenHygiene

/// The grace period of a policy at a moment, as the ledger of the table shows it.
package final class GracePeriod {
    /// The policy with its period.
    let policy: RemovalPolicy
    /// The present by the database's clock.
    let now: EpochMilliseconds
    private let recent: RecentChanges

    /// The latest time of marks whose period has ended.
    var cutoff: EpochMilliseconds { recent.cutoff }

    /// When rows may go again; nil: now. The ledger has lost changes of the period, so of no row it is known when it was
    /// marked.
    package var stays: EpochMilliseconds? {
        recent.gap.map { $0.advanced(by: policy.deletesAfter ?? 0) }
    }

    fileprivate init(
        _ policy: RemovalPolicy, at now: EpochMilliseconds, _ recent: RecentChanges
    ) {
        (self.policy, self.now, self.recent) = (policy, now, recent)
    }

    /// Reads what was changed since the last look. Senders go on meanwhile, so a chunk does so with its rows locked.
    func refresh() throws(SQLFailure) { try recent.refresh() }

    /// Whether a row goes by a report of a time. `mark` names its mark beside the table; nil without one.
    func isDue(
        _ row: RegisteredToken, _ time: EpochMilliseconds, _ name: ExactText, mark: ExactText?
    ) -> Bool {
        guard recent.gap == nil, let marked = row.invalidatedAt, marked <= time,
            policy.isDue(row, at: now)
        else { return false }
        return !recent.contains(name) && mark.map(recent.contains) != true
    }
}

extension TokenTable {
    /// The grace period of a policy now. An account of a dry run that may not read the ledger goes on without it, unless
    /// it `mustSee` it.
    ///
    /// - Throws: any failure of reading.
    package func gracePeriod(
        _ policy: RemovalPolicy, at moment: EpochMilliseconds? = nil, mustSee: Bool
    ) throws(StoreFailure) -> GracePeriod {
        let now = if let moment { moment } else { try session.databaseTime() }
        let recent = RecentChanges(
            after: now.advanced(by: -(policy.deletesAfter ?? 0)), try layout(), connection)
        let isSeen = mustSee ? true : try seesLedger()
        if isSeen {
            try retries.retrying("reading the change ledger", do: recent.refresh())
        }
        return GracePeriod(policy, at: now, recent)
    }

    private func seesLedger() throws(StoreFailure) -> Bool {
        guard try session.canRead(PushsweepTable.commit.name, "number"),
            try session.canRead(PushsweepTable.part.name, "key_columns")
        else { return false }
        return try session.canRead(PushsweepTable.change.name, "part, row_key")
    }
}
