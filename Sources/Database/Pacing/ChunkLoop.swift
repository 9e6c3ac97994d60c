// Every long change is made chunk by chunk, each in a transaction that also moves a marker. Whatever
// goes wrong inside a chunk, what follows is the same: give the transaction up, connect anew if need
// be, read the marker, and go on from there. So a commit whose answer was lost needs no special case,
// the marker tells, and numbers of affected rows are never added up over retries.

/// What came of one try of a chunk.
package enum ChunkOutcome<Progress> {
    /// It is committed: so many entries, whose rows had so many bytes.
    case committed(Progress, entries: Int, bytes: Int)
    /// Nothing was done, its rows are too large to be held together: so many entries were asked for,
    /// so many rows read.
    case tooLarge(entries: Int, rows: Int)
}

/// Tries a chunk until it is committed, sizes the next one by the time it took, and leaves others
/// their turn in between.
package struct ChunkLoop {
    private let connection: any SQLConnection
    private let pacing: Pacing
    private let retries: RetryPolicy
    private let isolation: RowIsolation
    private var sizing: ChunkSizing
    /// Milliseconds the last committed chunk took.
    private var lastTransaction = 0.0

    /// `isolation` is shared with what writes rows.
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

    /// Entries in the next chunk.
    package var size: Int { sizing.size }

    /// Commits one chunk after `start`. `chunk` is told how many entries to take and makes a whole
    /// transaction of them; `marker` reads what is committed.
    ///
    /// - Returns: the progress behind the chunk, or whatever else the marker shows to have been
    ///   committed meanwhile.
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

    /// Connects anew where needed and reads what was committed.
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

    /// Leaves a gap as long as a writer that has waited for the last chunk sleeps before it asks
    /// again: SQLite's busy handler by then sleeps about half of what it has slept already.
    package func letOthersWrite() {
        guard connection.dialect.writersPoll else { return }
        let pause = Int(min(lastTransaction / 2, 50))
        if pause > 0 { pacing.sleep(pause) }
    }
}
