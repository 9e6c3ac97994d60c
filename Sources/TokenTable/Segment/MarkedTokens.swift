import APNsProtocol
import Database
import TokenHygiene

// Which tokens may be stale, as a set that is read once. A stale token has a mark in its row, a dead value
// in the column of living rows, or a mark in `pushsweep_invalid`. The set has every token with one of
// these, also where a later registration has overridden it: the rows decide about a hit, one by one.
//
// The table is read in ranges of its key, so that no statement reads more than a range.

extension TokenTable {
    /// Adds the fingerprints of every token of a partition that may be stale. Stops where the set has no
    /// more room, which is then incomplete, or where `shouldStop` says so.
    ///
    /// - Throws: `configuration` where the table does not fit the settings; any failure of a query.
    package func addMarkedTokens(
        of partition: Partition, to set: inout TokenFingerprints,
        shouldStop: () -> Bool = { false }, progress: (Int) -> Void = { _ in }
    ) throws(StoreFailure) {
        let layout = try layout()
        if let mark = Self.markCondition(layout, connection.dialect) {
            try addMarkedRows(layout, mark, partition, &set, shouldStop, progress)
        }
        guard !set.isIncomplete, try canReadTokenMarks() else { return }
        let marks = InvalidTokenTable(partition: partition, connection: connection)
        var position: SQLValue? = .bytes([])
        while let start = position, !set.isIncomplete, !shouldStop() {
            let (tokens, end) = try retries.retrying("reading the marks of \(partition)") {
                () throws(SQLFailure) in
                let end = try marks.end(after: start)
                return (try marks.marked(after: start, upTo: end), end)
            }
            for row in 0..<tokens.count {
                guard case .bytes(let bytes) = tokens[row, 0] else { continue }
                set.insert(bytes.withUnsafeBytes { set.fingerprint($0) })
            }
            progress(set.count)
            position = end
        }
    }

    private func addMarkedRows(
        _ layout: TableLayout, _ mark: (sql: String, values: [SQLValue]), _ partition: Partition,
        _ set: inout TokenFingerprints, _ shouldStop: () -> Bool, _ progress: (Int) -> Void
    ) throws(StoreFailure) {
        let ranges = KeyRanges(layout, try catalogTable(), connection)
        let condition = try layout.selection(of: partition).condition(connection.dialect)
        let token = connection.dialect.quoted(layout.token.name)
        var position: [SQLValue]? = []
        while let start = position, !set.isIncomplete, !shouldStop() {
            let (rows, end) = try retries.retrying("reading the marked rows of \(layout.table)") {
                () throws(SQLFailure) in
                let end = try ranges.end(after: start)
                let range = ranges.condition(after: start, upTo: end)
                let rows = try connection.query(
                    "SELECT \(token) FROM \(ranges.source) WHERE \(range.sql)\(condition.sql)"
                        + mark.sql, range.values + condition.values + mark.values)
                return (rows, end)
            }
            for row in 0..<rows.count {
                guard let token = layout.token.token(rows[row, 0]) else { continue }
                set.insert(token)
            }
            progress(set.count)
            position = end
        }
    }

    /// The condition that selects rows with a mark, as the end of a WHERE; nil where marks are in
    /// `pushsweep_invalid` alone.
    private static func markCondition(
        _ layout: TableLayout, _ dialect: SQLDialect
    ) -> (sql: String, values: [SQLValue])? {
        if let living = layout.living {
            return (" AND \(dialect.quoted(living.name)) = ?", [living.compared(living.dead)])
        }
        return layout.mark.map { (" AND \(dialect.quoted($0.name)) IS NOT NULL", []) }
    }
}
