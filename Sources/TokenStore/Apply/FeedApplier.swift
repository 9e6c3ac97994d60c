import APNsProtocol
import TokenHygiene

// Applies a feed chunk by chunk. States, as the database sees them:
//
//   no marker --insert--> applying, no position --chunk--> applying, position --last--> applied
//
// Whatever goes wrong inside a chunk, what follows is the same: give the transaction up, connect
// anew if need be, read the marker, drop the evidence it already covers, and go on from there. So a
// commit whose answer was lost needs no special case (the marker tells), a crash needs none either
// (the next run does the same), and two runs on one feed divide it between them instead of
// counting it twice.

/// Applies one feed.
struct FeedApplier {
    let application: FeedApplication
    let transaction: ChunkTransaction
    let connection: any SQLConnection
    let layout: TableLayout
    let pacing: StorePacing
    private let gate: ThrottleGate
    private let attempts: Attempts

    private var sizing: ChunkSizing
    private var waiting: [TokenEvidence] = []
    private var isEnded = false
    /// Milliseconds the last committed chunk took.
    private var lastTransaction = 0.0

    init(
        _ application: FeedApplication, _ layout: TableLayout, _ connection: any SQLConnection,
        _ pacing: StorePacing, _ gate: ThrottleGate
    ) throws(StoreFailure) {
        self.application = application
        self.layout = layout
        self.connection = connection
        self.pacing = pacing
        self.gate = gate
        sizing = ChunkSizing(first: pacing.firstChunk)
        attempts = Attempts(connection: connection, pacing: pacing)
        transaction = try ChunkTransaction(application, layout, connection)
    }

    /// Applies the evidence after the feed's marker, until it ends or `shouldStop` says so after a
    /// chunk; pauses between chunks as the throttle says.
    mutating func run(
        _ evidence: inout some EvidenceStream, shouldStop: () -> Bool,
        report: (FeedProgress) -> Void
    ) throws(StoreFailure) -> FeedProgress {
        var progress = try start()
        while !progress.isApplied && !shouldStop() {
            guard try gate.pass(shouldStop: shouldStop) else { break }
            try fill(from: &evidence, after: progress.position)
            progress = try applyChunk(after: progress)
            report(progress)
            if !progress.isApplied { letOthersWrite() }
        }
        return progress
    }

    /// Leaves a gap as long as a writer that has waited for the last chunk sleeps before it asks
    /// again: SQLite's busy handler by then sleeps about half of what it has slept already.
    private func letOthersWrite() {
        guard connection.dialect.writersPoll else { return }
        let pause = Int(min(lastTransaction / 2, 50))
        if pause > 0 { pacing.sleep(pause) }
    }

    private func start() throws(StoreFailure) -> FeedProgress {
        try attempts.retrying("starting to apply feed \(application.feed)") {
            () throws(SQLFailure) in
            let marker = transaction.marker
            if let known = try marker.read(connection, locking: false) { return known }
            do throws(SQLFailure) {
                try marker.insert(application, table: layout.table, connection)
            } catch {
                guard error.isDuplicate else { throw error }
                throw SQLFailure(
                    kind: .conflict, code: error.code, message: "another run began the feed")
            }
            return FeedProgress()
        }
    }

    /// Reads ahead by more than a chunk, so that the last chunk is known to be the last and the
    /// feed is called applied in its transaction.
    private mutating func fill(
        from evidence: inout some EvidenceStream, after position: DeviceToken?
    ) throws(StoreFailure) {
        while !isEnded && waiting.count <= sizing.size {
            do {
                let batch = try evidence.next(StatementShape.longest)
                if batch.isEmpty { isEnded = true }
                waiting += batch.filter { item in position.map { item.token > $0 } ?? true }
            } catch {
                throw StoreFailure(
                    .evidence,
                    "reading evidence of feed \(application.feed): \(error); what was applied "
                        + "stands, run again")
            }
        }
    }

    private mutating func applyChunk(
        after start: FeedProgress
    ) throws(StoreFailure) -> FeedProgress {
        var progress = start
        var attempt = 1
        while true {
            let chunk = waiting.prefix(sizing.size)
            let isLast = isEnded && chunk.count == waiting.count
            let began = pacing.monotonic()
            do {
                let outcome = try transaction.apply(
                    chunk, isLast: isLast, after: progress,
                    mostBytes: chunk.count > 1 ? ChunkSizing.mostBytes : .max)
                guard case .applied(let next, let bytes) = outcome else {
                    if case .tooLarge(let rows) = outcome {
                        sizing.exceeded(chunk.count, rows: rows)
                    }
                    continue
                }
                let milliseconds = pacing.monotonic() - began
                sizing.committed(chunk.count, in: milliseconds, bytes: bytes)
                lastTransaction = milliseconds
                pacing.transactionTook(milliseconds)
                waiting.removeFirst(chunk.count)
                return next
            } catch {
                connection.rollBack()
                if error.kind == .conflict { sizing.lost() }
                try attempts.giveUp(
                    on: error, after: attempt, doing: "applying evidence to \(layout.table)")
                attempt += 1
                progress = try resume(after: error)
                if let position = progress.position {
                    waiting.removeAll { $0.token <= position }
                }
                if progress.isApplied || progress != start { return progress }
            }
        }
    }

    /// Connects anew where needed and reads what was committed.
    private func resume(after failure: SQLFailure) throws(StoreFailure) -> FeedProgress {
        do {
            return try attempts.retrying(
                "reading the marker of feed \(application.feed)", after: failure
            ) { () throws(SQLFailure) in
                try transaction.marker.read(connection, locking: false) ?? FeedProgress()
            }
        } catch {
            guard failure.kind == .lost, error.code == .unreachable || error.code == .busy else {
                throw error
            }
            throw StoreFailure(
                .commitUnknown,
                "applying evidence to \(layout.table): the connection was lost and the database "
                    + "does not come back, so the last chunk may be committed or not; run again, "
                    + "the feed's marker tells")
        }
    }
}
