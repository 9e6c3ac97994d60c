import APNsProtocol
import Database
import Findings
import TokenHygiene

/// The judgement of one batch of reports against the rows of one partition.
package struct BatchApplication: Hashable, Sendable {
    /// The run that judges it, as a UUID in text.
    package let run: String
    /// The batch, as a UUID in text. Judging a batch that is decided changes nothing.
    package let batch: String
    /// The partition whose rows are judged, with the app by the table's value.
    package let partition: Partition
    /// The policy for stale rows.
    package let policy: RemovalPolicy
    /// The source of the evidence; stored with marks and in the ledger.
    package let source: EvidenceSource
    /// The lease that every transaction requires to be in force; nil where several runs may judge
    /// at once.
    package let lease: Lease?
    /// The digest of the mapping under which the reports are judged; nil where it is not known.
    package let mapping: String?
    /// When the reports were heard, by which they give way to what a person said no to.
    package let hearing: Hearing
    /// Whether the reports are not in the database: each chunk stores those that it decides. The batch is in `filling`
    /// until the last one.
    package let storesReports: Bool

    /// Makes the judgement of a batch, by default without a lease.
    package init(
        run: String, batch: String, partition: Partition, policy: RemovalPolicy,
        source: EvidenceSource, lease: Lease? = nil, mapping: String? = nil, hearing: Hearing,
        storesReports: Bool = false
    ) {
        (self.mapping, self.hearing, self.storesReports) = (mapping, hearing, storesReports)
        self.run = run
        self.batch = batch
        self.partition = partition
        self.policy = policy
        self.source = source
        self.lease = lease
    }
}

/// The row of a batch as its progress. It changes in the transaction of
/// every chunk, so it shows whether a lost commit took effect. Progress is never computed from
/// numbers of affected rows over retries.
struct BatchCheckpoint {
    /// The name of the batch.
    let batch: String
    let connection: any SQLConnection

    private var dialect: SQLDialect { connection.dialect }

    /// The checkpoint as committed, or as locked for this transaction; nil before the first run.
    func read(locking: Bool) throws(SQLFailure) -> BatchProgress? {
        let rows = try connection.query(
            "SELECT last_token, \(Counts.columns.joined(separator: ", ")), \(ReportBatch.rowsChanged), "
                + "invalidated, \(ReportBatch.rowsRefused), state FROM pushsweep_batch WHERE name = ?"
                + (locking ? dialect.rowLock : ""), [.text(batch)])
        guard rows.count > 0 else { return nil }
        try rows.require(width: 10)
        return BatchProgress(
            position: rows.token(0, 0), counts: rows.counts(0, 1),
            rowsChanged: rows[0, 6].count ?? 0, rowsInvalidated: rows[0, 7].count ?? 0,
            rowsRefused: rows[0, 8].count ?? 0, isApplied: rows[0, 9].text == "applied")
    }

    /// The state of a batch; nil where the database has none of this name.
    func state(locking: Bool) throws(SQLFailure) -> BatchState? {
        let rows = try connection.query(
            "SELECT state FROM pushsweep_batch WHERE name = ?"
                + (locking ? dialect.rowLock : ""), [.text(batch)])
        return rows.scalar?.text.flatMap(BatchState.init(rawValue:))
    }

    /// Begins the judgement of a batch that waits, or whose reports are stored as they are decided. From here on it has the
    /// names of the table's rows.
    func begin(_ application: BatchApplication) throws(SQLFailure) {
        _ = try connection.execute(
            "UPDATE pushsweep_batch SET state = ?, run = ?, app = ?, environment = ?, source = ?, "
                + (application.storesReports ? "" : "last_token = NULL, ")
                + "changed_at = \(dialect.now) WHERE name = ?",
            [
                .text(Self.state(application, false).rawValue), .text(application.run),
                .text(application.partition.app), .text(application.partition.environment),
                .text(application.source.rawValue), .text(batch),
            ])
    }

    private static func state(_ application: BatchApplication, _ isApplied: Bool) -> BatchState {
        isApplied ? .applied : application.storesReports ? .filling : .applying
    }

    /// Moves the checkpoint, inside the transaction that changes the rows. Of the part that changed any it takes in what
    /// they are more than before.
    func update(
        _ progress: BatchProgress, _ application: BatchApplication,
        _ part: (LedgerPart, before: BatchProgress)? = nil
    ) throws(SQLFailure) {
        let counts = progress.counts
        _ = try connection.execute(
            "UPDATE pushsweep_batch SET run = ?, last_token = ?, applied = ?, already = ?, "
                + "newer = ?, unknown_tokens = ?, invalidated = ?, refused = ?, state = ?, "
                + (application.storesReports ? "reports = \(counts.total), " : "")
                + "changed_at = \(dialect.now) WHERE name = ?",
            [
                .text(application.run), progress.position.map { .bytes($0.bytes) } ?? .null,
                .integer(Int64(counts.applied)), .integer(Int64(counts.already)),
                .integer(Int64(counts.newer)), .integer(Int64(counts.unknown)),
                .integer(Int64(progress.rowsInvalidated)), .integer(Int64(counts.refused)),
                .text(Self.state(application, progress.isApplied).rawValue), .text(batch),
            ])
        guard let (part, before) = part else { return }
        let more = (
            progress.rowsChanged - before.rowsChanged, progress.rowsRefused - before.rowsRefused
        )
        guard more != (0, 0) else { return }
        _ = try connection.execute(
            "UPDATE pushsweep_part SET rows_changed = rows_changed + ?, rows_refused = rows_refused + ? "
                + "WHERE number = ?",
            [.integer(Int64(more.0)), .integer(Int64(more.1)), part.value])
    }
}

extension TokenTable {
    /// The progress of a batch; nil where the database has none of this name.
    package func progress(of batch: String) throws(StoreFailure) -> BatchProgress? {
        let checkpoint = BatchCheckpoint(batch: batch, connection: connection)
        return try retries.retrying(
            "reading the checkpoint of batch \(batch)", do: checkpoint.read(locking: false))
    }
}
