import APNsProtocol
import Database
import Findings
import TokenHygiene

/// The judgement of one batch of reports against the rows of one partition.
package struct FeedApplication: Hashable, Sendable {
    /// The run that judges it, as a UUID in text.
    package let run: String
    /// The batch, as a UUID in text. Judging a batch that is decided changes nothing.
    package let feed: String
    /// The partition whose rows are judged, with the app by the table's value.
    package let partition: Partition
    /// The policy for stale rows.
    package let policy: RemovalPolicy
    /// The source of the evidence; stored with marks and in the ledger.
    package let source: EvidenceSource
    /// The lease that every transaction requires to be in force; nil where several runs may judge
    /// at once.
    package let lease: Lease?
    /// Whether a person released the batch. Its removals do not count as usual removals.
    package let isReleased: Bool
    /// The digests of all mappings under which the reports were or are judged.
    package let mappings: [String]
    /// When the reports were heard, by which they give way to what a person said no to.
    package let hearing: Hearing

    /// Makes the judgement of a batch; by default not released and without a lease.
    package init(
        run: String, feed: String, partition: Partition, policy: RemovalPolicy,
        source: EvidenceSource, lease: Lease? = nil, isReleased: Bool = false,
        mappings: [String] = [], hearing: Hearing
    ) {
        (self.mappings, self.hearing) = (mappings, hearing)
        self.run = run
        self.feed = feed
        self.partition = partition
        self.policy = policy
        self.source = source
        self.lease = lease
        self.isReleased = isReleased
    }
}

/// The row of `pushsweep_feed` that stores the progress of a feed. It changes in the transaction of
/// every chunk, so it shows whether a lost commit took effect. Progress is never computed from
/// numbers of affected rows over retries.
struct FeedCheckpoint {
    let feed: String
    /// The number of the part and of all parts: an undo has one for each of its partitions.
    var part = 0
    var parts = 1
    let connection: any SQLConnection

    private var dialect: SQLDialect { connection.dialect }

    /// The checkpoint as committed, or as locked for this transaction; nil before the first run.
    func read(locking: Bool) throws(SQLFailure) -> FeedProgress? {
        let rows = try connection.query(
            "SELECT last_token, \(Counts.columns.joined(separator: ", ")), rows_changed, "
                + "invalidated, rows_refused, state FROM pushsweep_feed WHERE feed = ? AND part = ?"
                + (locking ? dialect.rowLock : ""), [.text(feed), .integer(Int64(part))])
        guard rows.count > 0 else { return nil }
        try rows.require(width: 10)
        return FeedProgress(
            position: rows.token(0, 0), counts: rows.counts(0, 1),
            rowsChanged: rows[0, 6].count ?? 0, rowsInvalidated: rows[0, 7].count ?? 0,
            rowsRefused: rows[0, 8].count ?? 0, isApplied: rows[0, 9].text == "applied")
    }

    /// The state of a batch; nil where the database has none of this name.
    func state(locking: Bool) throws(SQLFailure) -> BatchState? {
        let rows = try connection.query(
            "SELECT state FROM pushsweep_feed WHERE feed = ? AND part = 0"
                + (locking ? dialect.rowLock : ""), [.text(feed)])
        return rows.scalar?.text.flatMap(BatchState.init(rawValue:))
    }

    /// Begins the judgement of a batch that waits. From here on it has the names of the table's rows.
    func begin(_ application: FeedApplication, _ layout: TableLayout) throws(SQLFailure) {
        _ = try connection.execute(
            "UPDATE pushsweep_feed SET state = ?, run = ?, app = ?, environment = ?, source = ?, "
                + "table_name = ?, key_columns = ?, released = ?, mappings = ?, last_token = NULL, "
                + "changed_at = \(dialect.now) WHERE feed = ? AND part = 0",
            [
                .text(BatchState.applying.rawValue), .text(application.run),
                .text(application.partition.app), .text(application.partition.environment),
                .text(application.source.rawValue), .text(layout.table.description),
                .text(layout.entryColumns.text), .integer(application.isReleased ? 1 : 0),
                ReportBatch.stored(application.mappings),
                .text(feed),
            ])
    }

    /// Inserts the checkpoint of an undo, which is whole from its start: its changes follow from no reports, and by it
    /// their entries can be traced to partition and table.
    func insertUndo(
        run: String, of partition: Partition, _ layout: TableLayout
    ) throws(SQLFailure) {
        _ = try connection.execute(
            "INSERT INTO pushsweep_feed (feed, part, parts, run, app, environment, source, table_name, "
                + "key_columns, state, inlet, reports) VALUES (\(placeholders(9)), 'applied', '', 0)",
            [
                .text(feed), .integer(Int64(part)), .integer(Int64(parts)), .text(run),
                .text(partition.app), .text(partition.environment), .text(LedgerEntry.undoSource),
                .text(layout.table.description), .text(layout.entryColumns.text),
            ])
    }

    /// Moves the checkpoint, inside the transaction that changes the rows.
    func update(
        _ progress: FeedProgress, run: String, _ layout: TableLayout
    ) throws(SQLFailure) {
        let columns = layout.entryColumns
        let counts = progress.counts
        _ = try connection.execute(
            "UPDATE pushsweep_feed SET run = ?, last_token = ?, applied = ?, already = ?, "
                + "newer = ?, unknown_tokens = ?, rows_changed = ?, invalidated = ?, "
                + "refused = ?, rows_refused = ?, state = ?, changed_at = \(dialect.now), "
                // A feed that began under one mapping and ends under another has entries of both.
                + "key_columns = CASE WHEN key_columns = ? THEN key_columns "
                + "ELSE '' END WHERE feed = ? AND part = ?",
            [
                .text(run), progress.position.map { .bytes($0.bytes) } ?? .null,
                .integer(Int64(counts.applied)), .integer(Int64(counts.already)),
                .integer(Int64(counts.newer)), .integer(Int64(counts.unknown)),
                .integer(Int64(progress.rowsChanged)),
                .integer(Int64(progress.rowsInvalidated)),
                .integer(Int64(counts.refused)), .integer(Int64(progress.rowsRefused)),
                .text(progress.isApplied ? "applied" : "applying"), .text(columns.text),
                .text(feed), .integer(Int64(part)),
            ])
    }
}

extension TokenTable {
    /// The progress of a feed; nil where the database has none of this name.
    package func progress(of feed: String) throws(StoreFailure) -> FeedProgress? {
        let checkpoint = FeedCheckpoint(feed: feed, connection: connection)
        return try retries.retrying(
            "reading the checkpoint of feed \(feed)", do: checkpoint.read(locking: false))
    }
}
