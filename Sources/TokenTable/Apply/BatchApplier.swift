import APNsProtocol
import Database
import Findings
import TokenHygiene

// Judges a batch of reports chunk by chunk. States of its row in the database:
//
//   waiting --begin--> applying, no position --chunk--> applying, position --last--> applied
//   filling, no report --begin--> filling --chunk--> filling, position and reports up to it --last--> applied
//
// The second is a list whose evidence this run has itself: each chunk stores the reports that it decides. Every host
// sees it as unfinished, and the host that has the evidence goes on behind the position.
//
// After any failure inside a chunk the checkpoint is read, and the evidence up to it is dropped (see
// ChunkLoop). So a lost commit needs no special case, and neither does a crash, because the next run does
// the same. Two runs on one batch divide it between them instead of counting it twice.
//
// A checkpoint may also go back: a server that takes over may lack commits that the other one had confirmed.
// The evidence of those has left this run's memory, so the run ends, and the next one begins where the
// checkpoint is.

/// Judges one batch.
struct BatchApplier {
    private let application: BatchApplication
    private let table: TokenTable
    private let isolation: RowIsolation
    private var transaction: ChunkTransaction

    private var connection: any SQLConnection { table.connection }
    private var checkpoint: BatchCheckpoint { transaction.checkpoint }

    /// Evidence that was read and is not yet applied.
    private var waiting: [TokenEvidence] = []
    private var isEnded = false

    private let grace: GracePeriod?
    private let known: ReadRows?

    init(
        _ application: BatchApplication, _ table: TokenTable, _ grace: GracePeriod?,
        _ known: ReadRows?
    ) throws(StoreFailure) {
        (self.grace, self.known) = (grace, known)
        self.application = application
        self.table = table
        isolation = RowIsolation(table.connection)
        transaction = try ChunkTransaction(application, table, isolation, grace, known)
    }

    /// Applies the evidence after the batch's checkpoint, until the evidence ends or `shouldStop`
    /// returns true after a chunk. Pauses between chunks as the throttle requires.
    mutating func run(
        _ evidence: inout some EvidenceStream, shouldStop: () -> Bool,
        report: (BatchProgress) -> Void
    ) throws(StoreFailure) -> BatchProgress {
        var loop = table.session.chunkLoop(isolation)
        return try loop.run(
            from: try begin(), isDone: \.isApplied, shouldStop: shouldStop, report: report
        ) { (loop, progress) throws(StoreFailure) in
            try fill(from: &evidence, after: progress.position, atLeast: loop.size)
            return try applyChunk(after: progress, &loop)
        }
    }

    private mutating func begin() throws(StoreFailure) -> BatchProgress {
        var found: BatchState?
        let progress = try table.retries.retrying("starting to judge batch \(application.batch)") {
            () throws(SQLFailure) -> BatchProgress? in
            try connection.begin()
            found = try checkpoint.state(locking: true)
            let isOpen =
                application.storesReports
                ? found == .filling : found == .waiting || found == .applying
            guard isOpen else {
                connection.rollBack()
                return found == .applied ? try checkpoint.read(locking: false) : nil
            }
            if found != .applying { try checkpoint.begin(application) }
            transaction.part = try LedgerParts(connection: connection).open(
                application.batch, by: application.run, in: application.partition,
                application.source, mapping: application.mapping, transaction.layout)
            transaction.batch = try BatchRow(connection: connection).number(of: application.batch)
            let progress = try checkpoint.read(locking: false)
            try application.lease?.renew(connection)
            try connection.commit()
            return progress
        }
        guard let progress else { throw .unfit(application.batch, found) }
        return progress
    }

    /// Reads more than a chunk ahead. So the last chunk is known to be the last, and its
    /// transaction marks the batch as applied.
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
                    "reading evidence of batch \(application.batch): \(error); what was applied "
                        + "is kept, run again")
            }
        }
    }

    /// Ends the run where the database is behind what it had confirmed to this run, because the evidence in
    /// between is no longer in memory. The next run reads it again.
    private func ensure(
        _ progress: BatchProgress, isNotBefore position: DeviceToken?
    ) throws(StoreFailure) {
        guard let position, progress.position.map({ $0 < position }) ?? true else { return }
        throw StoreFailure(
            .commitUnknown,
            "applying evidence to \(transaction.layout.table): the checkpoint of batch "
                + "\(application.batch) is behind a chunk that the database had confirmed, as on a server "
                + "that took over without the last commits; run again, which continues from this checkpoint"
        )
    }

    private mutating func applyChunk(
        after start: BatchProgress, _ loop: inout ChunkLoop
    ) throws(StoreFailure) -> BatchProgress {
        let progress = try loop.commit(
            after: start, doing: "applying evidence to \(transaction.layout.table)",
            checkpointOf: "batch \(application.batch)"
        ) { (size) throws(SQLFailure) in
            let chunk = waiting.prefix(size)
            return try transaction.commit(
                chunk, isLast: isEnded && chunk.count == waiting.count, after: start,
                mostBytes: chunk.count > 1 ? ChunkSizing.mostBytes : .max)
        } checkpoint: { () throws(SQLFailure) in
            try checkpoint.read(locking: false) ?? BatchProgress()
        }
        try ensure(progress, isNotBefore: start.position)
        if let position = progress.position {
            waiting.removeFirst(waiting.prefix { $0.token <= position }.count)
        }
        if transaction.isOutdated {
            try table.renewLayout(of: .apply(application.policy))
            transaction = try ChunkTransaction(application, table, isolation, grace, known)
            _ = try begin()
        }
        return progress
    }
}

extension TokenTable {
    /// Judges a batch chunk by chunk, each in a transaction that changes the rows, decides the reports and
    /// moves the batch's checkpoint. Evidence up to the checkpoint is skipped, so the caller may pass it from
    /// its start or from `progress(of:)`. `shouldStop` is called between chunks. After a stop the result is
    /// not `isApplied`, and the next call continues. A batch of the source `grace` needs its period. `known` has rows that
    /// a forecast has read.
    ///
    /// - Throws: any failure; committed chunks stay applied, and the checkpoint shows the progress.
    package func applyReports(
        _ evidence: inout some EvidenceStream, _ application: BatchApplication,
        grace: GracePeriod? = nil, known: ReadRows? = nil,
        shouldStop: () -> Bool = { false }, report: (BatchProgress) -> Void = { _ in }
    ) throws(StoreFailure) -> BatchProgress {
        var applier = try BatchApplier(application, self, grace, known)
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
