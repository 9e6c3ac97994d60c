import APNsProtocol
import Database
import TokenHygiene

/// One chunk of evidence, applied in one transaction. The transaction reads the marker, locks,
/// judges and changes the rows, writes the ledger, moves the marker, and checks that the lease
/// still belongs to this run. It does all of this or nothing. Rows that refuse the change get
/// ledger entries too.
struct ChunkTransaction {
    let application: FeedApplication
    let layout: TableLayout
    let connection: any SQLConnection
    let marker: FeedMarker
    let lookup: RowLookup
    let writer: ChangeWriter
    let ledger: ChangeLedger
    let sideMarks: SideMarks
    let isolation: RowIsolation

    /// Prepares the transactions of one application. `isolation` is shared with the loop that tries
    /// them.
    init(
        _ application: FeedApplication, _ layout: TableLayout, _ connection: any SQLConnection,
        _ isolation: RowIsolation
    ) throws(StoreFailure) {
        let dialect = connection.dialect
        self.application = application
        self.layout = layout
        self.connection = connection
        self.isolation = isolation
        marker = FeedMarker(feed: application.feed, part: application.part, dialect: dialect)
        lookup = try RowLookup(
            layout, dialect, application.partition,
            wholeRows: application.policy.deletesAtOnce)
        ledger = ChangeLedger(application: application, lookup: lookup, dialect: dialect)
        sideMarks = SideMarks(
            partition: application.partition, source: application.source, dialect: dialect)
        writer = ChangeWriter(
            statements: ChangeStatements(
                layout: layout, lookup: lookup, dialect: dialect, source: application.source),
            layout: layout, isolation: isolation)
    }

    /// Applies a chunk that follows `progress`, and commits. `isLast` marks the feed as applied.
    /// Stops without a change where the rows have more than `mostBytes` bytes.
    ///
    /// - Throws: a conflict if the marker has another position, because another run applies the
    ///   same feed; `leaseLost` if another run has taken the lease; `refused` where a row is
    ///   refused, and the chunk has to be tried again as `isolation` requires.
    func apply(
        _ chunk: ArraySlice<TokenEvidence>, isLast: Bool, after progress: FeedProgress,
        mostBytes: Int
    ) throws(SQLFailure) -> ChunkOutcome<FeedProgress> {
        try connection.begin()
        guard try marker.read(connection, locking: true) == progress else {
            throw SQLFailure(
                kind: .conflict, code: 0, message: "the feed's marker was moved by another run")
        }
        let found = try lookup.rows(
            for: chunk, connection, locking: true, mostBytes: mostBytes)
        guard !found.isCutShort else {
            connection.rollBack()
            return .tooLarge(entries: chunk.count, rows: found.rows.count)
        }
        let rows = found.rows
        var marks: [DeviceToken: SideMarkState] = [:]
        if layout.mark == nil && !rows.isEmpty {
            let tokens = Set(rows.map(\.evidence)).map { chunk[$0].token }.sorted()
            marks = try sideMarks.states(on: tokens, connection, locking: true)
        }
        var judgement = ChunkJudgement(
            chunk, rows, marks: marks, layout, application.policy
        ) { lookup.isExact($0.values, connection) }
        judgement.take(out: try writer.write(judgement.changes, connection))
        try sideMarks.write(judgement.sideMarks, connection)
        try enter(judgement, after: progress)
        var next = progress
        next.position = chunk.last?.token ?? progress.position
        next.counts += judgement.counts
        next.rowsChanged += judgement.rowsChanged
        next.rowsInvalidated += judgement.invalidated
        next.rowsRefused += judgement.refused.count
        next.isApplied = isLast
        try marker.update(next, run: application.run, layout, connection)
        try application.lease?.hold(connection)
        try commit(judgement.changes, entries: chunk.count)
        return .committed(next, entries: chunk.count, bytes: found.bytes)
    }

    /// Writes the ledger. Entries are made one by one, because a before-image in JSON is larger
    /// than its row.
    private func enter(
        _ judgement: ChunkJudgement, after progress: FeedProgress
    ) throws(SQLFailure) {
        try ledger.write(
            judgement.changes.lazy.map(ledger.entry), from: progress.rowsChanged, connection)
        try ledger.write(
            judgement.sideMarks.lazy.map(ledger.entry),
            from: progress.rowsChanged + judgement.changes.count, connection)
        try ledger.writeRefused(judgement.refused, after: progress.rowsRefused, connection)
    }

    /// Commits. If only the commit is refused, the failure does not name the row at fault.
    private func commit(_ changes: [RowChange], entries: Int) throws(SQLFailure) {
        do {
            try connection.commit()
        } catch {
            isolation.noteCommit(
                error, entries: entries, rows: changes.map(writer.statements.name))
            throw error
        }
    }
}
