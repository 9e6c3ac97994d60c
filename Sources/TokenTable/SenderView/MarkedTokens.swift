import APNsProtocol
import Database
import Findings
import TokenHygiene

// Which tokens may be stale or idle, as a set that is read once. A stale token has a mark in its row, a dead value
// in the column of living rows, or a mark in `pushsweep_invalid`; an idle one has an old registration. The set has every token with one of
// these, also where a later registration has overridden it: the rows decide about a hit, one by one.
//
// The table is read in ranges of its key, so that no statement reads more than a range.

extension TokenTable {
    /// Adds the fingerprints of every token of a partition that may be stale or idle. Stops where the set has no
    /// more room, which is then incomplete, or where `shouldStop` says so.
    ///
    /// - Throws: `configuration` where the table does not fit the settings; any failure of a query.
    package func addMarkedTokens(
        of partition: Partition, to set: inout TokenFingerprints,
        shouldStop: () -> Bool = { false }, progress: (Int) -> Void = { _ in }
    ) throws(StoreFailure) {
        let layout = try layout()
        let terms = [
            Self.markCondition(layout, connection.dialect), try idleCondition(layout, partition),
        ].compactMap { $0 }
        if !terms.isEmpty {
            let any = (
                " AND (" + terms.map(\.sql).joined(separator: " OR ") + ")", terms.flatMap(\.values)
            )
            try addMarkedRows(layout, any, partition, &set, shouldStop, progress)
        }
        guard !set.isIncomplete, !shouldStop(), try canReadTokenMarks() else { return }
        let marks = InvalidTokenTable(partition: partition, connection: connection)
        let ranges = KeyRanges(ofTokenMarks: connection)
        var position: [SQLValue]? = []
        try walk(ranges, after: &position, doing: "reading the marks of \(partition)") {
            range throws(SQLFailure) in
            try ranges.query("token", in: range, marks.condition)
        } take: { tokens, _ in
            for row in 0..<tokens.count {
                guard case .bytes(let bytes) = tokens[row, 0] else { continue }
                set.insert(bytes.withUnsafeBytes { set.fingerprint($0) })
            }
            progress(set.count)
            return !set.isIncomplete && !shouldStop()
        }
    }

    private func addMarkedRows(
        _ layout: TableLayout, _ mark: BoundSQL, _ partition: Partition,
        _ set: inout TokenFingerprints, _ shouldStop: () -> Bool, _ progress: (Int) -> Void
    ) throws(StoreFailure) {
        let ranges = KeyRanges(layout, try catalogTable(), connection)
        let condition = try layout.selection(of: partition).condition(connection.dialect)
        let token = connection.dialect.quoted(layout.token.name)
        let all = (condition.sql + mark.sql, condition.values + mark.values)
        var position: [SQLValue]? = shouldStop() ? nil : []
        try walk(
            ranges, after: &position, doing: "reading the marked rows of \(layout.table)"
        ) { range throws(SQLFailure) in
            try ranges.query(token, in: range, all)
        } take: { rows, _ in
            for row in 0..<rows.count {
                guard let token = layout.token.token(rows[row, 0]) else { continue }
                set.insert(token)
            }
            progress(set.count)
            return !set.isIncomplete && !shouldStop()
        }
    }

    /// The condition that selects rows that are idle; nil where none is.
    private func idleCondition(
        _ layout: TableLayout, _ partition: Partition
    ) throws(StoreFailure) -> BoundSQL? {
        guard let cutoff = try idleSince(), let registration = layout.registration else {
            return nil
        }
        let rows = try sendableRows([partition], countingSideMarks: false)
        let registered = rows.instant(registration).milliseconds(roundingUp: true)
        return ("\(registered) <= \(cutoff.rawValue)", [])
    }

    /// The condition that selects rows with a mark; nil where marks are in `pushsweep_invalid` alone.
    private static func markCondition(_ layout: TableLayout, _ dialect: SQLDialect) -> BoundSQL? {
        if let living = layout.living {
            return ("\(dialect.quoted(living.name)) = ?", [living.compared(living.dead)])
        }
        return layout.mark.map { ("\(dialect.quoted($0.name)) IS NOT NULL", []) }
    }
}
