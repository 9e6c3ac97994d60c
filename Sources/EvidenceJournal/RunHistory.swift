import APNsProtocol
import Database
import TokenHygiene

/// The record of one run in the journal.
package struct RunEntry: Hashable, Sendable {
    /// A random UUID in lower case.
    package let id: String
    /// The kind of run, such as `sweep` or `replay`.
    package let kind: String
    /// The time at which it began.
    package let started: EpochMilliseconds
    /// The time at which it ended; nil for a run that is alive or was killed.
    package var ended: EpochMilliseconds?
    /// The person or service that ran it.
    package let `operator`: String
    /// Its exit code; nil until it has ended.
    package var exit: Int32?
    /// Its report as one JSON object, whether or not the run printed it.
    package let summary: String?
}

extension EvidenceJournal {
    /// Records that a run begins.
    package func beginRun(
        _ id: String, kind: String, by operator: String = "", at now: EpochMilliseconds
    ) throws(JournalFailure) {
        try perform("recording the start of run \(id)") { db in
            try db.change(
                "INSERT INTO run (id, kind, operator, started) VALUES (?, ?, ?, ?)", id, kind,
                `operator`, now)
        }
    }

    /// Records how a run ended.
    package func endRun(
        _ id: String, exit: Int32, summary: String, at now: EpochMilliseconds
    ) throws(JournalFailure) {
        try perform("recording the end of run \(id)") { db in
            try db.change(
                "UPDATE run SET ended = ?, exit = ?, summary = ? WHERE id = ?", now, exit, summary,
                id)
        }
    }

    /// Stores the report so far of a run that has not ended.
    package func noteProgress(_ id: String, summary: String) throws(JournalFailure) {
        try perform("recording the progress of run \(id)") { db in
            try db.change("UPDATE run SET summary = ? WHERE id = ?", summary, id)
        }
    }

    /// The latest runs, newest first.
    package func runs(limit: Int) throws(JournalFailure) -> [RunEntry] {
        try perform("listing runs") { db in
            try db.rows(
                "SELECT * FROM run ORDER BY started DESC, rowid DESC LIMIT ?", [limit],
                RunEntry.init)
        }
    }

    /// The latest runs of some kinds, newest first.
    package func runs(
        ofKinds kinds: [String], limit: Int
    ) throws(JournalFailure) -> [RunEntry] {
        try perform("listing runs") { db in
            let places = kinds.map { _ in "?" }.joined(separator: ",")
            return try db.rows(
                "SELECT * FROM run WHERE kind IN (\(places)) ORDER BY rowid DESC LIMIT ?",
                kinds + [limit], RunEntry.init)
        }
    }

    /// Deletes the records of runs that began before a time. The last run of each kind and the last
    /// that ended with 0 stay, because `lastRun` returns them however old they are.
    ///
    /// - Returns: the number of deleted records.
    @discardableResult
    package func forgetRuns(before cutoff: EpochMilliseconds) throws(JournalFailure) -> Int {
        func last(_ condition: String) -> String {
            "SELECT MAX(rowid) FROM run WHERE \(Self.isNoTrial) \(condition) GROUP BY kind"
        }
        return try perform("dropping old runs from the journal") { db in
            try db.change(
                """
                DELETE FROM run WHERE started < ? AND rowid NOT IN (\(last("")))
                AND rowid NOT IN (\(last("AND exit = 0")))
                """, cutoff)
        }
    }

    /// An SQL condition: the run was no dry run. It is NULL for a run without a report.
    private static let isNoTrial = #"instr(summary, '"dryRun":true') = 0"#

    /// The last run of a kind that has a report and was no dry run, and the end of the last of these
    /// runs that ended with 0; nil when there is none. "Last" is by order of insertion and does not
    /// depend on the clock. A success that ended later than `limit` does not count: the clock was wrong
    /// then, or is wrong now.
    package func lastRun(
        _ kind: String, successUntil limit: EpochMilliseconds = EpochMilliseconds(.max)
    ) throws(JournalFailure) -> (run: RunEntry, succeeded: EpochMilliseconds?)? {
        func last(_ condition: String) -> String {
            """
            SELECT * FROM run WHERE kind = ? AND \(Self.isNoTrial) \(condition)
            ORDER BY rowid DESC LIMIT 1
            """
        }
        return try perform("looking for the last run") { db in
            guard let run = try db.rows(last(""), [kind], RunEntry.init).first else {
                return nil
            }
            let success = try db.rows(
                last("AND exit = 0 AND ended <= ?"), [kind, limit], RunEntry.init
            ).first
            return (run, success?.ended)
        }
    }
}

extension RunEntry {
    fileprivate init(_ row: JournalRow) throws {
        self.init(
            id: try row.value("id"), kind: try row.value("kind"),
            started: try row.value("started"), ended: try row.optional("ended"),
            operator: try row.value("operator"), exit: try row.optional("exit"),
            summary: try row.optional("summary"))
    }
}
