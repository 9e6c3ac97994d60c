import APNsProtocol
import Database
import Findings
import TokenHygiene

// Judges a batch of reports chunk by chunk. States of its row in the database:
//
//   waiting --begin--> applying, no position --chunk--> applying, position --last--> applied
//
// After any failure inside a chunk the checkpoint is read, and the evidence up to it is dropped (see
// ChunkLoop). So a lost commit needs no special case, and neither does a crash, because the next run does
// the same. Two runs on one feed divide it between them instead of counting it twice.
//
// A checkpoint may also go back: a server that takes over may lack commits that the other one had confirmed.
// The evidence of those has left this run's memory, so the run ends, and the next one begins where the
// checkpoint is.

/// Judges one batch.
struct FeedApplier {
    private let application: FeedApplication
    private let table: TokenTable
    private let isolation: RowIsolation
    private var transaction: ChunkTransaction

    private var connection: any SQLConnection { table.connection }
    private var checkpoint: FeedCheckpoint { transaction.checkpoint }

    /// Evidence that was read and is not yet applied.
    private var waiting: [TokenEvidence] = []
    private var isEnded = false

    private let grace: GracePeriod?

    init(
        _ application: FeedApplication, _ table: TokenTable, _ grace: GracePeriod?
    ) throws(StoreFailure) {
        self.grace = grace
        self.application = application
        self.table = table
        isolation = RowIsolation(table.connection)
        transaction = try ChunkTransaction(application, table, isolation, grace)
    }

    /// Applies the evidence after the feed's checkpoint, until the evidence ends or `shouldStop`
    /// returns true after a chunk. Pauses between chunks as the throttle requires.
    mutating func run(
        _ evidence: inout some EvidenceStream, shouldStop: () -> Bool,
        report: (FeedProgress) -> Void
    ) throws(StoreFailure) -> FeedProgress {
        var loop = table.session.chunkLoop(isolation)
        return try loop.run(
            from: try begin(), isDone: \.isApplied, shouldStop: shouldStop, report: report
        ) { (loop, progress) throws(StoreFailure) in
            try fill(from: &evidence, after: progress.position, atLeast: loop.size)
            return try applyChunk(after: progress, &loop)
        }
    }

    private func begin() throws(StoreFailure) -> FeedProgress {
        var found: BatchState?
        let progress = try table.retries.retrying("starting to judge batch \(application.feed)") {
            () throws(SQLFailure) -> FeedProgress? in
            try connection.begin()
            found = try checkpoint.state(locking: true)
            guard found == .waiting else {
                connection.rollBack()
                guard [.applying, .applied].contains(found) else { return nil }
                return try checkpoint.read(locking: false) ?? FeedProgress()
            }
            try checkpoint.begin(application, transaction.layout)
            try application.lease?.renew(connection)
            try connection.commit()
            return FeedProgress()
        }
        guard let progress else { throw .unfit(application.feed, found) }
        return progress
    }

    /// Reads more than a chunk ahead. So the last chunk is known to be the last, and its
    /// transaction marks the feed as applied.
    private mutating func fill(
        from evidence: inout some EvidenceStream, after position: DeviceToken?, atLeast count: Int
    ) throws(StoreFailure) {
        while !isEnded && waiting.count <= count {
            do {
                let batch = try evidence.next(StatementShape.longest)
                if batch.isEmpty { isEnded = true }
                waiting += batch.filter { item in position.map { item.token > $0 } ?? true }
            } catch {
                throw StoreFailure(
                    .evidence,
                    "reading evidence of feed \(application.feed): \(error); what was applied "
                        + "is kept, run again")
            }
        }
    }

    /// Ends the run where the database is behind what it had confirmed to this run, because the evidence in
    /// between is no longer in memory. The next run reads it again.
    private func ensure(
        _ progress: FeedProgress, isNotBefore position: DeviceToken?
    ) throws(StoreFailure) {
        guard let position, progress.position.map({ $0 < position }) ?? true else { return }
        throw StoreFailure(
            .commitUnknown,
            "applying evidence to \(transaction.layout.table): the checkpoint of feed "
                + "\(application.feed) is behind a chunk that the database had confirmed, as on a server "
                + "that took over without the last commits; run again, which continues from this checkpoint"
        )
    }

    private mutating func applyChunk(
        after start: FeedProgress, _ loop: inout ChunkLoop
    ) throws(StoreFailure) -> FeedProgress {
        let progress = try loop.commit(
            after: start, doing: "applying evidence to \(transaction.layout.table)",
            checkpointOf: "feed \(application.feed)"
        ) { (size) throws(SQLFailure) in
            let chunk = waiting.prefix(size)
            return try transaction.commit(
                chunk, isLast: isEnded && chunk.count == waiting.count, after: start,
                mostBytes: chunk.count > 1 ? ChunkSizing.mostBytes : .max)
        } checkpoint: { () throws(SQLFailure) in
            try checkpoint.read(locking: false) ?? FeedProgress()
        }
        try ensure(progress, isNotBefore: start.position)
        if let position = progress.position {
            waiting.removeFirst(waiting.prefix { $0.token <= position }.count)
        }
        if transaction.isOutdated {
            try table.renewLayout(of: .apply(application.policy))
            transaction = try ChunkTransaction(application, table, isolation, grace)
        }
        return progress
    }
}

extension TokenTable {
    /// Judges a batch chunk by chunk, each in a transaction that changes the rows, decides the reports and
    /// moves the batch's checkpoint. Evidence up to the checkpoint is skipped, so the caller may pass it from
    /// its start or from `progress(of:)`. `shouldStop` is called between chunks. After a stop the result is
    /// not `isApplied`, and the next call continues. A batch of the source `grace` needs its period.
    ///
    /// - Throws: any failure; committed chunks stay applied, and the checkpoint shows the progress.
    package func applyReports(
        _ evidence: inout some EvidenceStream, _ application: FeedApplication,
        grace: GracePeriod? = nil,
        shouldStop: () -> Bool = { false }, report: (FeedProgress) -> Void = { _ in }
    ) throws(StoreFailure) -> FeedProgress {
        var applier = try FeedApplier(application, self, grace)
        return try applier.run(&evidence, shouldStop: shouldStop, report: report)
    }
}

extension StoreFailure {
    /// A batch is in a state in which nobody may judge it, or gone.
    static func unfit(_ batch: String, _ state: BatchState?) -> StoreFailure {
        StoreFailure(
            .evidence,
            "starting to judge batch \(batch): "
                + (state.map { "it is \($0.rawValue), so nobody may judge it" }
                    ?? "the database has no such batch"))
    }
}
