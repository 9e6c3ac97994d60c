import Database
import Findings
import TokenHygiene

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
