import APNsProtocol
import Database
import TokenHygiene

/// One run as its record in the database has it, with what it changed.
package struct ListedRun: Hashable, Sendable {
    /// The record.
    package let record: RunRecord
    /// Rows that it changed, by the checkpoints of its feeds.
    package let rowsChanged: Int
    /// The run that it took back, for an undo of one run.
    package let undid: String?
}

extension TokenTable {
    /// The runs of a period that changed rows, and the undos, newest first.
    ///
    /// - Throws: any failure of a query, such as a missing right to read `pushsweep_run` or
    ///   `pushsweep_feed`.
    package func changingRuns(
        from first: EpochMilliseconds, to last: EpochMilliseconds
    ) throws(StoreFailure) -> [ListedRun] {
        let time = connection.dialect.ownTime("started")
        return try retries.retrying("reading the records of runs") { () throws(SQLFailure) in
            let rows = try connection.query(
                "SELECT r.id, r.kind, r.started, r.ended, r.host, r.operator, "
                    + "CASE WHEN r.kind = 'undo' THEN r.counts END, "
                    + "COALESCE((SELECT SUM(f.rows_changed) FROM pushsweep_feed f "
                    + "WHERE f.run = r.id), 0) FROM pushsweep_run r "
                    + "WHERE r.started >= ? AND r.started <= ? ORDER BY r.started DESC, r.id DESC",
                [time.value(first), time.value(last)])
            try rows.require(width: 8)
            return (0..<rows.count).compactMap { row -> ListedRun? in
                let progress = rows[row, 6].text.flatMap(UndoProgress.init(json:))
                let record = RunRecord(
                    id: rows[row, 0].text ?? "", kind: rows[row, 1].text ?? "",
                    started: time.mark(rows[row, 2]) ?? EpochMilliseconds(0),
                    ended: time.mark(rows[row, 3]), host: rows[row, 4].text ?? "",
                    operator: rows[row, 5].text)
                let changed = (rows[row, 7].count ?? 0) + (progress?.rowsChanged ?? 0)
                guard changed > 0 || progress != nil else { return nil }
                return ListedRun(record: record, rowsChanged: changed, undid: progress?.undoneRun)
            }
        }
    }
}

extension UndoProgress {
    /// The run whose changes were taken back; nil for another selection.
    fileprivate var undoneRun: String? {
        let words = "run "
        return selection.hasPrefix(words) ? String(selection.dropFirst(words.count)) : nil
    }
}
