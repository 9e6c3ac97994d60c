import APNsProtocol
import Database
import TokenHygiene

// Applies a feed chunk by chunk. States of the marker in the database:
//
//   no marker --insert--> applying, no position --chunk--> applying, position --last--> applied
//
// After any failure inside a chunk the marker is read, and the evidence up to it is dropped (see
// ChunkLoop). So a lost commit needs no special case, and neither does a crash, because the next run does
// the same. Two runs on one feed divide it between them instead of counting it twice.

/// Applies one feed or one part of it.
struct FeedApplier {
    let application: FeedApplication
    let transaction: ChunkTransaction
    let connection: any SQLConnection
    let layout: TableLayout
    let pacing: Pacing
    private let gate: ThrottleGate
    private let retries: RetryPolicy

    private var loop: ChunkLoop
    private var waiting: [TokenEvidence] = []
    private var isEnded = false

    init(
        _ application: FeedApplication, _ layout: TableLayout, _ connection: any SQLConnection,
        _ pacing: Pacing, _ gate: ThrottleGate
    ) throws(StoreFailure) {
        self.application = application
        self.layout = layout
        self.connection = connection
        self.pacing = pacing
        self.gate = gate
        let isolation = RowIsolation()
        loop = ChunkLoop(connection, pacing, isolation)
        retries = RetryPolicy(connection: connection, pacing: pacing)
        transaction = try ChunkTransaction(application, layout, connection, isolation)
    }

    /// Applies the evidence after the feed's marker, until the evidence ends or `shouldStop`
    /// returns true after a chunk. Pauses between chunks as the throttle requires.
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
            if !progress.isApplied { loop.letOthersWrite() }
        }
        return progress
    }

    private func start() throws(StoreFailure) -> FeedProgress {
        try retries.retrying("starting to apply feed \(application.feed)") {
            () throws(SQLFailure) in
            let marker = transaction.marker
            if let known = try marker.read(connection, locking: false) { return known }
            do throws(SQLFailure) {
                try marker.insert(application, layout, connection)
            } catch {
                guard error.isDuplicate else { throw error }
                throw SQLFailure(
                    kind: .conflict, code: error.code, message: "another run began the feed")
            }
            return FeedProgress()
        }
    }

    /// Reads more than a chunk ahead. So the last chunk is known to be the last, and its
    /// transaction marks the feed as applied.
    private mutating func fill(
        from evidence: inout some EvidenceStream, after position: DeviceToken?
    ) throws(StoreFailure) {
        while !isEnded && waiting.count <= loop.size {
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
        var loop = loop
        defer { self.loop = loop }
        let progress = try loop.commit(
            after: start, doing: "applying evidence to \(layout.table)",
            markerOf: "feed \(application.feed)"
        ) { (size) throws(SQLFailure) in
            let chunk = waiting.prefix(size)
            return try transaction.apply(
                chunk, isLast: isEnded && chunk.count == waiting.count, after: start,
                mostBytes: chunk.count > 1 ? ChunkSizing.mostBytes : .max)
        } marker: { () throws(SQLFailure) in
            try transaction.marker.read(connection, locking: false) ?? FeedProgress()
        }
        if let position = progress.position {
            waiting.removeFirst(waiting.prefix { $0.token <= position }.count)
        }
        return progress
    }
}
