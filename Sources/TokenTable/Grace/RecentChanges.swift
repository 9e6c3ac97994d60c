// The rows that this program has changed within the grace period, whatever their marks are: the entries
// of the transactions that were committed since. Their numbers (`ChangeOrder`) are in the order of commits, so a
// later look reads the numbers after the last one only. It is made before a chunk is removed, with its rows
// locked, because senders continue meanwhile.
//
// A purge leaves the last number that it emptied. So entries of the period that were purged too early
// show: a number has fewer entries than it names. Their rows are unknown, and no row is removed until the
// period after that number has passed. The same holds for numbers whose entries name rows by other columns
// than the table's present key, because the settings may have changed the key.

import APNsProtocol
import Database
import Encodings
import TokenHygiene

/// Keys of rows and token marks that were changed after a moment, as the ledger spells them.
final class RecentChanges {
    /// The most numbers whose entries one statement reads: each is a range of its own.
    private static let numbersPerStatement = 100

    /// Changes up to this moment are old enough.
    let cutoff: EpochMilliseconds
    /// The time of the latest number whose entries are missing; nil where none is missing.
    private(set) var gap: EpochMilliseconds?
    private var keys: Set<ExactText> = []
    /// The last number read; nil before the first look.
    private var last: Int64?
    private let layout: TableLayout
    private let connection: any SQLConnection

    private var time: TimeColumn { connection.dialect.ownTime("committed_at") }

    /// Starts without entries.
    init(
        after cutoff: EpochMilliseconds, _ layout: TableLayout, _ connection: any SQLConnection
    ) {
        self.cutoff = cutoff
        self.layout = layout
        self.connection = connection
    }

    /// Whether a row or a token mark was changed after the moment.
    func contains(_ key: ExactText) -> Bool { keys.contains(key) }

    /// Reads the changes since the last call, those of all apps, because a table may not separate its
    /// apps.
    func refresh() throws(SQLFailure) {
        let ledger = LedgerReader(connection: connection)
        var number: Int64
        if let last {
            number = last
        } else {
            number = try ledger.number(at: cutoff.advanced(by: 1)) &- 1
        }
        while true {
            var entries: Int64 = 0
            let ranges = try ledger.ranges(after: number, limit: Self.numbersPerStatement)
            let group = ranges.prefix { range in
                entries &+= range.count
                return range.number == ranges[0].number || entries <= LedgerReader.page
            }
            guard let end = group.last else { break }
            // A clock that was set back leaves older times after younger ones.
            let young = group.filter { $0.committed.map { $0 > cutoff } ?? true }
            if !young.isEmpty { try read(young) }
            number = end.number
        }
        last = number
    }

    /// Reads the entries of some numbers. Evidence of the period needs no record, because its mark is
    /// recent; values that an undo restored may be older than its evidence. Removals are final.
    private func read(_ ranges: [LedgerRange]) throws(SQLFailure) {
        let range = "(part = ? AND seq >= ? AND seq <= ?)"
        func condition(_ ranges: [LedgerRange]) -> BoundSQL {
            (
                "(\(repeatElement(range, count: ranges.count).joined(separator: " OR ")))",
                ranges.flatMap { [$0.part.value, .integer($0.first), .integer($0.last)] }
            )
        }
        let (all, values) = condition(ranges)
        let found = try connection.query(
            "SELECT COUNT(*) FROM pushsweep_change WHERE \(all)", values)
        let known = ranges.reduce(0) { $0 &+ $1.count }
        if found.scalar?.integer ?? 0 < known { widen(ranges.last?.committed) }
        let others = ranges.filter { $0.source != EvidenceSource.grace.rawValue }
        guard !others.isEmpty else { return }
        let (some, keys) = condition(others)
        let rows = try connection.query(
            "SELECT row_key, CASE WHEN before_image LIKE '[%' THEN token END FROM pushsweep_change WHERE \(some) AND action <> 'delete' AND "
                + "(evidence_at <= ? OR action IN ('insert', 'restore', 'side-restore'))",
            keys + [time.value(cutoff)])
        for row in 0..<rows.count {
            if let key = rows[row, 0].text { self.keys.insert(ExactText(key)) }
            // The mark beside the row changed with it.
            if let token = rows.token(row, 1) {
                self.keys.insert(RowImage.key([.bytes(token.bytes)]))
            }
        }
        let parts = try connection.query(
            "SELECT f.table_name, f.key_columns, MAX(c.committed_at) FROM pushsweep_commit c JOIN "
                + "pushsweep_part f ON f.number = c.part WHERE c.number >= ? "
                + "AND c.number <= ? AND f.key_columns <> ? GROUP BY f.table_name, f.key_columns",
            [
                .integer(ranges[0].number), .integer(ranges.last?.number ?? 0),
                .text(layout.entryColumns.text),
            ])
        // Changes by another token of a row keep the row too.
        for row in 0..<parts.count where layout.isNamed(parts[row, 0].text) {
            if layout.entryColumns.likeness(to: parts[row, 1].text).hasKey { continue }
            widen(time.mark(parts[row, 2]))
        }
    }

    private func widen(_ lost: EpochMilliseconds?) {
        if let lost { gap = max(gap ?? lost, lost) }
    }
}
