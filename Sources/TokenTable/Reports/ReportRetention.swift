// Reports are kept for as long as a person may ask about them: those about rows that were dead already for a
// day, because senders that do not skip stale tokens make fifty times as many of them as of all others, and
// every other decided report for 30 days. What is removed is counted in its batch. A batch stays as long as the
// ledger names it.

import APNsProtocol
import Database
import Findings
import TokenHygiene

/// Removes reports whose time is over.
package struct ReportRetention {
    /// Days for which reports about rows that were dead already, and all others, are kept.
    package static let (alreadyDays, days): (Int64, Int64) = (1, 30)
    private let session: DatabaseSession
    private var connection: any SQLConnection { session.connection }
    private var dialect: SQLDialect { connection.dialect }

    /// Works on the database of a token table.
    package init(_ table: TokenTable) { session = table.session }

    /// Removes what was decided, or discarded, too long before `now`, which is of the database's clock. Ends
    /// early where `shouldStop` says so.
    ///
    /// - Throws: any failure of the database; what is removed stays removed.
    package func trim(
        at now: EpochMilliseconds, days: Int64 = ReportRetention.days, lease: Lease? = nil,
        shouldStop: () -> Bool = { false }
    ) throws(StoreFailure) {
        func time(_ days: Int64) -> SQLValue {
            dialect.ownTime("changed_at").value(now.advanced(by: -days * 86_400_000))
        }
        for (stage, before) in [(1, time(min(days, Self.alreadyDays))), (2, time(days))] {
            for batch in try due(stage, before) {
                var loop = session.chunkLoop()
                _ = try loop.run(
                    from: SQLValue?.some(.bytes([])), isDone: { $0 == nil }, shouldStop: shouldStop
                ) { (loop, start) throws(StoreFailure) in
                    try loop.commit(
                        after: start, doing: "removing old reports of batch \(batch)",
                        checkpointOf: "batch \(batch)"
                    ) { (size) throws(SQLFailure) in
                        try remove(size, of: batch, after: start ?? .null, stage, lease)
                    } checkpoint: {
                        start
                    }
                }
            }
        }
    }

    /// Removes reports of batches that are not there, as another program or a part of a backup leaves them.
    ///
    /// - Throws: any failure of the database; what is removed stays removed.
    func removeStrays(shouldStop: () -> Bool) throws(StoreFailure) {
        let doing = "removing reports of no batch"
        let strays = try session.retries.retrying(doing) { () throws(SQLFailure) in
            let rows = try connection.query(
                "SELECT d.batch FROM (SELECT DISTINCT batch FROM pushsweep_report) AS d LEFT JOIN pushsweep_batch AS b "
                    + "ON b.number = d.batch WHERE b.number IS NULL"
            )
            return (0..<rows.count).compactMap { rows[$0, 0].integer }
        }
        for batch in strays {
            var loop = session.chunkLoop()
            _ = try loop.run(from: false, isDone: { $0 }, shouldStop: shouldStop) {
                (loop, isDone) throws(StoreFailure) in
                try loop.commit(after: isDone, doing: doing, checkpointOf: "batch \(batch)") {
                    (size) throws(SQLFailure) in
                    let isLast = try StoredReports.removeFirst(size, of: batch, on: connection)
                    return .committed(isLast, entries: size, bytes: 0)
                } checkpoint: {
                    isDone
                }
            }
        }
    }

    private func due(_ stage: Int, _ before: SQLValue) throws(StoreFailure) -> [String] {
        try session.retries.retrying("looking for reports whose time is over") {
            () throws(SQLFailure) in
            let rows = try connection.query(
                "SELECT name FROM pushsweep_batch WHERE state IN ('applied', 'discarded') AND "
                    + "trimmed < ? AND (changed_at IS NULL OR changed_at < ?) ORDER BY changed_at",
                [.integer(Int64(stage)), before])
            return (0..<rows.count).map { rows.string($0, 0) }
        }
    }

    /// Removes the next reports of a batch behind a token. The progress is the last of them; nil at the end.
    private func remove(
        _ size: Int, of batch: String, after start: SQLValue, _ stage: Int, _ lease: Lease?
    ) throws(SQLFailure) -> ChunkOutcome<SQLValue?> {
        try connection.begin()
        // Somebody may have begun to fill it again.
        let isDue = try connection.query(
            "SELECT 1 FROM pushsweep_batch WHERE name = ? AND state IN ('applied', 'discarded')"
                + dialect.rowLock, [.text(batch)])
        guard isDue.count > 0 else {
            connection.rollBack()
            return .committed(nil, entries: 0, bytes: 0)
        }
        let end = try connection.query(
            "SELECT token FROM pushsweep_report WHERE batch = \(ReportBatch.ofName) AND token > ? ORDER BY token, number "
                + "LIMIT 1 OFFSET \(size - 1)", [.text(batch), start]
        ).scalar
        let only = stage == 1 ? " AND state = \(ReportState.already.rawValue)" : ""
        let removed = try connection.execute(
            "DELETE FROM pushsweep_report WHERE batch = \(ReportBatch.ofName) AND token > ?"
                + (end == nil ? "" : " AND token <= ?") + only,
            [.text(batch), start] + (end.map { [$0] } ?? []))
        let done = end == nil ? ", trimmed = \(stage)" : ""
        // The time of its last change is that of its judgement, which the guard reads.
        _ = try connection.execute(
            "UPDATE pushsweep_batch SET removed = removed + ?\(done) WHERE name = ?",
            [.integer(Int64(removed)), .text(batch)])
        try lease?.renew(connection)
        try connection.commit()
        return .committed(end, entries: size, bytes: 0)
    }
}
