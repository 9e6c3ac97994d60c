import APNsProtocol
import GRDB
import TokenHygiene

/// One run of the tool as the journal remembers it.
package struct RunEntry: Hashable, Sendable {
    /// A random UUID, lower case.
    package let id: String
    /// `sweep`, `replay` and so on.
    package let kind: String
    /// When it began.
    package let started: EpochMilliseconds
    /// When it ended; nil for a run that is alive or was killed.
    package let ended: EpochMilliseconds?
    /// Its exit code.
    package let exit: Int32?
    /// The JSON summary it printed, or could have.
    package let summary: String?
}

extension EvidenceJournal {
    /// Notes that a run begins.
    package func beginRun(
        _ id: String, kind: String, at now: EpochMilliseconds
    ) throws(JournalFailure) {
        try perform("noting the start of run \(id)") { db in
            try db.execute(
                sql: "INSERT INTO run (id, kind, started) VALUES (?, ?, ?)",
                arguments: [id, kind, now.rawValue])
        }
    }

    /// Notes how a run ended.
    package func endRun(
        _ id: String, exit: Int32, summary: String, at now: EpochMilliseconds
    ) throws(JournalFailure) {
        try perform("noting the end of run \(id)") { db in
            try db.execute(
                sql: "UPDATE run SET ended = ?, exit = ?, summary = ? WHERE id = ?",
                arguments: [now.rawValue, exit, summary, id])
        }
    }

    /// Notes what a run that goes on has done so far.
    package func noteProgress(_ id: String, summary: String) throws(JournalFailure) {
        try perform("noting the progress of run \(id)") { db in
            try db.execute(
                sql: "UPDATE run SET summary = ? WHERE id = ?", arguments: [summary, id])
        }
    }

    /// The latest runs, newest first.
    package func runs(limit: Int) throws(JournalFailure) -> [RunEntry] {
        try perform("listing runs") { db in
            try Row.fetchAll(
                db, sql: "SELECT * FROM run ORDER BY started DESC, rowid DESC LIMIT ?",
                arguments: [limit]
            ).map(RunEntry.init)
        }
    }

    /// Forgets runs that began before a time. The last of each kind stay, and the last of each that
    /// ended with 0: they are what `lastRun` answers with, however long ago they were.
    ///
    /// - Returns: how many are forgotten.
    @discardableResult
    package func forgetRuns(before cutoff: EpochMilliseconds) throws(JournalFailure) -> Int {
        func last(_ condition: String) -> String {
            "SELECT MAX(rowid) FROM run WHERE \(Self.isNoTrial) \(condition) GROUP BY kind"
        }
        return try perform("dropping old runs from the journal") { db in
            try db.execute(
                sql: """
                    DELETE FROM run WHERE started < ? AND rowid NOT IN (\(last("")))
                    AND rowid NOT IN (\(last("AND exit = 0")))
                    """, arguments: [cutoff.rawValue])
            return db.changesCount
        }
    }

    /// Holds for a run that has left a summary and was no dry run.
    private static let isNoTrial = #"instr(summary, '"dryRun":true') = 0"#

    /// The last run of a kind that has left a summary and was no dry run, and when the last of them
    /// that ended with 0 ended; nil where there is none. Last in the order of their beginning, whatever
    /// the clock said.
    package func lastRun(
        _ kind: String
    ) throws(JournalFailure) -> (run: RunEntry, succeeded: EpochMilliseconds?)? {
        func last(_ condition: String) -> String {
            """
            SELECT * FROM run WHERE kind = ? AND \(Self.isNoTrial) \(condition)
            ORDER BY rowid DESC LIMIT 1
            """
        }
        return try perform("looking for the last run") { db in
            guard
                let run = try Row.fetchOne(db, sql: last(""), arguments: [kind])
                    .map(RunEntry.init)
            else { return nil }
            let success = try Row.fetchOne(db, sql: last("AND exit = 0"), arguments: [kind])
                .map(RunEntry.init)
            return (run, success?.ended)
        }
    }
}

extension RunEntry {
    fileprivate init(_ row: Row) throws {
        self.init(
            id: try row.value("id"), kind: try row.value("kind"),
            started: EpochMilliseconds(try row.value("started")),
            ended: try row.optional("ended").map { EpochMilliseconds($0) },
            exit: try row.optional("exit"), summary: try row.optional("summary"))
    }
}
