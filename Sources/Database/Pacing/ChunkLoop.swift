// Every long change is made chunk by chunk, each in a transaction that also moves a marker. After
// any failure inside a chunk the steps are the same: roll the transaction back, connect again if
// needed, read the marker, and continue from there. So a commit whose answer was lost needs no
// special case, because the marker shows its outcome. Numbers of affected rows are never added up
// over retries.

/// The outcome of one try of a chunk.
package enum ChunkOutcome<Progress> {
    /// The chunk is committed, with its number of entries and the bytes of their rows.
    case committed(Progress, entries: Int, bytes: Int)
    /// Nothing was changed, because the rows are too large to be held together: the number of
    /// entries requested and of rows read.
    case tooLarge(entries: Int, rows: Int)
}

/// Tries a chunk until it is committed, sizes the next one by the time it took, and leaves time for
/// other writers in between.
package struct ChunkLoop {
    private let connection: any SQLConnection
    private let pacing: Pacing
    private let retries: RetryPolicy
    private let isolation: RowIsolation
    private var sizing: ChunkSizing
    /// The milliseconds that the last committed chunk took.
    private var lastTransaction = 0.0

    /// Makes the loop for one change. `isolation` is shared with the code that writes rows.
    package init(
        _ connection: any SQLConnection, _ pacing: Pacing,
        _ isolation: RowIsolation = RowIsolation()
    ) {
        self.isolation = isolation
        self.connection = connection
        self.pacing = pacing
        retries = RetryPolicy(connection: connection, pacing: pacing)
        sizing = ChunkSizing(first: pacing.firstChunk)
    }

    /// The number of entries in the next chunk.
    package var size: Int { sizing.size }

    /// Commits one chunk after `start`. `chunk` receives the number of entries and runs a whole
    /// transaction with them; `marker` reads the committed progress.
    ///
    /// - Returns: the progress after the chunk, or other progress that the marker shows as
    ///   committed since.
    package mutating func commit<Progress: Equatable>(
        after start: Progress, doing: String, markerOf subject: String,
        _ chunk: (Int) throws(SQLFailure) -> ChunkOutcome<Progress>,
        marker: () throws(SQLFailure) -> Progress
    ) throws(StoreFailure) -> Progress {
        var attempt = 1
        while true {
            let began = pacing.monotonic()
            do {
                switch try chunk(isolation.limited(sizing.size)) {
                case .tooLarge(let entries, let rows): sizing.exceeded(entries, rows: rows)
                case .committed(let progress, let entries, let bytes):
                    let milliseconds = pacing.monotonic() - began
                    sizing.committed(entries, in: milliseconds, bytes: bytes)
                    lastTransaction = milliseconds
                    pacing.transactionTook(milliseconds)
                    isolation.committed()
                    return progress
                }
            } catch {
                connection.rollBack()
                if isolation.takesRetry() { continue }
                if error.kind == .conflict { sizing.lost() }
                try retries.giveUp(on: error, after: attempt, doing: doing)
                attempt += 1
                let progress = try resume(after: error, doing, subject, marker)
                if progress != start {
                    isolation.committed()
                    return progress
                }
            }
        }
    }

    /// Connects again where needed and reads the committed progress.
    private func resume<Progress>(
        after failure: SQLFailure, _ doing: String, _ subject: String,
        _ marker: () throws(SQLFailure) -> Progress
    ) throws(StoreFailure) -> Progress {
        do {
            return try retries.retrying(
                "reading the marker of \(subject)", after: failure, marker)
        } catch {
            guard failure.kind == .lost, error.code == .unreachable || error.code == .busy else {
                throw error
            }
            throw StoreFailure(
                .commitUnknown,
                "\(doing): the connection was lost and the database does not come back, so the last "
                    + "chunk may be committed or not; run again, the marker of \(subject) tells")
        }
    }

    /// Waits as long as a writer sleeps between two tries after waiting for the last chunk:
    /// SQLite's busy handler by then sleeps about half of the time that it has slept already.
    package func letOthersWrite() {
        guard connection.dialect.writersPoll else { return }
        let pause = Int(min(lastTransaction / 2, 50))
        if pause > 0 { pacing.sleep(pause) }
    }
}
