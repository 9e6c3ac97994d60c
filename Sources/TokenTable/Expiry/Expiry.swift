// Removal after a grace period (policy.delete-after). Evidence marks; a row is removed when it has
// stayed marked for so long, unless its device registered meanwhile or somebody took the mark away.
//
// A mark carries the time of the evidence, not the time at which it was set: a feed replayed late marks
// rows with times long past. When this program set a mark the ledger tells, by the database's clock, see
// RecentChanges: no row is removed that was changed within the period. That holds for rows an undo brought
// back too, so that the next sweep does not remove them again at once.
//
// The table has no index over marks, since each one would cost every change. So it is walked once in
// the order of its key, in bounded ranges without locks (KeyWalk); the rows of a range that are due are
// locked by key, judged again and removed with registration and mark repeated in the statement. Where
// marks are in the side table, that one is walked in the order of tokens, and the mark goes with the rows.

import APNsProtocol
import Database
import TokenHygiene

/// Removal of rows whose time is up, for one partition.
package struct Expiry: Hashable, Sendable {
    /// The run that does it.
    package let run: String
    /// The name under which the changes stand in the ledger, a UUID of its own.
    package let feed: String
    /// The rows concerned, as the table names them.
    package let partition: Partition
    /// The policy, with its grace period.
    package let policy: RemovalPolicy
    /// The present by the database's clock, see `databaseTime`.
    package let now: EpochMilliseconds
    /// The lease that every transaction has to find in force; nil where there is none.
    package let lease: Lease?

    /// States what to remove.
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

    /// What its changes follow from, as their markers name it.
    static let source = "delete-after"

    /// Marks not later than this are old enough.
    var cutoff: EpochMilliseconds { now.advanced(by: -(policy.deletesAfter ?? 0)) }
}

/// How far a removal is.
struct ExpiryProgress: Hashable {
    /// The key or token up to which everything was looked at.
    var position: [SQLValue] = []
    /// Entries in the ledger: rows removed, and marks of the side table.
    var changes = 0
    /// Rows removed, or that would be.
    var rows = 0
    /// Rows that are due and stay: they refuse to be removed, or could not be brought back.
    var refused = 0
    /// The first of them.
    var firstRefused: RefusedChange?
    var isDone = false
}

/// Removes the rows of a table whose time is up, app by app. What it has read of the ledger for one app serves
/// the next.
package final class TableExpiry {
    private let table: TokenTable
    private var recentChanges: RecentChanges?

    private var connection: any SQLConnection { table.connection }
    private var retries: RetryPolicy { table.retries }
    private var pacing: Pacing { table.pacing }

    /// Removes rows of a table.
    package init(_ table: TokenTable) { self.table = table }

    /// How many rows are due. Reads only and locks nothing. `noticing` hears until when nothing is due
    /// because the ledger has lost changes of the period, see `RecentChanges`.
    ///
    /// - Throws: any failure of reading.
    package func due(
        _ expiry: Expiry, shouldStop: () -> Bool = { false },
        noticing: (EpochMilliseconds) -> Void = { _ in }
    ) throws(StoreFailure) -> Int? {
        try walk(expiry, isDry: true, shouldStop, noticing) { (_: ExpiryProgress) in }
    }

    /// Removes the rows that are due, chunk by chunk, each with its before-image in the ledger.
    ///
    /// `refusing` is told how many rows are due and stay, because they refuse to be removed or could not
    /// be brought back, and the first of them.
    ///
    /// - Returns: how many were removed; nil if `shouldStop` ended it before the end.
    /// - Throws: any failure; what is committed stands, and the next run removes the rest.
    package func remove(
        _ expiry: Expiry, shouldStop: () -> Bool = { false },
        refusing: (Int, RefusedChange?) -> Void = { _, _ in }, report: (Int) -> Void = { _ in }
    ) throws(StoreFailure) -> Int? {
        try walk(expiry, isDry: false, shouldStop, { _ in }) { progress in
            refusing(progress.refused, progress.firstRefused)
            report(progress.rows)
        }
    }

    private func walk(
        _ expiry: Expiry, isDry: Bool, _ shouldStop: () -> Bool,
        _ noticing: (EpochMilliseconds) -> Void, _ report: (ExpiryProgress) -> Void
    ) throws(StoreFailure) -> Int? {
        let layout = try table.layout()
        // A dry run gets by with the right to read the token table.
        if isDry, layout.mark == nil, try !table.hasSideMarks() { return 0 }
        let recent = try recentChanges(expiry, layout, isDry: isDry)
        if let gap = recent.gap {
            noticing(gap.advanced(by: expiry.policy.deletesAfter ?? 0))
            return 0
        }
        let isolation = RowIsolation()
        let transaction = try ExpiryTransaction(
            expiry, layout, connection, recent,
            KeyWalk(layout, table.catalogTable(), connection.dialect), isolation, isDry: isDry)
        if !isDry { try begin(expiry, layout) }
        var loop = ChunkLoop(connection, pacing, isolation)
        var progress = ExpiryProgress()
        while !progress.isDone {
            guard !shouldStop(), try table.session.waitForThrottle(shouldStop: shouldStop) else {
                return nil
            }
            let start = progress
            var attempted = start
            progress = try loop.commit(
                after: start, doing: "removing rows of \(layout.table) whose time is up",
                markerOf: "feed \(expiry.feed)"
            ) { (size) throws(SQLFailure) in
                try transaction.remove(size, after: start) { attempted = $0 }
            } marker: { () throws(SQLFailure) in
                guard !isDry else { return start }
                let committed = try transaction.marker.read(connection, locking: false)
                return committed?.rowsChanged == start.changes ? start : attempted
            }
            report(progress)
            if !progress.isDone && !isDry { loop.letOthersWrite() }
        }
        return progress.rows
    }

    private func begin(_ expiry: Expiry, _ layout: TableLayout) throws(StoreFailure) {
        let marker = FeedMarker(feed: expiry.feed, part: .whole, dialect: connection.dialect)
        try retries.retrying("beginning feed \(expiry.feed)") { () throws(SQLFailure) in
            if try marker.read(connection, locking: false) != nil { return }
            try FeedMarker.insert(
                feed: expiry.feed, run: expiry.run, source: Expiry.source,
                about: [expiry.partition], layout, connection)
        }
    }

    /// What was changed within the period. A dry run whose account may not see it goes without.
    private func recentChanges(
        _ expiry: Expiry, _ layout: TableLayout, isDry: Bool
    ) throws(StoreFailure) -> RecentChanges {
        let catalog = Catalog(connection: connection)
        let (ledger, markers) = try retries.retrying("reading the layout of the ledger") {
            () throws(SQLFailure) in
            (
                try catalog.table(TableName(name: PushsweepTable.change.name)),
                try catalog.table(TableName(name: PushsweepTable.feed.name))
            )
        }
        var recent = RecentChanges(
            after: expiry.cutoff, layout, connection.dialect,
            hasTimes: ledger?.column("changed_at") != nil,
            hasKeys: markers?.column("key_columns") != nil)
        if isDry {
            guard try table.session.canRead("pushsweep_run", "id, started, ended"),
                try table.session.canRead("pushsweep_feed", "run, rows_changed, changed_at"),
                try table.session.canRead("pushsweep_change", "run, row_key")
            else { return recent }
        }
        // What was read for one app, or to count, serves the next as well.
        if let known = recentChanges, known.cutoff == recent.cutoff { recent = known }
        try retries.retrying("reading the change ledger") { () throws(SQLFailure) in
            try recent.refresh(connection, withUndos: true)
        }
        recentChanges = recent
        return recent
    }
}
