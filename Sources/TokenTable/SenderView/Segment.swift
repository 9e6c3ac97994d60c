import APNsProtocol
import Database
import TokenHygiene

// A segment is the result of a query that a person gives. It is read over a connection of its own: the
// tokens are looked up over the other one while the result still comes in.

extension TokenTable {
    /// Rows in one block of a segment.
    private static let segmentBlock = 5_000

    /// Runs a query in a transaction that can change nothing, and passes on what its first column
    /// holds: the tokens, and nil for a value that is no token. `seconds` limits the query with the
    /// reading of its result.
    ///
    /// - Throws: `unreachable` and similar failures of the connection; `configuration` where the query
    ///   is wrong or takes too long; `permission`; the errors of `body`.
    package func readSegment(
        _ query: SelectStatement, within seconds: Int,
        _ body: ([DeviceToken?]) throws -> Void
    ) throws {
        let column = try layout().token
        var settings = settings
        // The limit of the statement is to be met before that of the connection.
        settings.timeouts.read = max(settings.timeouts.read, seconds + 10)
        let session = try DatabaseSession(settings, pacing: pacing)
        do {
            try session.connection.read(query, within: seconds, block: Self.segmentBlock) { rows in
                try body((0..<rows.count).map { column.segmentToken(rows[$0, 0]) })
            }
        } catch let failure as SQLFailure {
            throw StoreFailure(segment: failure, seconds: seconds)
        }
    }
}

extension TokenColumn {
    /// The token in a value of a segment, whose column need not be that of the token table: text is hex,
    /// and bytes are what the token table holds as bytes.
    fileprivate func segmentToken(_ value: SQLValue) -> DeviceToken? {
        if case .text(let text) = value { return try? DeviceToken(spelling: text.string) }
        return token(value)
    }
}

extension StoreFailure {
    /// Error numbers of a statement that took longer than its limit: MariaDB, MySQL, SQLite.
    private static let timeouts = [1_969, 3_024, 9]
    /// The number of a change in a read-only transaction, of a server and of SQLite.
    private static let changes = [1_792, 8]

    fileprivate init(segment failure: SQLFailure, seconds: Int) {
        let doing = "reading the segment of --query"
        if Self.timeouts.contains(failure.code) {
            self.init(
                .configuration,
                "\(doing): it took longer than \(seconds) s; narrow it, give it an index, or raise "
                    + "--query-limit")
        } else if Self.changes.contains(failure.code) {
            self.init(
                .configuration,
                "\(doing): it changes something (\(failure.message)); give a query that only reads")
        } else if failure.kind == .configuration || failure.kind == .refused {
            self.init(
                .configuration, "\(doing): \(failure.message) (\(failure.code)); correct the query")
        } else {
            self.init(failure, while: doing)
        }
    }
}

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

    /// The condition that selects rows with a mark, as the end of a WHERE; nil where marks are in
    /// `pushsweep_invalid` alone.
    private static func markCondition(_ layout: TableLayout, _ dialect: SQLDialect) -> BoundSQL? {
        if let living = layout.living {
            return (" AND \(dialect.quoted(living.name)) = ?", [living.compared(living.dead)])
        }
        return layout.mark.map { (" AND \(dialect.quoted($0.name)) IS NOT NULL", []) }
    }
}

/// The registrations of the newest rows against the clock of the database. A registration that lies ahead
/// was written by another clock, or in another time zone than the settings state.
package struct RegistrationClock: Hashable, Sendable {
    /// Number of rows looked at.
    package fileprivate(set) var rows = 0
    /// Rows whose registration lies ahead of the database's clock.
    package fileprivate(set) var ahead = 0
    /// The farthest of them, in milliseconds.
    package fileprivate(set) var farthest: Int64 = 0
}

extension TokenTable {
    /// How many of the newest rows are looked at.
    private static let newestRows = 1_000

    /// Looks at the registrations of the rows with the highest keys; nil where the table has no such
    /// column. `slack` is the milliseconds by which clocks may differ.
    ///
    /// - Throws: `configuration` where the table does not fit the settings; any failure of a query.
    package func registrationClock(
        slack: Int64
    ) throws(StoreFailure) -> RegistrationClock? {
        let layout = try layout()
        guard let registration = layout.registration else { return nil }
        let ranges = KeyRanges(layout, try catalogTable(), connection)
        let dialect = connection.dialect
        let order = ranges.columns.map { "\(dialect.quoted($0)) DESC" }.joined(separator: ", ")
        let (rows, now) = try retries.retrying("reading the newest rows of \(layout.table)") {
            () throws(SQLFailure) in
            let rows = try connection.query(
                "SELECT \(dialect.quoted(registration.name)) FROM \(ranges.source) "
                    + "ORDER BY \(order) LIMIT \(Self.newestRows)")
            return (rows, try dialect.instant(connection.query("SELECT \(dialect.now)")[0, 0]))
        }
        var clock = RegistrationClock()
        for row in 0..<rows.count where !registration.isUnreadable(rows[row, 0]) {
            guard let time = registration.registration(rows[row, 0]) else { continue }
            clock.rows += 1
            let distance = time.distance(from: now)
            guard distance > slack else { continue }
            clock.ahead += 1
            clock.farthest = max(clock.farthest, distance)
        }
        return clock
    }
}
