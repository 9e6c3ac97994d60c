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
        try change(
            "recording the start of run \(id)",
            """
            INSERT INTO run (id, kind, operator, started)
            VALUES (\(id), \(kind), \(`operator`), \(now))
            """)
    }

    /// Records how a run ended.
    package func endRun(
        _ id: String, exit: Int32, summary: String, at now: EpochMilliseconds
    ) throws(JournalFailure) {
        try change(
            "recording the end of run \(id)",
            "UPDATE run SET ended = \(now), exit = \(exit), summary = \(summary) WHERE id = \(id)")
    }

    /// Stores the report so far of a run that has not ended.
    package func noteProgress(_ id: String, summary: String) throws(JournalFailure) {
        try change(
            "recording the progress of run \(id)",
            "UPDATE run SET summary = \(summary) WHERE id = \(id)")
    }

    /// The latest runs, of some kinds or of all, newest first by the order of their beginning.
    package func runs(
        ofKinds kinds: [String]? = nil, limit: Int
    ) throws(JournalFailure) -> [RunEntry] {
        let which: JournalSQL = kinds.map { "WHERE kind IN (\(list: $0))" } ?? ""
        return try rows(
            "listing runs", "SELECT * FROM run \(which) ORDER BY rowid DESC LIMIT \(limit)",
            RunEntry.init)
    }

    /// The days since 1970 on which runs of a kind were at work that were no dry runs: for each day on which some
    /// began, that day, the last day of these runs, and whether one of them has no end. Runs that ended before
    /// `since` do not count.
    package func days(
        ofKind kind: String, since: EpochMilliseconds
    ) throws(JournalFailure) -> [(first: Int, last: Int, isOpen: Bool)] {
        try rows(
            "listing the days of runs",
            """
            SELECT started / 86400000 AS first, MAX(COALESCE(ended, started)) / 86400000 AS last,
            MAX(ended IS NULL) AS open FROM run
            WHERE kind = \(kind) AND (ended IS NULL OR ended >= \(since))
            AND COALESCE(\(Self.isNoTrial), 1) GROUP BY first
            """
        ) { row in
            (
                first: try row.value("first") as Int, last: try row.value("last") as Int,
                isOpen: try row.value("open") as Int != 0
            )
        }
    }

    /// Deletes the records of runs that began before a time. The last run of each kind and the last
    /// that ended with 0 stay, because `lastRun` returns them however old they are.
    ///
    /// - Returns: the number of deleted records.
    @discardableResult
    package func forgetRuns(before cutoff: EpochMilliseconds) throws(JournalFailure) -> Int {
        func last(_ condition: JournalSQL) -> JournalSQL {
            "SELECT MAX(rowid) FROM run WHERE \(Self.isNoTrial) \(condition) GROUP BY kind"
        }
        return try change(
            "dropping old runs from the journal",
            """
            DELETE FROM run WHERE started < \(cutoff) AND rowid NOT IN (\(last("")))
            AND rowid NOT IN (\(last("AND exit = 0")))
            """)
    }

    /// A condition: the run was no dry run. It is NULL for a run without a report.
    private static let isNoTrial: JournalSQL = #"instr(summary, '"dryRun":true') = 0"#

    /// The last run of a kind that has a report and was no dry run, and the end of the last of these
    /// runs that ended with 0; nil when there is none. "Last" is by order of insertion and does not
    /// depend on the clock. A success that ended later than `limit` does not count: the clock was wrong
    /// then, or is wrong now.
    package func lastRun(
        _ kind: String, successUntil limit: EpochMilliseconds = EpochMilliseconds(.max)
    ) throws(JournalFailure) -> (run: RunEntry, succeeded: EpochMilliseconds?)? {
        func last(_ condition: JournalSQL) throws(JournalFailure) -> RunEntry? {
            try rows(
                "looking for the last run",
                """
                SELECT * FROM run WHERE kind = \(kind) AND \(Self.isNoTrial) \(condition)
                ORDER BY rowid DESC LIMIT 1
                """, RunEntry.init
            ).first
        }
        guard let run = try last("") else { return nil }
        return (run, try last("AND exit = 0 AND ended <= \(limit)")?.ended)
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
