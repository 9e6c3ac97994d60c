import TokenHygiene

// What is older than the retention goes run by run: first its entries, then the markers of feeds that
// it applied last, then its record. So whatever is left after a kill still hangs on a record, and the
// next purge finds it. A run's age is that of its start; so the ledger needs no index over times, which
// every change would have to pay for. A sender may run for months, so what belongs to a feed whose marker
// has moved since stays, and so does the record.
//
// Deleting again what is deleted changes nothing, so here no marker is needed: numbers are counted
// before each chunk is deleted, never taken from what a server says was affected.

/// What a purge has dropped, or would drop.
package struct PurgeProgress: Codable, Hashable, Sendable {
    /// Records of runs.
    package internal(set) var runs = 0
    /// Entries of the change ledger.
    package internal(set) var changes = 0
    /// Markers of applied feeds.
    package internal(set) var feeds = 0
    /// Whether all that is old enough had its turn.
    package internal(set) var isDone = false
}

extension TokenStore {
    /// Drops the ledger of runs that began before `cutoff`, and the markers of applied feeds and the
    /// records of those that began before `records` too, by which the guard judges. `shouldStop` and the
    /// throttle are asked between chunks. A dry run counts.
    ///
    /// - Throws: any failure; what is dropped stays dropped, and the next purge goes on.
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
                try purge(run.id, feed, part, isDry, shouldStop, &loop, &progress)
                report(progress)
            }
            guard run.started < records ?? cutoff else { continue }
            guard try mayGoOn(shouldStop) else { return progress }
            try close(run.id, before: records ?? cutoff, isDry, &progress)
            report(progress)
        }
        progress.isDone = true
        return progress
    }

    private func mayGoOn(_ shouldStop: () -> Bool) throws(StoreFailure) -> Bool {
        if shouldStop() { return false }
        return try waitForThrottle(shouldStop: shouldStop)
    }

    private func parts(
        ofRun run: String, before cutoff: EpochMilliseconds
    ) throws(StoreFailure) -> [(String, Int64)] {
        let time = connection.dialect.ownTime("changed_at").value(cutoff)
        return try attempts.retrying("reading the change ledger") { () throws(SQLFailure) in
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

    /// Drops the entries of one part, by ranges of their numbers.
    private func purge(
        _ run: String, _ feed: String, _ part: Int64, _ isDry: Bool, _ shouldStop: () -> Bool,
        _ loop: inout ChunkLoop, _ progress: inout PurgeProgress
    ) throws(StoreFailure) {
        let place: [SQLValue] = [.text(run), .text(feed), .integer(part)]
        let match = "FROM pushsweep_change WHERE run = ? AND feed = ? AND part = ?"
        let (first, last, count) = try attempts.retrying("reading the change ledger") {
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

    /// Drops the markers of a run that have not moved since, and with the last of them its record.
    private func close(
        _ run: String, before cutoff: EpochMilliseconds, _ isDry: Bool,
        _ progress: inout PurgeProgress
    ) throws(StoreFailure) {
        let doing = "dropping the record of run \(run)"
        let time = connection.dialect.ownTime("changed_at").value(cutoff)
        let place: [SQLValue] = [.text(run), time]
        let (rows, young) = try attempts.retrying(doing) { () throws(SQLFailure) in
            (
                try connection.query(
                    "SELECT feed, part FROM pushsweep_feed WHERE run = ? AND state = 'applied' "
                        + "AND (changed_at IS NULL OR changed_at < ?)", place),
                try connection.query(
                    "SELECT COUNT(*) FROM pushsweep_feed WHERE run = ? AND changed_at >= ?", place
                ).scalar?.count ?? 0
            )
        }
        progress.feeds += rows.count
        if young == 0 { progress.runs += 1 }
        guard !isDry else { return }
        try attempts.retrying(doing) { () throws(SQLFailure) in
            try connection.begin()
            for row in 0..<rows.count {
                _ = try connection.execute(
                    "DELETE FROM pushsweep_feed WHERE feed = ? AND part = ? AND run = ?",
                    [rows[row, 0], rows[row, 1], .text(run)])
            }
            if young == 0 {
                _ = try connection.execute("DELETE FROM pushsweep_run WHERE id = ?", [.text(run)])
            }
            try connection.commit()
        }
    }
}
