import APNsProtocol
import Database
import Findings
import TokenHygiene

// Marks lock late: rows are judged as the forecast has read them (see `ReadRows`). On a Galera cluster those behind the
// last row kept are read without a lock, too. It certifies commits instead of waiting for locks: a registration from
// another node ends the whole chunk that holds the lock of its row, so locks have to be short there.
//
//   lock the checkpoint and compare it -> judge rows as they were read -> ledger
//   -> mark the rows that are still so -> read the notes of what persons refused -> decide the reports
//   -> move the checkpoint -> number, lease, commit
//
// The statement that marks repeats all that verdict and image follow from, row by row: key, token,
// registration, mark and reason, and the partition. It does not find a row that changed in between. Then
// the chunk is rolled back, and the next try locks its rows when it reads them, so that they stay as they were judged
// (see `ChangeSet`). So does every chunk with other changes than marks, and every one with a row that was refused.

/// Applies one chunk of a batch in one transaction. Rows that refuse the change get ledger entries too.
struct ChunkTransaction {
    let application: BatchApplication
    let layout: TableLayout
    let checkpoint: BatchCheckpoint
    private let transaction: ChangeTransaction
    /// The part of the run, under which the ledger has the changes; the application's `begin` tells it.
    var part: LedgerPart
    /// The number of the batch; the application's `begin` tells it.
    var batch: Int64 = 0
    private let tokenMarks: InvalidTokenTable
    private let lateWriter: ChangeWriter
    private let notes: SparedTokens
    private let grace: GracePeriod?
    private let known: ReadRows?

    private var lookup: RowLookup { transaction.lookup }
    private var ledger: ChangeLedger {
        ChangeLedger(part: part, source: application.source.rawValue, lookup: lookup)
    }

    /// Prepares the transactions of one application. `isolation` is shared with the loop that tries
    /// them.
    init(
        _ application: BatchApplication, _ table: TokenTable, _ isolation: RowIsolation,
        _ grace: GracePeriod?, _ known: ReadRows?
    ) throws(StoreFailure) {
        (self.application, self.grace, self.known) = (application, grace, known)
        layout = try table.layout()
        let connection = table.connection
        notes = SparedTokens(connection: connection)
        checkpoint = BatchCheckpoint(batch: application.batch, connection: connection)
        let lookup = try RowLookup(
            layout, connection, application.partition,
            wholeRows: application.policy.deletesAtOnce || grace != nil,
            changesRows: TableUse.apply(application.policy).changesRows(of: layout))
        transaction = ChangeTransaction(
            lookup: lookup,
            writer: grace == nil
                ? ChangeWriter(lookup, isolation, marksFrom: application.source)
                : ChangeWriter(repeatingMarks: lookup, isolation),
            isolation: isolation, lease: application.lease)
        lateWriter = ChangeWriter(unlocked: lookup, isolation, marksFrom: application.source)
        part = LedgerPart(run: application.run, number: 0)
        tokenMarks = InvalidTokenTable(partition: application.partition, connection: connection)
    }

    /// Applies a chunk that follows `progress`, and commits. `isLast` marks the batch as applied.
    /// Stops without a change where the rows have more than `mostBytes` bytes.
    ///
    /// - Throws: a conflict if the checkpoint has another position, because another run applies the
    ///   same batch; `leaseLost` if another run has taken the lease; `refused` where a row is
    ///   refused, and the chunk has to be tried again as `isolation` requires.
    func commit(
        _ chunk: ArraySlice<TokenEvidence>, isLast: Bool, after progress: BatchProgress,
        mostBytes: Int
    ) throws(SQLFailure) -> ChunkOutcome<BatchProgress> {
        try transaction.begin { () throws(SQLFailure) in
            try checkpoint.read(locking: true) == progress
        }
        if mayLockLate, let read = try unlocked(chunk, mostBytes: mostBytes) {
            let judged = try judged(chunk, read)
            if areMarks(judged.changes) {
                return try write(
                    judged, of: chunk, isLast: isLast, after: progress, bytes: read.rows.bytes
                ) { () throws(SQLFailure) in
                    _ = try lateWriter.write(judged.changes.rows)
                    try ensureUnspared(judged, of: chunk)
                    try tokenMarks.add(judged.changes.allTokenMarks, transaction.isolation)
                }
            }
        }
        let found = try lookup.rows(for: chunk, locking: true, mostBytes: mostBytes)
        guard !found.isCutShort else {
            return .tooLarge(entries: chunk.count, rows: found.rows.count)
        }
        var classified = try judged(chunk, read(found, chunk, locking: true))
        if try transaction.isOutdated(by: classified.changes.rows) {
            lookup.connection.rollBack()
            return .committed(progress, entries: 0, bytes: 0)
        }
        classified.refuse(at: try transaction.writer.write(classified.changes.rows))
        return try write(
            classified, of: chunk, isLast: isLast, after: progress, bytes: found.bytes
        ) { () throws(SQLFailure) in try tokenMarks.write(classified.changes.allTokenMarks) }
    }

    /// Whether the last chunk was left alone, because the table has other columns than the layout.
    var isOutdated: Bool { transaction.isOutdated }

    /// Whether rows need not be locked when they are read.
    private var mayLockLate: Bool {
        // MySQL compares a list of rows wrongly there (see `ChangeStatements`).
        (lookup.mark != nil || lookup.living != nil) && !layout.isPartitioned
            && !application.policy.deletesAtOnce && grace == nil
            && transaction.isolation.isUntroubled
    }

    /// Whether the changes do nothing but mark rows, beside which no mark stood before.
    private func areMarks(_ changes: ChangeSet) -> Bool {
        changes.refused.isEmpty && changes.tokenMarks.isEmpty
            && changes.rows.allSatisfy { $0.verdict != .delete && $0.beside?.former == nil }
    }

    /// What is known of a chunk's rows without a lock on them; nil where it has to be read with one.
    private func unlocked(
        _ chunk: ArraySlice<TokenEvidence>, mostBytes: Int
    ) throws(SQLFailure) -> ReadRows.Known? {
        if let known = known?.known(of: chunk, lookup.columns) { return known }
        guard lookup.connection.certifiesCommits else { return nil }
        let found = try lookup.rows(for: chunk, locking: false, mostBytes: mostBytes)
        return found.isCutShort ? nil : try read(found, chunk, locking: false)
    }

    /// The rows with the marks beside them, and what persons refused.
    private func read(
        _ found: FoundRows<[MatchedRow]>, _ chunk: ArraySlice<TokenEvidence>, locking: Bool
    ) throws(SQLFailure) -> ReadRows.Known {
        ReadRows.Known(
            rows: found,
            marks: layout.mark == nil
                ? try tokenMarks.marks(of: found.rows, in: chunk, locking: locking) : [:],
            notes: try notes.notes(on: chunk, of: found.rows.lazy.map(\.evidence)))
    }

    private func judged(
        _ chunk: ArraySlice<TokenEvidence>, _ read: ReadRows.Known
    ) throws(SQLFailure) -> ClassifiedChunk {
        var terms = ClassifiedChunk.Terms(
            layout: layout, policy: application.policy, source: application.source)
        (terms.hearing, terms.grace) = (application.hearing, grace)
        (terms.lookup, terms.spared) = (lookup, read.notes)
        try grace?.refresh()
        return ClassifiedChunk(chunk, read.rows.rows, marks: read.marks, by: terms) {
            lookup.isExact($0.values)
        }
    }

    /// Requires that nobody said no to a change since its row was read without a lock.
    ///
    /// - Throws: a conflict where somebody did; the next try reads his note.
    private func ensureUnspared(
        _ judged: ClassifiedChunk, of chunk: ArraySlice<TokenEvidence>
    ) throws(SQLFailure) {
        let notes = try notes.notes(on: chunk, of: judged.changes.rows.lazy.map(\.row.evidence))
        for change in judged.changes.rows {
            guard let note = notes[chunk[change.row.evidence].token],
                note.spares(change.time, heard: application.hearing)
            else { continue }
            transaction.isolation.noteStale()
            throw SQLFailure(
                kind: .conflict, code: 0,
                message: "a person undid or discarded what a chunk was about to apply")
        }
    }

    /// Removes the notes of tokens whose rows are dead now at the word of a person.
    private func forgetAsked(
        _ changes: ChangeSet, of chunk: ArraySlice<TokenEvidence>, _ noted: Set<DeviceToken>
    ) throws(SQLFailure) {
        guard case .asked(let asked) = application.hearing, !noted.isEmpty else { return }
        let dead = Set(changes.rows.map { chunk[$0.row.evidence].token })
            .union(changes.tokenMarks.map(\.token)).intersection(noted)
        // A note of whole seconds reaches to their end.
        let evidence = chunk.filter { dead.contains($0.token) }.map {
            ($0.token, layout.end(of: $0.time))
        }
        try SparingNotes(connection: lookup.connection, run: application.run)
            .remove(Dictionary(evidence) { max($0, $1) }, askedFor: asked)
    }

    /// Writes the ledger, makes the changes that are left to `changing`, moves the checkpoint and
    /// commits.
    private func write(
        _ classified: ClassifiedChunk, of chunk: ArraySlice<TokenEvidence>, isLast: Bool,
        after progress: BatchProgress, bytes: Int, changing: () throws(SQLFailure) -> Void
    ) throws(SQLFailure) -> ChunkOutcome<BatchProgress> {
        let changes = classified.changes
        try ledger.write(changes, from: progress.rowsChanged)
        try ledger.writeRefused(changes.refused, after: progress.rowsRefused)
        var next = progress
        next.position = chunk.last?.token ?? progress.position
        next.counts += classified.counts
        next.rowsChanged += changes.count
        // Rows whose grace period has ended were invalid before.
        next.rowsInvalidated += grace == nil ? classified.invalidated : 0
        next.rowsRefused += changes.refused.count
        next.isApplied = isLast
        let written = LedgerRange(
            part, partition: application.partition, source: application.source.rawValue,
            first: progress.rowsChanged, count: changes.count)
        try transaction.commit([written], entries: chunk.count) {
            transaction.names(changes)
        } moving: { () throws(SQLFailure) in
            try changing()
            try forgetAsked(changes, of: chunk, classified.noted)
            let decisions = ReportDecisions(batch: batch, connection: lookup.connection)
            try application.storesReports
                ? decisions.insert(chunk, classified) : decisions.write(chunk, classified)
            try checkpoint.update(next, application, (part, before: progress))
        }
        return .committed(next, entries: chunk.count, bytes: bytes)
    }
}
