// Every long change is made chunk by chunk, each in a transaction that also moves a checkpoint. After
// any failure inside a chunk the steps are the same: roll the transaction back, connect again if
// needed, read the checkpoint, and continue from there. So a commit whose answer was lost needs no
// special case, because the checkpoint shows its outcome. Numbers of affected rows are never added up
// over retries.

import Findings

/// The outcome of one try of a chunk.
package enum ChunkOutcome<Progress> {
    /// The chunk is committed, with its number of entries and the bytes of their rows.
    case committed(Progress, entries: Int, bytes: Int)
    /// Nothing was changed, because the rows are too large to be held together: the number of
    /// entries requested and of rows read. The transaction may still be open.
    case tooLarge(entries: Int, rows: Int)
}

/// Commits a change chunk by chunk: waits while the throttle's limits are exceeded, tries a chunk
/// until it is committed, sizes the next one by the time it took, and leaves time for other writers
/// in between.
package struct ChunkLoop {
    private let connection: any SQLConnection
    private let pacing: Pacing
    private let throttler: Throttler
    private let retries: RetryPolicy
    private let isolation: RowIsolation
    private let ceiling: ChunkCeiling
    private var sizing: ChunkSizing
    /// The milliseconds that the last committed chunk took.
    private var lastTransaction = 0.0

    /// Makes the loop for one change, see `DatabaseSession.chunkLoop`.
    init(
        _ connection: any SQLConnection, _ pacing: Pacing, throttler: Throttler,
        isolation: RowIsolation, ceiling: ChunkCeiling, health: SessionHealth
    ) {
        self.isolation = isolation
        self.ceiling = ceiling
        self.throttler = throttler
        self.connection = connection
        self.pacing = pacing
        retries = RetryPolicy(connection: connection, pacing: pacing, health: health)
        sizing = ChunkSizing(
            first: connection.certifiesCommits
                ? min(pacing.firstChunk, ChunkSizing.firstCertified) : pacing.firstChunk)
    }

    /// The number of entries in the next chunk.
    package var size: Int { min(sizing.size, ceiling.entries) }

    /// Repeats `step`, which commits one chunk after the given progress, until `isDone`. Stops early
    /// between two chunks when `shouldStop` returns true. `changesRows` is false for a dry run,
    /// which need not leave time for other writers.
    ///
    /// - Returns: the progress after the last chunk.
    /// - Throws: any failure of a step; `stopped` where the throttle ends the run.
    package mutating func run<Progress>(
        from start: Progress, isDone: (Progress) -> Bool, changesRows: Bool = true,
        shouldStop: () -> Bool, report: (Progress) -> Void = { _ in },
        _ step: (inout ChunkLoop, Progress) throws(StoreFailure) -> Progress
    ) throws(StoreFailure) -> Progress {
        var progress = start
        while !isDone(progress), !shouldStop(), try throttler.wait(shouldStop: shouldStop) {
            progress = try step(&self, progress)
            report(progress)
            if changesRows && !isDone(progress) { letOthersWrite() }
        }
        return progress
    }

    /// Commits one chunk after `start`. `chunk` receives the number of entries and runs a whole
    /// transaction with them; `checkpoint` reads the committed progress.
    ///
    /// - Returns: the progress after the chunk, or other progress that the checkpoint shows as
    ///   committed since.
    package mutating func commit<Progress: Equatable>(
        after start: Progress, doing: String, checkpointOf subject: String,
        _ chunk: (Int) throws(SQLFailure) -> ChunkOutcome<Progress>,
        checkpoint: () throws(SQLFailure) -> Progress
    ) throws(StoreFailure) -> Progress {
        var clock = RetryClock(pacing, retries.health)
        while true {
            let began = pacing.monotonic()
            let size = isolation.limited(self.size)
            do {
                switch try chunk(size) {
                case .tooLarge(let entries, let rows):
                    connection.rollBack()
                    sizing.exceeded(entries, rows: rows)
                case .committed(let progress, let entries, let bytes):
                    let milliseconds = pacing.monotonic() - began
                    sizing.committed(entries, in: milliseconds, bytes: bytes)
                    ceiling.committed()
                    lastTransaction = milliseconds
                    pacing.transactionTook(milliseconds)
                    if let notice = isolation.committed() { pacing.report(notice) }
                    return progress
                }
            } catch {
                connection.rollBack()
                if isolation.takesRetry() { continue }
                if error.kind == .tooLarge, ceiling.refused(size) {
                    pacing.report(ceiling.notice(of: error, on: connection))
                    continue
                }
                if error.kind == .conflict { sizing.lost() }
                try clock.pause(after: error, doing: doing)
                let progress = try resume(after: error, doing, subject, &clock, checkpoint)
                if progress != start {
                    isolation.committed()
                    return progress
                }
            }
        }
    }

    /// Connects again where needed and reads the committed progress.
    private func resume<Progress>(
        after failure: SQLFailure, _ doing: String, _ subject: String, _ clock: inout RetryClock,
        _ checkpoint: () throws(SQLFailure) -> Progress
    ) throws(StoreFailure) -> Progress {
        do {
            return try retries.retrying(
                "reading the checkpoint of \(subject)", after: failure, on: &clock, checkpoint)
        } catch {
            guard failure.kind == .lost, error.code == .unreachable || error.code == .busy else {
                throw error
            }
            throw StoreFailure(
                .commitUnknown,
                "\(doing): the connection was lost and the database does not come back, so the last "
                    + "chunk may be committed or not; run again, the checkpoint of \(subject) shows which"
            )
        }
    }

    /// Waits as long as a writer sleeps between two tries after waiting for the last chunk:
    /// SQLite's busy handler by then sleeps about half of the time that it has slept already.
    private func letOthersWrite() {
        guard connection.dialect.writersPoll, connection.hasOtherWriters else { return }
        let pause = Int(min(lastTransaction / 2, 50))
        if pause > 0 { pacing.sleep(pause) }
    }
}

// Throughput hardly depends on the size of a transaction, but the waiting time of other
// transactions for its locks does. So a chunk is sized by time: the size follows the duration of
// the last chunk, and halves at once when the engine rolled a chunk back in favour of another
// transaction. The target is a third of the 150 ms limit for the longest, because on a busy server
// single chunks take three times the usual time.
//
// The probability of such a loss grows with the square of the size: more rows are locked, for longer. On
// a Galera cluster with busy writers a chunk that met the target time would lose nearly always, and grow
// to that size again after each halving. So for a while after a loss the size grows by small steps, and
// the first chunk is a small one: there all connections of a run would lose, and repeat most.
//
// Whole rows are kept in memory until they are in the ledger, so bytes limit a chunk too. A chunk whose
// rows exceed the limit is given up during the read and redone with fewer tokens, down to one. The bytes
// of a committed chunk show how far the next may grow. Tables of small rows never reach the limit.

/// The number of tokens in the next chunk, and its rules.
package struct ChunkSizing: Hashable, Sendable {
    /// The sizes that a chunk may have.
    static let range = 100...5_000
    /// The target duration of a chunk in milliseconds.
    static let aim = 50.0

    /// The most bytes of rows in a chunk of several tokens. Before-images take at most twice that
    /// and are written in parts.
    package static let mostBytes = 2 * 1_024 * 1_024

    /// The most tokens in the first chunk where commits are certified.
    static let firstCertified = 300

    /// The number of tokens in the next chunk.
    private(set) var size: Int
    /// The chunks that are to commit before the size grows by large steps again.
    private var careful = 0

    /// Starts with a size for the first chunk.
    init(first: Int) { size = first }

    /// Adjusts the size after a committed chunk. A full step to the size that would have met the
    /// target could overshoot after one unusual chunk, so growth is at most by half, and by a
    /// sixteenth for 64 chunks after a loss.
    mutating func committed(_ tokens: Int, in milliseconds: Double, bytes: Int = 0) {
        // The time of a short last chunk predicts little about a long one.
        guard tokens * 2 >= size else { return }
        let fitting = Double(tokens) * Self.aim / max(milliseconds, 0.1)
        size = Self.clamped(min(fitting, Double(size) * (careful > 0 ? 1.0625 : 1.5)))
        careful = max(0, careful - 1)
        if bytes > 0 { size = min(size, max(1, tokens * (Self.mostBytes / 4 * 3) / bytes)) }
    }

    /// Reduces the size after a chunk whose rows were too large; `rows` of them were read.
    mutating func exceeded(_ tokens: Int, rows: Int) {
        size = max(1, min(tokens / 2, rows * 3 / 4))
    }

    /// Halves the size after a chunk that lost against another transaction.
    mutating func lost() {
        size = min(size, Self.clamped(Double(size) / 2))
        careful = 64
    }

    private static func clamped(_ size: Double) -> Int {
        min(max(Int(size), range.lowerBound), range.upperBound)
    }
}

// A cluster may limit the size of a transaction: Galera by wsrep_max_ws_rows and wsrep_max_ws_size, a
// server with a binary log by max_binlog_cache_size. A chunk beyond the limit fails as a whole, and how
// many rows would fit is unknown, since ledger, checkpoint and side tables count too. So the chunk halves
// until it fits, down to one entry. The limit is that of the server, so it holds for all later chunks of
// the connection:
//
//   no ceiling --refused at n--> ceiling n/2 --many chunks committed--> ceiling doubled
//
// One chunk of unusually large rows must not slow the whole run down, so the ceiling rises again after
// some chunks. Each refusal doubles their number, so that a fixed limit is seldom tried again.

/// The most entries that a chunk may have, as the server's refusals teach. Confined to the store's
/// thread, shared by all changes over one connection.
package final class ChunkCeiling {
    /// The most entries of the next chunk.
    private(set) var entries = Int.max
    /// Chunks committed since the ceiling last moved.
    private var committedChunks = 0
    /// The number of chunks after which the ceiling rises.
    private var rising = 8

    /// Starts without a limit.
    init() {}

    /// Halves the ceiling below a chunk that was too large; false where it had one entry.
    func refused(_ size: Int) -> Bool {
        guard size > 1 else { return false }
        entries = size / 2
        committedChunks = 0
        rising = min(rising * 2, 4_096)
        return true
    }

    /// Counts a committed chunk.
    func committed() {
        guard entries < ChunkSizing.range.upperBound else { return }
        committedChunks += 1
        guard committedChunks >= rising else { return }
        entries *= 2
        committedChunks = 0
    }

    /// The sentence for the run's log. It names the setting with its value, and no size of a chunk, so
    /// that it is the same each time.
    func notice(of failure: SQLFailure, on connection: any SQLConnection) -> String {
        let name = failure.limitOfSize
        let rows = try? connection.query(
            "SHOW GLOBAL VARIABLES WHERE Variable_name = \(connection.dialect.literal(name))")
        let value = rows.flatMap { $0.count > 0 ? $0[0, 1].text : nil }.map { " = \($0)" } ?? ""
        return "makes smaller transactions, because the server refuses larger ones "
            + "(\(failure.message), \(failure.code)): \(name)\(value); nothing has to be done, "
            + "a higher limit is faster"
    }
}
