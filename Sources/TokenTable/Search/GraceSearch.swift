// Finds the rows whose grace period has ended. The table has no index over marks, because it would add a cost to every
// change. So the table is read once in the order of its key, in bounded ranges without locks (`KeyRanges`). Marks beside
// the table are read in the order of their tokens.

import APNsProtocol
import Database
import Findings
import TokenHygiene

/// Searches one partition for rows that are due.
package struct GraceSearch {
    private let table: TokenTable
    private let layout: TableLayout
    private let partition: Partition
    private let period: GracePeriod
    private let lookup: RowLookup
    private let tokenMarks: InvalidTokenTable
    /// Whether the account sees what persons said no to, and what was decided of reports.
    private let seesNotes: Bool

    private var connection: any SQLConnection { table.connection }

    /// Prepares the search in a partition as the table's rows name it.
    ///
    /// - Throws: any failure of reading.
    package init(
        _ period: GracePeriod, in partition: Partition, _ table: TokenTable
    ) throws(StoreFailure) {
        (self.period, self.partition, self.table) = (period, partition, table)
        layout = try table.layout()
        lookup = try RowLookup(layout, table.connection, partition, wholeRows: false)
        tokenMarks = InvalidTokenTable(partition: partition, connection: table.connection)
        let seesReports = try Batches(table).visibility() == .readable
        seesNotes = try seesReports ? table.seesSpared() : false
    }

    /// Passes on the due tokens of each range, with the times of their marks, in no order. Those are left out to which a
    /// person said no, and those that a batch of the last day left in place. Pauses as the throttle requires.
    ///
    /// - Returns: false where `shouldStop` ended it early.
    /// - Throws: failures of reading, and of `take`.
    package func run(
        shouldStop: () -> Bool, _ take: ([TokenEvidence]) throws -> Void
    ) throws -> Bool {
        guard period.policy.action == .delete, period.policy.deletesAfter != nil else {
            return true
        }
        // An account that sees the token table alone sees no marks beside it.
        if layout.mark == nil, try !table.canReadTokenMarks() { return true }
        let ranges =
            try layout.mark == nil
            ? KeyRanges(ofTokenMarks: connection)
            : KeyRanges(layout, table.catalogTable(), connection, namedOnly: true)
        var position: [SQLValue]? = []
        while let start = position {
            guard !shouldStop(), try table.session.waitForThrottle(shouldStop: shouldStop) else {
                return false
            }
            let (found, end) = try table.retries.retrying(
                "looking for rows of \(layout.table) whose grace period has ended"
            ) { () throws(SQLFailure) in
                let end = try ranges.end(after: start)
                let range = ranges.condition(after: start, upTo: end)
                return (try wanted(due(ranges, range)), end)
            }
            if !found.isEmpty { try take(found) }
            position = end
        }
        return true
    }

    private func due(
        _ ranges: KeyRanges, _ range: BoundSQL
    ) throws(SQLFailure) -> [TokenEvidence] {
        guard let mark = layout.mark else { return try dueBeside(ranges, range) }
        let rows = try ranges.query(
            lookup.columns.map(connection.dialect.quoted).joined(separator: ", "), in: range,
            isMarked(mark))
        try rows.require(width: lookup.columns.count)
        return (0..<rows.count).compactMap { index in
            guard let row = lookup.match(rows.row(index), evidence: 0), let time = row.mark,
                let token = layout.token.token(row[lookup.token]),
                period.isDue(row.judged(markedAt: nil), time, lookup.name(of: row), mark: nil)
            else { return nil }
            return TokenEvidence(token: token, time: time)
        }
    }

    private func dueBeside(
        _ ranges: KeyRanges, _ range: BoundSQL
    ) throws(SQLFailure) -> [TokenEvidence] {
        let time = connection.dialect.ownTime("invalidated_at")
        let old = tokenMarks.condition
        let rows = try ranges.query(
            "token, invalidated_at", in: range,
            ("\(old.sql) AND invalidated_at <= ?", old.values + [time.value(period.cutoff)]))
        var due: [TokenEvidence] = []
        let marked = (0..<rows.count).compactMap { row -> TokenEvidence? in
            guard let token = rows.token(row, 0), let at = time.mark(rows[row, 1]) else {
                return nil
            }
            return TokenEvidence(token: token, time: at)
        }.sorted { $0.token < $1.token }
        for some in marked.runs(of: StatementShape.longest) {
            var seen: Set<Int> = []
            for row in try lookup.rows(for: some, locking: false).rows {
                let item = some[row.evidence]
                let isDue = period.isDue(
                    row.judged(markedAt: item.time), item.time, lookup.name(of: row),
                    mark: RowImage.key([.bytes(item.token.bytes)]))
                if isDue, seen.insert(row.evidence).inserted { due.append(item) }
            }
        }
        return due
    }

    /// The marked rows whose mark may be old enough. Marks in text columns are not compared in the
    /// statement, because text does not sort by its time.
    private func isMarked(_ mark: TimeColumn) -> BoundSQL {
        let name = connection.dialect.quoted(mark.name)
        var (sql, values) = (" AND \(name) IS NOT NULL", [SQLValue]())
        if case .text = mark.storage {
        } else {
            sql += " AND \(name) <= ?"
            values.append(mark.value(mark.floor(period.cutoff)))
        }
        return (sql + lookup.condition.sql, values + lookup.condition.values)
    }

    /// Without those that a person spared, and those that a batch left in place within a day.
    private func wanted(_ due: [TokenEvidence]) throws(SQLFailure) -> [TokenEvidence] {
        guard seesNotes, !due.isEmpty else { return due }
        let notes = try SparedTokens(connection: connection).notes(on: due.map(\.token))
        let open = due.filter { notes[$0.token]?.sparesMark(of: $0.time, heard: .unknown) != true }
        var left: Set<DeviceToken> = []
        for some in open.runs(of: StatementShape.longest) {
            let padded = StatementShape.padded(some.map { SQLValue.bytes($0.token.bytes) })
            let rows = try connection.query(
                "SELECT r.token FROM pushsweep_report AS r JOIN pushsweep_batch AS f ON f.number = r.batch "
                    + "WHERE r.token IN (\(placeholders(padded.count))) AND f.source = "
                    + "'\(EvidenceSource.grace.rawValue)' AND r.state IN (\(ReportState.newer.rawValue), "
                    + "\(ReportState.refused.rawValue)) AND r.changed_at > "
                    + connection.dialect.now(adding: -86_400), padded)
            for row in 0..<rows.count {
                if let token = rows.token(row, 0) { left.insert(token) }
            }
        }
        return open.filter { !left.contains($0.token) }
    }
}
