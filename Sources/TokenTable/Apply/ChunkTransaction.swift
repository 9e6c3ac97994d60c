import APNsProtocol
import Database
import TokenHygiene

/// Applies one chunk of evidence in one transaction (see `ChangeSet`). Rows that refuse the change
/// get ledger entries too.
struct ChunkTransaction {
    let application: FeedApplication
    let layout: TableLayout
    let checkpoint: FeedCheckpoint
    private let transaction: ChangeTransaction
    private let ledger: ChangeLedger
    private let tokenMarks: InvalidTokenTable

    private var lookup: RowLookup { transaction.lookup }

    /// Prepares the transactions of one application. `isolation` is shared with the loop that tries
    /// them.
    init(
        _ application: FeedApplication, _ table: TokenTable, _ isolation: RowIsolation
    ) throws(StoreFailure) {
        self.application = application
        layout = try table.layout()
        let connection = table.connection
        checkpoint = FeedCheckpoint(
            feed: application.feed, part: application.part, connection: connection)
        let lookup = try RowLookup(
            layout, connection, application.partition,
            wholeRows: application.policy.deletesAtOnce)
        transaction = ChangeTransaction(
            lookup: lookup,
            writer: ChangeWriter(lookup, isolation, marksFrom: application.source),
            isolation: isolation, lease: application.lease)
        ledger = ChangeLedger(
            run: application.run, feed: application.feed, part: application.part.index,
            source: application.source.rawValue, lookup: lookup)
        tokenMarks = InvalidTokenTable(partition: application.partition, connection: connection)
    }

    /// Applies a chunk that follows `progress`, and commits. `isLast` marks the feed as applied.
    /// Stops without a change where the rows have more than `mostBytes` bytes.
    ///
    /// - Throws: a conflict if the checkpoint has another position, because another run applies the
    ///   same feed; `leaseLost` if another run has taken the lease; `refused` where a row is
    ///   refused, and the chunk has to be tried again as `isolation` requires.
    func apply(
        _ chunk: ArraySlice<TokenEvidence>, isLast: Bool, after progress: FeedProgress,
        mostBytes: Int
    ) throws(SQLFailure) -> ChunkOutcome<FeedProgress> {
        try transaction.begin { () throws(SQLFailure) in
            try checkpoint.read(locking: true) == progress
        }
        let found = try lookup.rows(for: chunk, locking: true, mostBytes: mostBytes)
        guard !found.isCutShort else {
            transaction.connection.rollBack()
            return .tooLarge(entries: chunk.count, rows: found.rows.count)
        }
        let marks =
            layout.mark == nil
            ? try tokenMarks.marks(of: found.rows, in: chunk, locking: true) : [:]
        let terms = ClassifiedChunk.Terms(
            layout: layout, policy: application.policy, source: application.source)
        var classified = ClassifiedChunk(chunk, found.rows, marks: marks, by: terms) {
            lookup.isExact($0.values)
        }
        classified.refuse(at: try transaction.writer.write(classified.changes.rows))
        let changes = classified.changes
        try ledger.write(changes, from: progress.rowsChanged)
        try ledger.writeRefused(changes.refused, after: progress.rowsRefused)
        var next = progress
        next.position = chunk.last?.token ?? progress.position
        next.counts += classified.counts
        next.rowsChanged += changes.count
        next.rowsInvalidated += classified.invalidated
        next.rowsRefused += changes.refused.count
        next.isApplied = isLast
        let written = LedgerRange(
            run: application.run, feed: application.feed, part: application.part.index,
            partition: application.partition, source: application.source.rawValue,
            first: progress.rowsChanged, count: changes.count)
        let commit = ChangeTransaction.Commit(
            entries: chunk.count, written: [written], next: next)
        try transaction.commit(changes, commit) { () throws(SQLFailure) in
            try tokenMarks.write(changes.tokenMarks)
            try checkpoint.update(next, run: application.run, layout)
        }
        return .committed(next, entries: chunk.count, bytes: found.bytes)
    }
}
