import APNsProtocol
import Database
import Findings
import TokenHygiene

// Data older than the retention is dropped run by run: first the entries of all, then the checkpoints of batches
// that a run applied last, then its record. So the data left after a kill still belongs to a record,
// and the next purge finds it. Runs are chosen by their start, so the ledger needs no index over
// times, which would add a cost to every change. A sender may run for months, and the clock of a
// host may be wrong. So an entry whose own time is younger stays, and so do the entries of a batch
// whose checkpoint has moved since. A checkpoint and a record stay as long as their entries. The
// numbers of transactions (see `ChangeOrder`) go last, each when none of its entries is left. The last
// number of these stays, so that readers see that something was dropped, and until when.
//
// Deleting twice has no further effect, so no checkpoint is needed here. Numbers are counted before
// each chunk is deleted, never taken from the server's count of affected rows.

/// The numbers of items that a purge has dropped, or would drop.
package struct PurgeProgress: Codable, Hashable, Sendable {
    /// Records of runs in `pushsweep_run`.
    package internal(set) var runs = 0
    /// Entries of the change ledger.
    package internal(set) var changes = 0
    /// Checkpoints of applied batches.
    package internal(set) var batches = 0
    /// Whether all items that are old enough were processed.
    package internal(set) var isDone = false
}

extension TokenTable {
    /// Drops the entries from before `cutoff` of runs that began before it. Also drops the checkpoints
    /// of applied batches, the entries of undos, and the records, of runs that began before `records`, because the
    /// guard still needs younger ones. Both are times of the database's clock. `shouldStop` and the
    /// throttle are checked between chunks. A dry run counts.
    ///
    /// - Throws: any failure; dropped items stay dropped, and the next purge continues.
    package func purge(
        before cutoff: EpochMilliseconds, records: EpochMilliseconds? = nil, isDry: Bool = false,
        shouldStop: () -> Bool = { false },
        report: (PurgeProgress) -> Void = { _ in }
    ) throws(StoreFailure) -> PurgeProgress {
        var purge = Purge(
            cutoff: cutoff, records: records ?? cutoff, isDry: isDry, loop: session.chunkLoop())
        defer { report(purge.progress) }
        let runs = try runs().reversed().filter { $0.started < cutoff }
        // An undo can be undone for as long as its record is kept.
        for run in runs where run.kind != "undo" || run.started < purge.records {
            for part in try parts(ofRun: run.id, before: cutoff) {
                guard try shouldContinue(shouldStop) else { return purge.progress }
                try dropEntries(of: part, &purge, shouldStop)
                report(purge.progress)
            }
        }
        if !isDry {
            // Batches could not go before their reports.
            let retention = ReportRetention(self)
            try retention.trim(at: purge.records, days: 0, shouldStop: shouldStop)
            try retention.removeStrays(shouldStop: shouldStop)
        }
        try dropEmpty(&purge)
        for run in runs where run.started < purge.records {
            guard try shouldContinue(shouldStop) else { return purge.progress }
            try dropRecord(of: run.id, &purge)
            report(purge.progress)
        }
        if !isDry {
            guard try dropNumbers(before: cutoff, shouldStop), try dropNotes(shouldStop) else {
                return purge.progress
            }
        }
        purge.progress.isDone = true
        return purge.progress
    }

    /// Drops the numbers of transactions before a time that have no entry left, but for the last of
    /// them and the counter, number 0; see `ChangeOrder`.
    ///
    /// - Returns: false where it was stopped early.
    private func dropNumbers(
        before cutoff: EpochMilliseconds, _ shouldStop: () -> Bool
    ) throws(StoreFailure) -> Bool {
        let time = connection.dialect.ownTime("committed_at").value(cutoff)
        var position: SQLValue? = .integer(0)
        var kept: SQLValue?
        while let start = position {
            guard try shouldContinue(shouldStop) else { return false }
            let previous = kept
            (position, kept) = try retries.retrying("dropping the numbers of old changes") {
                () throws(SQLFailure) in
                let rows = try connection.query(
                    "SELECT c.number, EXISTS (SELECT 1 FROM pushsweep_change e WHERE "
                        + "e.part = c.part AND e.seq BETWEEN c.first_seq AND c.last_seq) FROM pushsweep_commit c "
                        + "WHERE c.number > ? AND c.committed_at < ? "
                        + "ORDER BY c.number LIMIT \(StatementShape.longest)", [start, time])
                var empty = (0..<rows.count).filter { rows[$0, 1].count == 0 }.map { rows[$0, 0] }
                let last = empty.popLast()
                if last != nil, let previous { empty.append(previous) }
                for run in empty.runs(of: StatementShape.longest) {
                    let padded = StatementShape.padded(run)
                    _ = try connection.execute(
                        "DELETE FROM pushsweep_commit WHERE number IN "
                            + "(\(placeholders(padded.count)))", padded)
                }
                let isFull = rows.count == StatementShape.longest
                return (isFull ? rows[rows.count - 1, 0] : nil, last ?? previous)
            }
        }
        return true
    }

    /// Drops what persons said no to 400 days ago.
    ///
    /// - Returns: false where it was stopped early.
    private func dropNotes(_ shouldStop: () -> Bool) throws(StoreFailure) -> Bool {
        let old = connection.dialect.now(adding: -SparingNotes.days * 86_400)
        var isLast = false
        while !isLast {
            guard try shouldContinue(shouldStop) else { return false }
            isLast = try retries.retrying("dropping what was undone or discarded long ago") {
                () throws(SQLFailure) in
                let isOld =
                    "(undone_at IS NULL OR undone_at < \(old)) AND (heard_until IS NULL OR heard_until < \(old))"
                let rows = try connection.query(
                    "SELECT token FROM pushsweep_spared WHERE \(isOld) ORDER BY token LIMIT "
                        + "\(StatementShape.longest)")
                guard rows.count > 0 else { return true }
                let tokens = StatementShape.padded((0..<rows.count).map { rows[$0, 0] })
                _ = try connection.execute(
                    "DELETE FROM pushsweep_spared WHERE token IN (\(placeholders(tokens.count))) AND \(isOld)",
                    tokens)
                return rows.count < StatementShape.longest
            }
        }
        return true
    }

    /// The terms of a purge and its progress.
    private struct Purge {
        /// Entries from before this time are dropped.
        let cutoff: EpochMilliseconds
        /// Checkpoints and records from before this time are dropped.
        let records: EpochMilliseconds
        let isDry: Bool
        var loop: ChunkLoop
        var progress = PurgeProgress()
    }

    private func shouldContinue(_ shouldStop: () -> Bool) throws(StoreFailure) -> Bool {
        if shouldStop() { return false }
        return try session.waitForThrottle(shouldStop: shouldStop)
    }

    private func parts(
        ofRun run: String, before cutoff: EpochMilliseconds
    ) throws(StoreFailure) -> [LedgerPart] {
        let time = connection.dialect.ownTime("changed_at").value(cutoff)
        let isLeft =
            " AND NOT EXISTS (SELECT 1 FROM pushsweep_batch f WHERE f.number = p.batch AND f.changed_at >= ?)"
        return try retries.retrying(
            "reading the change ledger",
            do: LedgerReader(connection: connection).parts(ofRun: run, (isLeft, [time])))
    }

    /// Drops the old entries of one part, by ranges of their numbers.
    private func dropEntries(
        of part: LedgerPart, _ purge: inout Purge, _ shouldStop: () -> Bool
    ) throws(StoreFailure) {
        let place = [part.value, connection.dialect.ownTime("changed_at").value(purge.cutoff)]
        let match =
            "FROM pushsweep_change WHERE part = ? AND changed_at < ?"
        let (first, last, count) = try retries.retrying("reading the change ledger") {
            () throws(SQLFailure) in
            let rows = try connection.query("SELECT MIN(seq), MAX(seq), COUNT(*) \(match)", place)
            return (rows[0, 0].integer ?? 0, rows[0, 1].integer ?? -1, rows[0, 2].count ?? 0)
        }
        guard !purge.isDry else {
            purge.progress.changes += count
            return
        }
        var changes = purge.progress.changes
        defer { purge.progress.changes = changes }
        _ = try purge.loop.run(
            from: first, isDone: { $0 > last }, shouldStop: shouldStop
        ) { (loop, start) throws(StoreFailure) in
            var dropped = 0
            let next = try loop.commit(
                after: start, doing: "dropping old entries of the change ledger",
                checkpointOf: "run \(part.run)"
            ) { (size) throws(SQLFailure) in
                let range: [SQLValue] = [.integer(start), .integer(start &+ Int64(size))]
                dropped = max(
                    dropped,
                    try connection.query(
                        "SELECT COUNT(*) \(match) AND seq >= ? AND seq < ?", place + range
                    ).scalar?.count ?? 0)
                _ = try connection.execute(
                    "DELETE \(match) AND seq >= ? AND seq < ?", place + range)
                return .committed(start &+ Int64(size), entries: size, bytes: 0)
            } checkpoint: {
                start
            }
            changes += dropped
            return next
        }
    }

    /// Drops the batches of a run that have not changed since and of which the ledger has no entry that stays, each with its
    /// hold and its parts of any run; the run's parts without a batch; and its record after the last of its parts. A part
    /// goes with its batch, because it says under which mapping the reports were judged and what an undo took back.
    private func dropRecord(of run: String, _ purge: inout Purge) throws(StoreFailure) {
        let doing = "dropping the record of run \(run)"
        let time = connection.dialect.ownTime("changed_at")
        let place: [SQLValue] = [.text(run), time.value(purge.records)]
        let plan = purge
        let (batches, stays) = try retries.retrying(doing) { () throws(SQLFailure) in
            (
                try oldBatches(of: run, plan),
                try connection.query(
                    "SELECT 1 FROM pushsweep_batch WHERE run = ? AND changed_at >= ? LIMIT 1", place
                ).count > 0
            )
        }
        let parts = try retries.retrying(doing) { () throws(SQLFailure) in
            try oldParts(of: run, plan, with: batches)
        }
        var isLast = !stays && !parts.areMore
        purge.progress.batches += batches.count
        if isLast { purge.progress.runs += 1 }
        guard !purge.isDry else { return }
        try retries.retrying(doing) { () throws(SQLFailure) in
            try connection.begin()
            for batch in batches {
                if try !drop(batch, of: .text(run), before: place[1]) { isLast = false }
            }
            for part in parts.old {
                _ = try connection.execute(
                    "DELETE FROM pushsweep_part WHERE number = ? AND NOT EXISTS (SELECT 1 FROM pushsweep_change "
                        + "WHERE part = ?)", [part, part])
            }
            if isLast {
                _ = try connection.execute("DELETE FROM pushsweep_run WHERE id = ?", [.text(run)])
            }
            try connection.commit()
        }
    }

    /// Drops a batch by its number, in the caller's transaction, if no other host has moved it since. Its counts stay in
    /// the daily totals.
    ///
    /// - Returns: false where it stays.
    private func drop(
        _ batch: SQLValue, of run: SQLValue, before time: SQLValue
    ) throws(SQLFailure) -> Bool {
        let isDue = try connection.query(
            "SELECT 1 FROM pushsweep_batch WHERE number = ? AND run = ? AND state IN ('applied', 'discarded', "
                + "'filling') AND (changed_at IS NULL OR changed_at < ?)"
                + connection.dialect.rowLock, [batch, run, time])
        guard isDue.count > 0 else { return false }
        try EvidenceHistory.keep([batch, run], on: connection)
        for statement in [
            "DELETE FROM pushsweep_batch WHERE number = ?",
            "DELETE FROM pushsweep_hold WHERE batch = ?",
            "DELETE FROM pushsweep_part WHERE batch = ? AND NOT EXISTS (SELECT 1 FROM pushsweep_change WHERE "
                + "part = pushsweep_part.number)",
        ] {
            _ = try connection.execute(statement, [batch])
        }
        return true
    }

    /// The parts of a run that go with it: no entry of theirs stays, and they have no batch, or none any more. Also
    /// whether there are others, but for those of batches that go.
    private func oldParts(
        of run: String, _ purge: Purge, with batches: [SQLValue]
    ) throws(SQLFailure) -> (old: [SQLValue], areMore: Bool) {
        let rows = try connection.query(
            "SELECT p.number, b.number, CASE WHEN EXISTS (SELECT 1 FROM pushsweep_change c WHERE c.part = p.number "
                + "AND c.changed_at >= ?) THEN 1 ELSE 0 END FROM pushsweep_part p LEFT JOIN pushsweep_batch b "
                + "ON b.number = p.batch WHERE p.run = ? ORDER BY p.number",
            [connection.dialect.ownTime("changed_at").value(purge.cutoff), .text(run)])
        let going = Set(batches.compactMap(\.integer))
        var (old, areMore) = ([SQLValue](), false)
        for row in 0..<rows.count {
            let batch = rows[row, 1].integer
            if rows[row, 2].count != 0 || batch.map({ !going.contains($0) }) ?? false {
                areMore = true
            } else if batch == nil {
                old.append(rows[row, 0])
            }
        }
        return (old, areMore)
    }

    /// The numbers of the batches of a run that are decided and old, with no reports, nothing quarantined, and no entry
    /// of the ledger that stays.
    private func oldBatches(of run: String, _ purge: Purge) throws(SQLFailure) -> [SQLValue] {
        let time = connection.dialect.ownTime("changed_at")
        // Where removing the reports was stopped, their batch stays.
        let rows = try connection.query(
            "SELECT m.number FROM pushsweep_batch m WHERE m.run = ? AND m.state IN ('applied', 'discarded') "
                + (purge.isDry ? "" : "AND m.trimmed = 2 ")
                + "AND NOT EXISTS (SELECT 1 FROM pushsweep_quarantine q WHERE q.batch = m.number) "
                + "AND (m.changed_at IS NULL OR m.changed_at < ?) AND NOT EXISTS (SELECT 1 FROM pushsweep_part p "
                + "JOIN pushsweep_change c ON c.part = p.number WHERE p.batch = m.number AND c.changed_at >= ?) "
                + "ORDER BY m.number",
            [.text(run), time.value(purge.records), time.value(purge.cutoff)])
        return (0..<rows.count).map { rows[$0, 0] }
    }

    /// Drops batches of which nothing is left and that no run has a record of: empty ones, and drafts of imports
    /// that were killed.
    private func dropEmpty(_ purge: inout Purge) throws(StoreFailure) {
        let cutoff = connection.dialect.ownTime("changed_at").value(purge.records)
        let doing = "dropping empty batches"
        let isEmpty =
            "state IN ('applied', 'filling') AND reports = removed AND quarantined = 0 AND changed_at < ? "
            + "AND NOT EXISTS (SELECT 1 FROM pushsweep_part AS p WHERE p.batch = pushsweep_batch.number AND "
            + "p.rows_changed > 0) AND NOT EXISTS (SELECT 1 FROM pushsweep_quarantine AS q WHERE "
            + "q.batch = pushsweep_batch.number) "
        let found = try retries.retrying(doing) { () throws(SQLFailure) in
            let rows = try connection.query(
                "SELECT number, run FROM pushsweep_batch WHERE \(isEmpty)AND run NOT IN (SELECT id FROM "
                    + "pushsweep_run)", [cutoff])
            return (0..<rows.count).map { (batch: rows[$0, 0], run: rows[$0, 1]) }
        }
        purge.progress.batches += found.count
        guard !purge.isDry else { return }
        // If they are still so: an import may have begun to fill one again.
        for item in found {
            try retries.retrying(doing) { () throws(SQLFailure) in
                try connection.begin()
                let isStill = try connection.query(
                    "SELECT 1 FROM pushsweep_batch WHERE number = ? AND \(isEmpty)"
                        + connection.dialect.rowLock, [item.batch, cutoff])
                if isStill.count > 0 { _ = try drop(item.batch, of: item.run, before: cutoff) }
                try connection.commit()
            }
        }
    }
}
