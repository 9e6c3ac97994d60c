import APNsProtocol

/// One run of this program, for `pushsweep_run`.
package struct RunRecord: Hashable, Sendable {
    /// The run, as a UUID in text.
    package let id: String
    /// `sweep`, `replay`, `release` and so on.
    package let kind: String
    /// When it began.
    package let started: EpochMilliseconds
    /// When it ended; nil while it lasts.
    package let ended: EpochMilliseconds?
    /// The machine.
    package let host: String
    /// The report's numbers as JSON; nil before there are any.
    package let counts: String?
    /// What the guard said, in a word; nil where it was not asked.
    package let guardResult: String?

    /// States a run.
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
    /// Writes a run down, or overwrites what was written of it before.
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
