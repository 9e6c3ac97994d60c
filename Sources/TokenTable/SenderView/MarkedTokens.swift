import APNsProtocol
import Database
import Findings
import TokenHygiene

// Which tokens may be stale, as a set that is read once. A stale token has a mark in its row, a dead value in the
// column of living rows, or a mark in `pushsweep_invalid`. The set has every token with one of these, also where a later
// registration has overridden it: the rows decide about a hit, one by one.
//
// The table is read in ranges of its key, so that no statement reads more than a range.
//
// Where a unique index lets a partition have a token once, and bytes are its only spelling, its row alone decides: it is
// judged where it is read, by the condition of the view. Then a token that came back is in no set, and a stale one is in
// a second set, too, under keys of its own. A hit in both is an answer, since two sets that err at once with one token
// are as likely as a digest of 128 bits that is equal by chance; a hit in the first alone is a question.

extension TokenTable {
    /// Adds the fingerprints of every token of a partition that may be stale. Stops where the set has no
    /// more room, which is then incomplete, or where `shouldStop` says so. `decided` gets those that are stale for
    /// certain; nil where `judgesMarksAlone` says no.
    ///
    /// - Throws: `configuration` where the table does not fit the settings; any failure of a query.
    package func addMarkedTokens(
        of partition: Partition, to set: inout TokenFingerprints,
        decided: inout TokenFingerprints?,
        shouldStop: () -> Bool = { false }, progress: (Int) -> Void = { _ in }
    ) throws(StoreFailure) {
        let layout = try layout()
        if let mark = Self.markCondition(layout, connection.dialect) {
            try addMarkedRows(
                layout, (" AND \(mark.sql)", mark.values), partition, &set, &decided, shouldStop,
                progress)
        }
        guard !set.isIncomplete, !shouldStop(),
            try decidesByTokenMarks(to: "reading the marks of \(partition)")
        else { return }
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
        _ set: inout TokenFingerprints, _ decided: inout TokenFingerprints?,
        _ shouldStop: () -> Bool, _ progress: (Int) -> Void
    ) throws(StoreFailure) {
        let ranges = KeyRanges(layout, try catalogTable(), connection)
        let selection = try layout.selection(of: partition)
        let condition = selection.condition(connection.dialect)
        // Under a collation that takes letters for one, the statement also finds rows of other apps.
        let compared = selection.compared
        let living =
            decided == nil
            ? "0"
            : try sendableRows([partition], countingSideMarks: false).mark
                .joined(separator: " AND ")
        let list =
            ([
                "\(connection.dialect.quoted(layout.token.name))",
                "CASE WHEN \(living) THEN 1 ELSE 0 END",
            ]
            + compared.map { connection.dialect.quoted($0.column) }).joined(separator: ", ")
        let all = (condition.sql + mark.sql, condition.values + mark.values)
        var position: [SQLValue]? = shouldStop() ? nil : []
        try walk(
            ranges, after: &position, doing: "reading the marked rows of \(layout.table)"
        ) { range throws(SQLFailure) in
            try ranges.query(list, in: range, all)
        } take: { rows, _ in
            for row in 0..<rows.count {
                guard let token = layout.token.token(rows[row, 0]) else { continue }
                let isOurs = compared.enumerated().allSatisfy { rows[row, 2 + $0] == $1.value }
                guard isOurs, rows[row, 1].count != 1 else { continue }
                set.insert(token)
                _ = decided?.insert(token)
            }
            progress(set.count)
            return !set.isIncomplete && !shouldStop()
        }
    }

    /// Whether the one row that a partition can have with a token decides about it: no mark counts beside the table.
    ///
    /// - Throws: `configuration` where the table does not fit the settings; any failure of a query.
    package func judgesMarksAlone() throws(StoreFailure) -> Bool {
        let layout = try layout()
        guard case .binary = layout.token.encoding,
            layout.living != nil || layout.mark != nil, try !countsSideMarks(layout)
        else { return false }
        let names = [layout.token.name, layout.app?.name, layout.environment?.name]
        return try catalogTable().isUnique(names.compactMap { $0 })
    }

    /// The condition that selects rows with a mark; nil where marks are in `pushsweep_invalid` alone.
    private static func markCondition(_ layout: TableLayout, _ dialect: SQLDialect) -> BoundSQL? {
        if let living = layout.living {
            return ("\(dialect.quoted(living.name)) = ?", [living.compared(living.dead)])
        }
        return layout.mark.map { ("\(dialect.quoted($0.name)) IS NOT NULL", []) }
    }
}
