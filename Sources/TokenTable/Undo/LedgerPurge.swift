import APNsProtocol
import Database
import TokenHygiene

// Data older than the retention is dropped run by run: first its entries, then the markers of feeds
// that it applied last, then its record. So the data left after a kill still belongs to a record,
// and the next purge finds it. Runs are chosen by their start, so the ledger needs no index over
// times, which would add a cost to every change. A sender may run for months, and the clock of a
// host may be wrong. So an entry whose own time is younger stays, and so do the entries of a feed
// whose marker has moved since. A marker and a record stay as long as their entries.
//
// Deleting twice has no further effect, so no marker is needed here. Numbers are counted before
// each chunk is deleted, never taken from the server's count of affected rows.

/// The numbers of items that a purge has dropped, or would drop.
package struct PurgeProgress: Codable, Hashable, Sendable {
    /// Records of runs in `pushsweep_run`.
    package internal(set) var runs = 0
    /// Entries of the change ledger.
    package internal(set) var changes = 0
    /// Markers of applied feeds.
    package internal(set) var feeds = 0
    /// Whether all items that are old enough were processed.
    package internal(set) var isDone = false
}

extension TokenTable {
    /// Drops the entries from before `cutoff` of runs that began before it. Also drops the markers
    /// of applied feeds, and the records, of runs that began before `records`, because the guard
    /// still needs younger ones. Both are times of the database's clock. `shouldStop` and the
    /// throttle are checked between chunks. A dry run counts.
    ///
    /// - Throws: any failure; dropped items stay dropped, and the next purge continues.
    package func purge(
        before cutoff: EpochMilliseconds, records: EpochMilliseconds? = nil, isDry: Bool = false,
        shouldStop: () -> Bool = { false },
        report: (PurgeProgress) -> Void = { _ in }
    ) throws(StoreFailure) -> PurgeProgress {
        var progress = PurgeProgress()
        var loop = ChunkLoop(connection, pacing)
        for run in try runs().reversed() where run.started < cutoff {
            for (feed, part) in try parts(ofRun: run.id, before: cutoff) {
                guard try mayGoOn(shouldStop) else { return progress }
                try purge(run.id, feed, part, before: cutoff, isDry, shouldStop, &loop, &progress)
                report(progress)
            }
            guard run.started < records ?? cutoff else { continue }
            guard try mayGoOn(shouldStop) else { return progress }
            try close(run.id, before: cutoff, records: records ?? cutoff, isDry, &progress)
            report(progress)
        }
        progress.isDone = true
        return progress
    }

    private func mayGoOn(_ shouldStop: () -> Bool) throws(StoreFailure) -> Bool {
        if shouldStop() { return false }
        return try session.waitForThrottle(shouldStop: shouldStop)
    }

    private func parts(
        ofRun run: String, before cutoff: EpochMilliseconds
    ) throws(StoreFailure) -> [(String, Int64)] {
        let time = connection.dialect.ownTime("changed_at").value(cutoff)
        return try retries.retrying("reading the change ledger") { () throws(SQLFailure) in
            let rows = try connection.query(
                "SELECT DISTINCT c.feed, c.part FROM pushsweep_change c WHERE c.run = ? AND NOT EXISTS "
                    + "(SELECT 1 FROM pushsweep_feed f WHERE f.feed = c.feed AND f.part = c.part "
                    + "AND f.changed_at >= ?)", [.text(run), time])
            return (0..<rows.count).compactMap { row in
                guard let feed = rows[row, 0].text, let part = rows[row, 1].integer else {
                    return nil
                }
                return (feed, part)
            }
        }
    }

    /// Drops the old entries of one part, by ranges of their numbers.
    private func purge(
        _ run: String, _ feed: String, _ part: Int64, before cutoff: EpochMilliseconds,
        _ isDry: Bool, _ shouldStop: () -> Bool, _ loop: inout ChunkLoop,
        _ progress: inout PurgeProgress
    ) throws(StoreFailure) {
        let place: [SQLValue] = [
            .text(run), .text(feed), .integer(part),
            connection.dialect.ownTime("changed_at").value(cutoff),
        ]
        let match =
            "FROM pushsweep_change WHERE run = ? AND feed = ? AND part = ? "
            + "AND (changed_at IS NULL OR changed_at < ?)"
        let (first, last, count) = try retries.retrying("reading the change ledger") {
            () throws(SQLFailure) in
            let rows = try connection.query("SELECT MIN(seq), MAX(seq), COUNT(*) \(match)", place)
            return (rows[0, 0].integer ?? 0, rows[0, 1].integer ?? -1, rows[0, 2].count ?? 0)
        }
        guard !isDry else {
            progress.changes += count
            return
        }
        var next = first
        while next <= last, try mayGoOn(shouldStop) {
            let start = next
            var dropped = 0
            next = try loop.commit(
                after: start, doing: "dropping old entries of the change ledger",
                markerOf: "run \(run)"
            ) { (size) throws(SQLFailure) in
                let range: [SQLValue] = [.integer(start), .integer(start + Int64(size))]
                dropped = max(
                    dropped,
                    try connection.query(
                        "SELECT COUNT(*) \(match) AND seq >= ? AND seq < ?", place + range
                    ).scalar?.count ?? 0)
                _ = try connection.execute(
                    "DELETE \(match) AND seq >= ? AND seq < ?", place + range)
                return .committed(start + Int64(size), entries: size, bytes: 0)
            } marker: {
                start
            }
            progress.changes += dropped
            loop.letOthersWrite()
        }
    }

    /// Drops the markers of a run that have not moved since and have no entries, and its record
    /// after the last of them.
    private func close(
        _ run: String, before cutoff: EpochMilliseconds, records: EpochMilliseconds, _ isDry: Bool,
        _ progress: inout PurgeProgress
    ) throws(StoreFailure) {
        let doing = "dropping the record of run \(run)"
        let time = connection.dialect.ownTime("changed_at")
        let place: [SQLValue] = [.text(run), time.value(records)]
        let isYoung = "c.changed_at >= ?"
        let (rows, stays) = try retries.retrying(doing) { () throws(SQLFailure) in
            let markers = try connection.query(
                "SELECT m.feed, m.part FROM pushsweep_feed m WHERE m.run = ? AND m.state = 'applied' "
                    + "AND (m.changed_at IS NULL OR m.changed_at < ?) AND NOT EXISTS (SELECT 1 FROM "
                    + "pushsweep_change c WHERE c.run = m.run AND c.feed = m.feed AND c.part = m.part "
                    + "AND \(isYoung))", place + [time.value(cutoff)])
            let young = try connection.query(
                "SELECT 1 FROM pushsweep_feed WHERE run = ? AND changed_at >= ? LIMIT 1", place)
            let entries = try connection.query(
                "SELECT 1 FROM pushsweep_change c WHERE c.run = ? AND (\(isYoung) OR EXISTS (SELECT 1 "
                    + "FROM pushsweep_feed f WHERE f.feed = c.feed AND f.part = c.part "
                    + "AND f.changed_at >= ?)) LIMIT 1",
                [.text(run), time.value(cutoff), time.value(cutoff)])
            return (markers, young.count + entries.count > 0)
        }
        progress.feeds += rows.count
        if !stays { progress.runs += 1 }
        guard !isDry else { return }
        try retries.retrying(doing) { () throws(SQLFailure) in
            try connection.begin()
            for row in 0..<rows.count {
                _ = try connection.execute(
                    "DELETE FROM pushsweep_feed WHERE feed = ? AND part = ? AND run = ?",
                    [rows[row, 0], rows[row, 1], .text(run)])
            }
            if !stays {
                _ = try connection.execute("DELETE FROM pushsweep_run WHERE id = ?", [.text(run)])
            }
            try connection.commit()
        }
    }
}
