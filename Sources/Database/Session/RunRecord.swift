import APNsProtocol

/// One run of this program, for `pushsweep_run`.
package struct RunRecord: Hashable, Sendable {
    /// The run, as a UUID in text.
    package let id: String
    /// The kind of run: `sweep`, `replay`, `release` and so on.
    package let kind: String
    /// The start of the run.
    package let started: EpochMilliseconds
    /// The end of the run; nil while it lasts.
    package let ended: EpochMilliseconds?
    /// The name of the host.
    package let host: String
    /// The report's numbers as JSON; nil before there are any.
    package let counts: String?
    /// The guard's result in one word; nil where the guard was not used.
    package let guardResult: String?

    /// Makes a record; by default of a run that has not ended.
    package init(
        id: String, kind: String, started: EpochMilliseconds, ended: EpochMilliseconds? = nil,
        host: String, counts: String? = nil, guardResult: String? = nil
    ) {
        self.id = id
        self.kind = kind
        self.started = started
        self.ended = ended
        self.host = host
        self.counts = counts
        self.guardResult = guardResult
    }
}

extension DatabaseSession {
    /// Writes the record of a run, or overwrites its earlier record.
    package func record(_ run: RunRecord) throws(StoreFailure) {
        let time = connection.dialect.ownTime("started")
        let sql = connection.dialect.upsert(
            "pushsweep_run", key: ["id"],
            columns: ["kind", "started", "ended", "host", "counts", "guard_result"])
        try retries.retrying("recording run \(run.id)") { () throws(SQLFailure) in
            _ = try connection.execute(
                sql,
                [
                    .text(run.id), .text(run.kind), time.value(run.started),
                    run.ended.map(time.value) ?? .null, .text(run.host),
                    run.counts.map(SQLValue.text) ?? .null,
                    run.guardResult.map(SQLValue.text) ?? .null,
                ])
        }
    }
}
