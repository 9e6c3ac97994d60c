import APNsProtocol
import Database
import Encodings

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
            "INSERT INTO run (id, kind, operator, started) VALUES (?, ?, ?, ?)",
            [.text(id), .text(kind), .text(`operator`), .integer(now.rawValue)])
    }

    /// Records how a run ended.
    package func endRun(
        _ id: String, exit: Int32, summary: String, at now: EpochMilliseconds
    ) throws(JournalFailure) {
        try change(
            "recording the end of run \(id)",
            "UPDATE run SET ended = ?, exit = ?, summary = ? WHERE id = ?",
            [.integer(now.rawValue), .integer(Int64(exit)), .text(summary), .text(id)])
    }

    /// Stores the report so far of a run that has not ended.
    package func noteProgress(_ id: String, summary: String) throws(JournalFailure) {
        try change(
            "recording the progress of run \(id)", "UPDATE run SET summary = ? WHERE id = ?",
            [.text(summary), .text(id)])
    }

    /// The latest runs, of one kind or of all, newest first by the order of their beginning.
    package func runs(
        ofKind kind: String? = nil, limit: Int
    ) throws(JournalFailure) -> [RunEntry] {
        try entries(
            "listing runs", kind == nil ? "" : "WHERE kind = ?", kind.map { [.text($0)] } ?? [],
            limit: limit)
    }

    private func entries(
        _ doing: String, _ condition: String, _ values: [SQLValue], limit: Int
    ) throws(JournalFailure) -> [RunEntry] {
        try rows(
            doing,
            "SELECT id, kind, started, ended, operator, exit, summary FROM run \(condition) "
                + "ORDER BY rowid DESC LIMIT \(limit)", values, RunEntry.init)
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
            WHERE kind = ? AND (ended IS NULL OR ended >= ?)
            AND COALESCE(\(Self.isNoTrial), 1) GROUP BY first
            """, [.text(kind), .integer(since.rawValue)]
        ) { row in
            let row = Array(row)
            guard let first = row[0].integer, let last = row[1].integer else {
                throw Refusal.column("started")
            }
            return (first: Int(first), last: Int(last), isOpen: row[2] != .integer(0))
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
        return try change(
            "dropping old runs from the journal",
            """
            DELETE FROM run WHERE started < ? AND rowid NOT IN (\(last("")))
            AND rowid NOT IN (\(last("AND exit = 0")))
            """, [.integer(cutoff.rawValue)])
    }

    /// A condition: the run was no dry run. It is NULL for a run without a report.
    private static let isNoTrial = #"instr(summary, '"dryRun":true') = 0"#

    /// The last run of a kind that has a report and was no dry run, and the end of the last of these
    /// runs that ended with 0; nil when there is none. "Last" is by order of insertion and does not
    /// depend on the clock. A success that ended later than `limit` does not count: the clock was wrong
    /// then, or is wrong now.
    package func lastRun(
        _ kind: String, successUntil limit: EpochMilliseconds = EpochMilliseconds(.max)
    ) throws(JournalFailure) -> (run: RunEntry, succeeded: EpochMilliseconds?)? {
        let (doing, which) = ("looking for the last run", "WHERE kind = ? AND \(Self.isNoTrial)")
        guard let run = try entries(doing, which, [.text(kind)], limit: 1).first else { return nil }
        let success = try entries(
            doing, which + " AND exit = 0 AND ended <= ?", [.text(kind), .integer(limit.rawValue)],
            limit: 1)
        return (run, success.first?.ended)
    }
}

extension RunEntry {
    /// Reads a row with the columns in the order of `entries`.
    fileprivate init(_ row: ArraySlice<SQLValue>) throws(Refusal) {
        var row = row
        func next<T>(_ column: String, _ value: (SQLValue) -> T?) throws(Refusal) -> T? {
            guard let found = row.popFirst(), found != .null else { return nil }
            guard let value = value(found) else { throw .column(column) }
            return value
        }
        func needed<T>(_ column: String, _ value: (SQLValue) -> T?) throws(Refusal) -> T {
            guard let value = try next(column, value) else { throw .column(column) }
            return value
        }
        func time(_ value: SQLValue) -> EpochMilliseconds? { value.integer.map { .init($0) } }
        func text(_ value: SQLValue) -> String? {
            if case .text(let text) = value { text.string } else { nil }
        }
        self.init(
            id: try needed("id", text), kind: try needed("kind", text),
            started: try needed("started", time), ended: try next("ended", time),
            operator: try needed("operator", text),
            exit: try next("exit") { $0.integer.flatMap(Int32.init(exactly:)) },
            summary: try next("summary", text))
    }
}
