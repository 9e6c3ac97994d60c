// What became of the evidence, day by day. The checkpoints of batches say it for as long as they are
// kept, at least 30 days. A purge adds the counts of each checkpoint to `pushsweep_day` in the
// transaction that drops it, so each batch is in exactly one of the two, and their sum is the history.
//
// The day is that of the last change of the batch by the database's clock, in UTC. A batch that was begun
// and never moved has no such time and no counts.

import APNsProtocol
import Database
import Encodings
import Findings
import TokenHygiene

/// What became of the evidence of one day, app, environment and source.
package struct DayOfEvidence: Hashable, Sendable {
    /// The day in UTC, `2026-11-23`.
    package let day: String
    /// The app and environment.
    package let partition: Partition
    /// `feedback`, a reason of APNs, `delete-after` or `undo`.
    package let source: String
    /// The tuples by outcome.
    package let counts: Counts
    /// Among those that made a row invalid: the ones whose run was undone since.
    package let undone: Int
}

/// Reads and keeps the daily totals.
package struct EvidenceHistory {
    private static let day = "SUBSTR(changed_at, 1, 10)"

    private let session: DatabaseSession

    /// Reads the database of a token table.
    package init(_ table: TokenTable) { session = table.session }

    /// The totals of all days from `first` to `last`, oldest first. Both are days in UTC. Empty
    /// tables of an account that may not read them count as nothing; see `isReadable`. `undone` are the runs that were
    /// undone, by their names; a purge forgets which run a report had.
    ///
    /// - Throws: any failure of reading.
    package func days(
        from first: String, to last: String, undone: [String] = []
    ) throws(StoreFailure) -> [DayOfEvidence] {
        let sums = Counts.columns.map { "SUM(\($0))" }.joined(separator: ", ")
        let columns = Counts.columns.joined(separator: ", ")
        let kept =
            try session.canRead(PushsweepTable.day.name, "day")
            ? "UNION ALL SELECT day, app, environment, source, \(columns), 0 FROM pushsweep_day"
            : ""
        let marks = undone.map { _ in "?" }.joined(separator: ", ")
        let takenBack = undone.isEmpty ? "0" : "CASE WHEN run IN (\(marks)) THEN applied ELSE 0 END"
        // What only makes a token suspect, or is no report, applies to no row.
        let others = EvidenceSource.allCases.filter { !EvidenceSource.ofMarks.contains($0) }
            .map { session.connection.dialect.literal($0.rawValue) }.joined(separator: ", ")
        let sql =
            "SELECT day, app, environment, source, \(sums), SUM(undone) FROM (SELECT \(Self.day) AS day, app, "
            + "environment, source, \(columns), \(takenBack) AS undone FROM pushsweep_batch WHERE state IN ('filling', 'applying', 'applied') \(kept)) AS totals WHERE day >= ? AND day <= ? "
            + "AND source NOT IN (\(others)) GROUP BY day, app, environment, source ORDER BY day, app, environment, source"
        return try session.retries.retrying("reading the history of evidence") {
            () throws(SQLFailure) in
            let rows = try session.connection.query(
                sql, undone.map(SQLValue.text) + [.text(first), .text(last)])
            try rows.require(width: 10)
            return (0..<rows.count).map { row in
                DayOfEvidence(
                    day: rows.string(row, 0), partition: rows.partition(row, 1),
                    source: rows.string(row, 3), counts: rows.counts(row, 4),
                    undone: rows[row, 9].count ?? 0)
            }
        }
    }

    /// What was heard of each app, by the table's value, and environment on each of the last days, oldest first, as many
    /// as a look at their rhythm needs. The last is the day of `now`, which is of the database's clock. What is not judged
    /// yet, or held, was heard as well; it names the app as the settings do, of which `stored` tells the values. What is
    /// judged again was heard before.
    ///
    /// - Throws: any failure of reading.
    package func pulse(
        at now: EpochMilliseconds, _ stored: [Partition: Partition]
    ) throws(StoreFailure) -> [Partition: [DayOfPulse]] {
        let today = Int(now.rawValue / 86_400_000)
        let names = ((today - Pulse.span)...today).map {
            String(RFC3339.text(milliseconds: Int64($0) * 86_400_000).prefix(10))
        }
        let places = Dictionary(
            zip(names, names.indices).map { ($0, $1) }, uniquingKeysWith: { $1 })
        var pulse: [Partition: [DayOfPulse]] = [:]
        for heard in try heard(from: names[0]) {
            guard let place = places[heard.day], let source = EvidenceSource(rawValue: heard.source)
            else { continue }
            let partition =
                heard.isJudged ? heard.partition : stored[heard.partition] ?? heard.partition
            var known = pulse[partition] ?? Array(repeating: DayOfPulse(), count: names.count)
            if source.isSuspicion {
                known[place].bad += heard.reports
            } else if EvidenceSource.deaths.contains(source) {
                known[place].evidence += heard.reports
                known[place].unknown += heard.unknown
                known[place].newer += heard.newer
            }
            pulse[partition] = known
        }
        return pulse
    }

    /// What was heard on one day.
    private struct Heard {
        let day: String
        let partition: Partition
        let source: String
        let isJudged: Bool
        let reports: Int
        let unknown: Int
        let newer: Int
    }

    private func heard(from first: String) throws(StoreFailure) -> [Heard] {
        let all = Counts.columns.joined(separator: " + ")
        let kept =
            try session.canRead(PushsweepTable.day.name, "day")
            ? " UNION ALL SELECT day, app, environment, source, 1, \(all), unknown_tokens, newer FROM pushsweep_day"
            : ""
        return try session.retries.retrying("reading the rhythm of the evidence") {
            () throws(SQLFailure) in
            let rows = try session.connection.query(
                "SELECT day, app, environment, source, judged, SUM(heard), SUM(unknown_tokens), SUM(newer) FROM ("
                    + "SELECT SUBSTR(COALESCE(opened_at, changed_at), 1, 10) AS day, app, environment, source, "
                    + "CASE WHEN state IN ('applying', 'applied') THEN 1 ELSE 0 END AS judged, "
                    + "reports AS heard, unknown_tokens, newer "
                    + "FROM pushsweep_batch WHERE inlet <> 'earlier' "
                    + "AND NOT (state = 'filling' AND inlet = 'file' AND source <> 'feedback')\(kept)) AS days "
                    + "WHERE day >= ? GROUP BY day, app, environment, source, judged",
                [.text(first)])
            try rows.require(width: 8)
            return (0..<rows.count).map { row in
                Heard(
                    day: rows.string(row, 0), partition: rows.partition(row, 1),
                    source: rows.string(row, 3), isJudged: rows[row, 4].count == 1,
                    reports: rows[row, 5].count ?? 0, unknown: rows[row, 6].count ?? 0,
                    newer: rows[row, 7].count ?? 0)
            }
        }
    }

    /// Whether the account may read the checkpoints, from which the history is summed.
    ///
    /// - Throws: any failure of a query but a missing right.
    package func isReadable() throws(StoreFailure) -> Bool {
        try session.canRead(PushsweepTable.batch.name, "app, changed_at")
    }

    /// Adds the counts of a batch, by number and run, to its day, within the transaction that
    /// drops it. One that another purge has dropped meanwhile adds nothing.
    static func keep(
        _ batch: [SQLValue], on connection: any SQLConnection
    ) throws(SQLFailure) {
        let rows = try connection.query(
            "SELECT \(day), app, environment, source, \(Counts.columns.joined(separator: ", ")) "
                + "FROM pushsweep_batch WHERE number = ? AND run = ? "
                + "AND changed_at IS NOT NULL" + connection.dialect.rowLock, batch)
        guard rows.count > 0 else { return }
        try rows.require(width: 9)
        _ = try connection.execute(
            connection.dialect.accumulation(
                "pushsweep_day", key: ["day", "app", "environment", "source"], sums: Counts.columns),
            Array(rows.row(0)))
    }
}
