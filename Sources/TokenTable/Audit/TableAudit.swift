// Counts all rows of the token table by what they are. The database counts, because it reads a
// row without sending it: each statement groups the rows of one range of the key (KeyRanges), so
// memory stays flat and no statement is long. The rules are those of the view of sendable rows
// (SendableRows); a test compares the counts with rows that the sender's own code judges. What the
// database reads in a row is in AuditStatement, and what follows from that in RowGroup.
//
// Nothing is locked. Rows that change during the audit are counted in their old or their new state.

import APNsProtocol
import Database
import Findings
import TokenHygiene

/// Counts the rows of the token table.
package struct TableAudit {
    /// The most rows of one statement.
    package static let span = 100_000

    private let table: TokenTable
    private let partitions: [Partition]
    private let span: Int
    private let statement: AuditStatement
    private var layout: TableLayout { statement.rows.layout }

    /// Prepares the counting. `partitions` are those of the settings, with apps by the table's
    /// value; ages are counted at `now`.
    ///
    /// - Throws: `configuration` where the table does not fit the settings; any failure of a query.
    package init(
        _ table: TokenTable, _ partitions: [Partition], at now: EpochMilliseconds,
        span: Int = TableAudit.span
    ) throws(StoreFailure) {
        self.table = table
        self.partitions = partitions
        self.span = span
        let layout = try table.layout()
        // With a column of two values the times of marks are beside it.
        var countsSide = false
        if layout.mark == nil { countsSide = try table.canReadTokenMarks() }
        statement = AuditStatement(
            try table.sendableRows(partitions, countingSideMarks: countsSide),
            AgeRange.beginnings(at: now))
    }

    /// Counts all rows, range by range. `report` gets the number of rows so far.
    ///
    /// - Returns: the tallies by app and environment of the settings, and the number of rows of
    ///   others; nil if `shouldStop` ended the counting early.
    /// - Throws: any failure of a query.
    package func tallies(
        shouldStop: () -> Bool = { false }, report: (Int) -> Void = { _ in }
    ) throws(StoreFailure) -> (tallies: [Partition: RowTally], others: Int)? {
        let ranges = try KeyRanges(layout, table.catalogTable(), table.connection, span: span)
        var tallies: [Partition: RowTally] = [:]
        for partition in partitions { tallies[partition] = RowTally() }
        var (others, counted) = (0, 0)
        let finder = try PartitionFinder(partitions, layout)
        func mayContinue() throws(StoreFailure) -> Bool {
            if shouldStop() { return false }
            return try table.session.waitForThrottle(shouldStop: shouldStop)
        }
        guard try mayContinue() else { return nil }
        var position: [SQLValue]? = []
        try table.walk(
            ranges, after: &position, doing: "counting the rows of \(layout.table)"
        ) { range throws(SQLFailure) in
            try statement.groups(of: ranges.source, range, on: table.connection)
        } take: { (found, isLast) throws(StoreFailure) in
            for rows in found {
                counted += rows.count
                if let partition = finder.partition(app: rows.app, environment: rows.environment) {
                    tallies[partition, default: RowTally()].add(rows)
                } else {
                    others += rows.count
                }
            }
            report(counted)
            if isLast { return true }
            return try mayContinue()
        }
        return position == nil ? (tallies, others) : nil
    }
}

extension TokenTable {
    /// The number of all rows of the table, whatever they are.
    ///
    /// - Throws: any failure of the query.
    package func countRows() throws(StoreFailure) -> Int {
        let table = try layout().table
        return try retries.retrying(
            "counting the rows of \(table)",
            do: connection.query("SELECT COUNT(*) FROM \(table.sql(connection.dialect))")
        ).scalar?.count ?? 0
    }
}

/// Finds the partition of the settings that rows belong to.
struct PartitionFinder {
    private struct Value: Hashable {
        let app: SQLValue
        let environment: SQLValue
    }

    private var partitions: [Value: Partition] = [:]

    init(_ partitions: [Partition], _ layout: TableLayout) throws(StoreFailure) {
        for partition in partitions {
            let app = try layout.app?.value(for: partition.app) ?? .null
            let environment = try layout.environment?.value(for: partition.environment) ?? .null
            self.partitions[Value(app: app, environment: environment)] = partition
        }
    }

    /// The partition of rows with these values; nil for rows that the settings do not name.
    func partition(app: SQLValue, environment: SQLValue) -> Partition? {
        partitions[Value(app: Self.plain(app), environment: Self.plain(environment))]
    }

    /// Text that was compared as bytes.
    private static func plain(_ value: SQLValue) -> SQLValue {
        guard case .bytes(let bytes) = value else { return value }
        return .text(String(decoding: bytes, as: UTF8.self))
    }
}
