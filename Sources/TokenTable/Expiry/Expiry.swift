// Removal after a grace period (policy.delete-after). Evidence marks rows. A row is removed when
// its mark is as old as the grace period, unless its device registered since or the mark was
// removed.
//
// A mark carries the time of the evidence, not the time at which it was set: a feed replayed late
// marks rows with times long past. The ledger stores, by the database's clock, when this program
// set a mark (see RecentChanges). A row that was changed within the period is not removed. That
// includes rows that an undo restored, so that the next sweep does not remove them again at once.
//
// The table has no index over marks, because it would add a cost to every change. So the table is
// read once in the order of its key, in bounded ranges without locks (KeyRanges). The rows of a range
// that are due are locked by key, judged again, and removed by a statement that repeats
// registration and mark. Marks in the side table are read in the order of tokens, and each mark is
// removed with its rows.

import APNsProtocol
import Database
import Findings
import TokenHygiene

/// The removal of rows whose grace period has ended, for one partition.
package struct Expiry: Hashable, Sendable {
    /// The run that removes the rows, as a UUID in text.
    package let run: String
    /// The feed id of the changes in the ledger, a UUID of its own.
    package let feed: String
    /// The partition of the rows, with the names that the table uses.
    package let partition: Partition
    /// The policy with its grace period.
    package let policy: RemovalPolicy
    /// The present by the database's clock, see `databaseTime`.
    package let now: EpochMilliseconds
    /// The lease that every transaction requires to be in force; nil where there is none.
    package let lease: Lease?

    /// Makes the removal for one partition.
    package init(
        run: String, feed: String, partition: Partition, policy: RemovalPolicy,
        now: EpochMilliseconds, lease: Lease? = nil
    ) {
        self.lease = lease
        self.run = run
        self.feed = feed
        self.partition = partition
        self.policy = policy
        self.now = now
    }

    /// The source of its changes in their checkpoints.
    static let source = FeedCheckpoint.expirySource

    /// The latest time of marks whose grace period has ended.
    var cutoff: EpochMilliseconds { now.advanced(by: -(policy.deletesAfter ?? 0)) }
}

/// The progress of a removal.
package struct ExpiryProgress: Hashable {
    /// The last key or token examined.
    var position: [SQLValue] = []
    /// The number of ledger entries: rows removed, and marks of the side table.
    var changes = 0
    /// The number of rows removed, or in a dry run that would be.
    package internal(set) var rows = 0
    /// The number of rows that are due and stay, because they refuse the removal or could not be
    /// restored.
    package internal(set) var refused = 0
    /// The first of these rows, in words.
    package internal(set) var firstRefused: String?
    var isDone = false
}

/// Removes the rows of a table whose grace period has ended, app by app. The ledger entries read
/// for one app are reused for the next.
package final class TableExpiry {
    private let table: TokenTable
    private var recentChanges: RecentChanges?

    private var connection: any SQLConnection { table.connection }
    private var retries: RetryPolicy { table.retries }

    /// Makes the removal for all apps of a table.
    package init(_ table: TokenTable) { self.table = table }

    /// The number of rows that are due. Reads only and locks nothing. If the ledger has lost
    /// changes of the period, no row is due until a later time; `noticing` receives that time (see
    /// `RecentChanges`).
    ///
    /// - Throws: any failure of reading.
    package func due(
        _ expiry: Expiry, shouldStop: () -> Bool = { false },
        noticing: (EpochMilliseconds) -> Void = { _ in }
    ) throws(StoreFailure) -> Int? {
        try run(expiry, isDry: true, shouldStop: shouldStop, noticing: noticing) { _ in }
    }

    /// Removes the rows that are due, chunk by chunk, each with its before-image in the ledger.
    ///
    /// - Returns: the number of rows removed; nil if `shouldStop` ended the removal early.
    /// - Throws: any failure; committed removals stay in effect, and the next run removes the rest.
    package func remove(
        _ expiry: Expiry, shouldStop: () -> Bool = { false },
        report: (ExpiryProgress) -> Void = { _ in }
    ) throws(StoreFailure) -> Int? {
        try run(
            expiry, isDry: false, shouldStop: shouldStop, noticing: { _ in }, report)
    }

    private func run(
        _ expiry: Expiry, isDry: Bool, shouldStop: () -> Bool,
        noticing: (EpochMilliseconds) -> Void, _ report: (ExpiryProgress) -> Void
    ) throws(StoreFailure) -> Int? {
        let layout = try table.layout()
        // A dry run needs only the right to read the token table.
        if isDry, layout.mark == nil, try !table.canReadTokenMarks() { return 0 }
        let recent = try recentChanges(expiry, layout, isDry: isDry)
        if let gap = recent.gap {
            noticing(gap.advanced(by: expiry.policy.deletesAfter ?? 0))
            return 0
        }
        let isolation = RowIsolation(connection)
        var transaction = try ExpiryTransaction(
            expiry, table, keeping: recent, isDry: isDry, isolation)
        if !isDry { try begin(transaction) }
        var loop = table.session.chunkLoop(isolation)
        let progress = try loop.run(
            from: ExpiryProgress(), isDone: \.isDone, changesRows: !isDry,
            shouldStop: shouldStop, report: report
        ) { (loop, start) throws(StoreFailure) in
            if transaction.isOutdated {
                try table.renewLayout(of: .apply(expiry.policy))
                transaction = try ExpiryTransaction(
                    expiry, table, keeping: recent, isDry: isDry, isolation)
            }
            var attempted = start
            return try loop.commit(
                after: start,
                doing: "removing rows of \(layout.table) whose grace period has ended",
                checkpointOf: "feed \(expiry.feed)"
            ) { (size) throws(SQLFailure) in
                try transaction.remove(size, after: start) { attempted = $0 }
            } checkpoint: { () throws(SQLFailure) in
                isDry ? start : try transaction.committed(after: start, attempted)
            }
        }
        return progress.isDone ? progress.rows : nil
    }

    private func begin(_ transaction: ExpiryTransaction) throws(StoreFailure) {
        let (expiry, checkpoint) = (transaction.expiry, transaction.checkpoint)
        let layout = try table.layout()
        try retries.retrying("beginning feed \(expiry.feed)") { () throws(SQLFailure) in
            // The read decides, so it is part of the transaction that inserts.
            try connection.begin()
            guard try checkpoint.read(locking: false) == nil else { return connection.rollBack() }
            try checkpoint.insert(
                FeedCheckpoint.Origin(
                    run: expiry.run, partition: expiry.partition, source: Expiry.source,
                    isApplied: true), layout)
            try connection.commit()
        }
    }

    /// The changes within the period. A dry run continues without them where its account may not
    /// read them.
    private func recentChanges(
        _ expiry: Expiry, _ layout: TableLayout, isDry: Bool
    ) throws(StoreFailure) -> RecentChanges {
        var recent = RecentChanges(after: expiry.cutoff, layout, connection)
        if isDry {
            guard try table.session.canRead(PushsweepTable.commit.name, "number"),
                try table.session.canRead(PushsweepTable.feed.name, "key_columns"),
                try table.session.canRead(PushsweepTable.change.name, "run, row_key")
            else { return recent }
        }
        // Entries read for one app, or for a count, are reused.
        if let known = recentChanges, known.cutoff == recent.cutoff { recent = known }
        try retries.retrying("reading the change ledger", do: recent.refresh())
        recentChanges = recent
        return recent
    }
}
