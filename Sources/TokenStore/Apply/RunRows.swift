import TokenHygiene

// One row of `pushsweep_run` per run that may change rows, so that whoever looks at the ledger on
// any host finds out what changed them and when. A run that was killed has a row without an end.

extension TokenStore {
    /// Notes that a run begins to apply evidence. Noting it again changes nothing.
    ///
    /// - Throws: any failure of writing.
    package func beginRun(
        _ run: String, kind: String, host: String, started: EpochMilliseconds
    ) throws(StoreFailure) {
        let connection = connection
        let begin = connection.dialect.ownTime("started").value(started)
        try attempts.retrying("noting the run in pushsweep_run") { () throws(SQLFailure) in
            let known = try connection.query(
                "SELECT id FROM pushsweep_run WHERE id = ?", [.text(run)])
            guard known.count == 0 else { return }
            _ = try connection.execute(
                "INSERT INTO pushsweep_run (id, kind, started, host) VALUES (?, ?, ?, ?)",
                [.text(run), .text(kind), begin, .text(String(host.prefix(255)))])
        }
    }

    /// Notes how a run ended; `counts` is its summary as JSON.
    ///
    /// - Throws: any failure of writing.
    package func endRun(
        _ run: String, ended: EpochMilliseconds, counts: String
    ) throws(StoreFailure) {
        let connection = connection
        let end = connection.dialect.ownTime("ended").value(ended)
        try attempts.retrying("noting the end of the run in pushsweep_run") {
            () throws(SQLFailure) in
            _ = try connection.execute(
                "UPDATE pushsweep_run SET ended = ?, counts = ? WHERE id = ?",
                [end, .text(counts), .text(run)])
        }
    }
}
