// A mark ahead of the clock silences its device until then: it registers again, and the registration is still the
// earlier of the two. No inlet takes such a time today, but a wrong clock of the database may have let one pass, or
// a restored table. So the marks of the latest changes are looked at, in the ledger, which names their runs; and a
// mark counts only where it is still in force.

import APNsProtocol
import Database
import Findings
import TokenHygiene

extension TokenTable {
    /// The parts of runs, the latest first, and the entries of all together that are searched.
    private static let (mostParts, mostEntries) = (100, 1_000_000)
    /// The entries with such a time of a part whose marks are compared, and the runs that are named.
    private static let (mostCompared, mostRuns) = (100, 3)

    /// The finding about marks in force that are further ahead of the database's clock than evidence may be; nil without
    /// one, and where the account may not read the ledger.
    func futureMarks(_ layout: TableLayout) throws(StoreFailure) -> Finding? {
        guard try session.canRead(PushsweepTable.batch.name, "changed_at"),
            try session.canRead(PushsweepTable.part.name, "table_name, rows_changed, rows_refused"),
            try session.canRead(PushsweepTable.change.name, "part, action, token, evidence_at")
        else { return nil }
        let latest = EvidenceBounds(now: try session.databaseTime()).latest
        let parts = try retries.retrying(
            "looking for the latest changes",
            do: connection.query(
                "SELECT p.run, p.number, p.rows_changed FROM \(LedgerParts.ofBatches) WHERE p.rows_changed > 0 AND "
                    + (layout.ignoresNameCase ? "LOWER(table_name) = LOWER(?) " : "table_name = ? ")
                    + "ORDER BY b.changed_at DESC LIMIT \(Self.mostParts)",
                [.text(layout.table.description)]))
        var (count, searched, runs) = (0, 0, [String]())
        for row in 0..<parts.count where searched < Self.mostEntries {
            searched += parts[row, 2].count ?? 0
            let part = parts.part(row, 0)
            let found = try futureMarks(of: part, after: latest, layout)
            guard found > 0 else { continue }
            count += found
            if !runs.contains(part.run) { runs.append(part.run) }
        }
        guard count > 0 else { return nil }
        let undo = runs.prefix(Self.mostRuns).map { "`pushsweep undo \($0)`" }
            .joined(separator: ", ")
        return .warning(
            "mark-in-future",
            "\(layout.table): \(count == Self.mostCompared ? "at least " : "")\(count) "
                + "\(count == 1 ? "mark is" : "marks are") more than 5 minutes ahead of the database's clock, so a device "
                + "that registers again stays marked until then; check that clock and the gateway's, then take the changes back: "
                + undo)
    }

    /// How many marks of one part are in force and later than a time.
    private func futureMarks(
        of part: LedgerPart, after latest: EpochMilliseconds, _ layout: TableLayout
    ) throws(StoreFailure) -> Int {
        let time = connection.dialect.ownTime("evidence_at")
        let lookup = try RowLookup(layout, connection, nil, wholeRows: false)
        return try retries.retrying("looking for marks ahead of the clock") {
            () throws(SQLFailure) -> Int in
            let entries = try connection.query(
                "SELECT token FROM pushsweep_change WHERE part = ? AND seq >= 0 "
                    + "AND action IN ('mark', 'advance', 'side-mark') AND evidence_at > ? "
                    + "ORDER BY seq LIMIT \(Self.mostCompared)", [part.value, time.value(latest)]
            )
            let tokens = Set((0..<entries.count).compactMap { entries.token($0, 0) }).sorted()
            guard !tokens.isEmpty else { return 0 }
            guard !layout.marksStandBeside else {
                let marks = try InvalidTokenTable.marks(
                    on: tokens, of: nil, connection, locking: false)
                return marks.values.count { $0.contains { $0.time.map { $0 > latest } ?? false } }
            }
            let evidence = tokens.map { TokenEvidence(token: $0, time: latest) }
            return try lookup.rows(for: evidence[...], locking: false).rows.count { row in
                row.mark.map { $0 > latest } ?? false
            }
        }
    }
}
