// The rows that this program has changed within the grace period, whatever their marks are. The ledger
// has the time that the database gave each entry, but no index over times, because it would add a cost to
// every change. So entries are found through the markers of feeds, which move in the transaction of every
// change and have such an index. From a marker to its entries the ledger's primary key serves:
//
//   markers moved within the period -> run, feed and part -> entries, in pages
//
// A feed that one run began and another ended has entries under both, and its marker names the last run.
// The numbers of a feed's entries begin at 0, so a marker shows whether some are missing. Missing entries
// are then searched under the other runs. Entries that are not found were purged too early, and their
// rows are unknown. So no row is removed until the period after the marker has passed. The same holds for
// entries that name rows by other columns than the table's present key, because the settings may have
// changed the key.
//
// An undo has no feed, and its marker does not move. The time of its last entry shows its age.
//
// Senders continue while rows are removed. So before a chunk is removed, with its rows locked, the markers
// are read again, which also finds the recent changes of senders.

import APNsProtocol
import Database
import TokenHygiene

/// Keys of rows and side marks that were changed after a moment, as the ledger spells them.
final class RecentChanges {
    /// The most entries that one statement reads.
    private static let page = 5_000
    /// The most feeds that one statement names.
    private static let feedsPerStatement = 64
    /// The longest time in milliseconds between a change and its commit: an entry has the time of
    /// its statement.
    private static let longestTransaction: Int64 = 3_600_000

    /// Changes up to this moment are old enough.
    let cutoff: EpochMilliseconds
    /// The time of the newest marker whose entries are missing; nil where none is missing.
    private(set) var gap: EpochMilliseconds?
    private var keys: Set<String> = []
    /// The number of entries already read, by part of a feed.
    private var known: [Place: Int64] = [:]
    /// The moment from which on markers are read again; nil before the first time.
    private var refreshed: EpochMilliseconds?
    private let dialect: SQLDialect
    /// The expression for an entry's own time; older tables have no column for it.
    private let ownTime: String
    private let table: String
    /// The present key columns of the table.
    private let keyNames: String
    /// Whether markers store the key columns of their entries; older tables have no column for
    /// them.
    private let hasKeys: Bool

    private struct Place: Hashable {
        let run: String
        let feed: String
        let part: Int64
    }

    private struct Marker {
        let place: Place
        let entries: Int64
        let changed: EpochMilliseconds
    }

    /// Starts without entries. `hasTimes` states whether entries have a time of their own,
    /// `hasKeys` whether markers store the key columns.
    init(
        after cutoff: EpochMilliseconds, _ layout: TableLayout, _ dialect: SQLDialect,
        hasTimes: Bool, hasKeys: Bool
    ) {
        self.cutoff = cutoff
        self.dialect = dialect
        ownTime = hasTimes ? "changed_at" : "NULL"
        table = layout.table.description
        keyNames = layout.keyNames
        self.hasKeys = hasKeys
    }

    /// Whether a row or a side mark was changed after the moment.
    func contains(_ key: String) -> Bool { keys.contains(key) }

    /// Reads the changes since the last call. Undos are read only at the start of a traversal,
    /// because no undo runs while this run has the lease.
    func refresh(_ connection: any SQLConnection, withUndos: Bool) throws(SQLFailure) {
        let now = try dialect.instant(connection.query("SELECT \(dialect.now)").scalar ?? .null)
        var waiting: [String: [Marker]] = [:]
        for marker in try markers(after: refreshed ?? cutoff, connection)
        where marker.entries > known[marker.place] ?? 0 {
            waiting[marker.place.run, default: []].append(marker)
        }
        for (run, markers) in waiting { try read(markers, of: run, connection) }
        if withUndos { try readUndos(connection) }
        refreshed = refreshed ?? max(cutoff, now.advanced(by: -Self.longestTransaction))
    }

    // MARK: Feeds

    /// The markers that moved after a moment, those of all apps, because a table may not separate
    /// its apps.
    private func markers(
        after moment: EpochMilliseconds, _ connection: any SQLConnection
    ) throws(SQLFailure) -> [Marker] {
        var markers: [Marker] = []
        var partition: (SQLValue, SQLValue)? = nil
        while let next = try self.partition(after: partition, connection) {
            partition = next
            markers += try self.markers(of: next, after: moment, connection)
        }
        return markers
    }

    /// The next partition in the order of the index.
    private func partition(
        after last: (app: SQLValue, environment: SQLValue)?, _ connection: any SQLConnection
    ) throws(SQLFailure) -> (SQLValue, SQLValue)? {
        let order = "ORDER BY app, environment LIMIT 1"
        let rows: SQLRows
        if let last {
            let same = try connection.query(
                "SELECT app, environment FROM pushsweep_feed WHERE app = ? AND environment > ? \(order)",
                [last.app, last.environment])
            rows =
                same.count > 0
                ? same
                : try connection.query(
                    "SELECT app, environment FROM pushsweep_feed WHERE app > ? \(order)", [last.app]
                )
        } else {
            rows = try connection.query("SELECT app, environment FROM pushsweep_feed \(order)")
        }
        return rows.count > 0 ? (rows[0, 0], rows[0, 1]) : nil
    }

    private func markers(
        of partition: (app: SQLValue, environment: SQLValue), after moment: EpochMilliseconds,
        _ connection: any SQLConnection
    ) throws(SQLFailure) -> [Marker] {
        let time = dialect.ownTime("changed_at")
        var markers: [Marker] = []
        var from = moment
        var limit = Self.page
        while true {
            let rows = try connection.query(
                "SELECT run, feed, part, rows_changed, changed_at, source, table_name, "
                    + (hasKeys ? "key_columns" : "NULL")
                    + " FROM pushsweep_feed WHERE "
                    + "app = ? AND environment = ? AND changed_at >= ? "
                    + "ORDER BY changed_at LIMIT \(limit)",
                [partition.app, partition.environment, time.value(from)])
            // Removals are final, so their changes need no check.
            for row in 0..<rows.count where rows[row, 5].text != Expiry.source {
                guard let run = rows[row, 0].text, let feed = rows[row, 1].text,
                    let part = rows[row, 2].integer, let changed = time.mark(rows[row, 4])
                else { continue }
                let entries = rows[row, 3].integer ?? 0
                if entries > 0 { note(changed, table: rows[row, 6], key: rows[row, 7]) }
                markers.append(
                    Marker(
                        place: Place(run: run, feed: feed, part: part),
                        entries: entries, changed: changed))
            }
            guard rows.count == limit, let last = time.mark(rows[rows.count - 1, 4]) else {
                return markers
            }
            // Markers of the last moment are read twice, without any effect.
            if last == from { limit *= 2 }
            from = last
        }
    }

    /// Reads the new entries of some feeds that one run has moved.
    private func read(
        _ markers: [Marker], of run: String, _ connection: any SQLConnection
    ) throws(SQLFailure) {
        var few: [Marker] = []
        var entries: Int64 = 0
        for marker in markers {
            // For a feed that is partly read the bounds are known; long feeds are read in pages.
            if known[marker.place] != nil || marker.entries > Self.page {
                try readLong(marker, connection)
                continue
            }
            if few.count == Self.feedsPerStatement || entries + marker.entries > Self.page {
                try readShort(few, of: run, connection)
                few = []
                entries = 0
            }
            few.append(marker)
            entries += marker.entries
        }
        try readShort(few, of: run, connection)
    }

    private func readShort(
        _ markers: [Marker], of run: String, _ connection: any SQLConnection
    ) throws(SQLFailure) {
        guard !markers.isEmpty else { return }
        let rows = try connection.query(
            "SELECT feed, part, seq, \(columns) FROM pushsweep_change WHERE run = ? AND feed IN "
                + "(\(placeholders(markers.count))) AND seq >= 0",
            [.text(run)] + markers.map { .text($0.place.feed) })
        var found: [Place: Int64] = [:]
        for row in 0..<rows.count {
            guard let feed = rows[row, 0].text, let part = rows[row, 1].integer else { continue }
            found[Place(run: run, feed: feed, part: part), default: 0] += 1
            take(rows, row, from: 3)
        }
        for marker in markers {
            let missing = marker.entries - (found[marker.place] ?? 0)
            if missing > 0 { try readElsewhere(marker, missing: missing, connection) }
            known[marker.place] = marker.entries
        }
    }

    private func readLong(
        _ marker: Marker, _ connection: any SQLConnection
    ) throws(SQLFailure) {
        let start = known[marker.place] ?? 0
        let count = try read(marker.place, from: start, to: marker.entries, connection)
        let missing = marker.entries - start - count
        if missing > 0 { try readElsewhere(marker, missing: missing, connection) }
        known[marker.place] = marker.entries
    }

    /// Searches the entries of a feed that are not under the run that moved it last.
    private func readElsewhere(
        _ marker: Marker, missing: Int64, _ connection: any SQLConnection
    ) throws(SQLFailure) {
        var missing = missing
        // One gap already prevents all removals; further gaps only extend the time.
        let runs = try connection.query(
            "SELECT id FROM pushsweep_run WHERE id <> ?", [.text(marker.place.run)])
        for row in 0..<runs.count where gap == nil {
            guard missing > 0, let run = runs[row, 0].text else { continue }
            let place = Place(run: run, feed: marker.place.feed, part: marker.place.part)
            missing -= try read(place, from: 0, to: marker.entries, connection)
        }
        if missing > 0 { gap = max(gap ?? marker.changed, marker.changed) }
    }

    /// Reads entries by their numbers, page by page, and returns how many there are. The numbers
    /// are consecutive, so the server can omit entries that need no further check.
    private func read(
        _ place: Place, from start: Int64, to end: Int64, _ connection: any SQLConnection
    ) throws(SQLFailure) -> Int64 {
        let match = "FROM pushsweep_change WHERE run = ? AND feed = ? AND part = ?"
        let values: [SQLValue] = [.text(place.run), .text(place.feed), .integer(place.part)]
        let bounds = try connection.query("SELECT MIN(seq), MAX(seq) \(match)", values)
        guard let first = bounds[0, 0].integer, let last = bounds[0, 1].integer else { return 0 }
        let range = max(start, first)..<max(start, first, min(end, last + 1))
        let evidence = dialect.ownTime("evidence_at").value(cutoff)
        for next in stride(from: range.lowerBound, to: range.upperBound, by: Self.page) {
            let rows = try connection.query(
                "SELECT \(columns) \(match) AND seq >= ? AND seq < ? AND action <> 'delete' AND "
                    + "(evidence_at <= ? OR action IN ('insert', 'restore', 'side-restore'))",
                values + [
                    .integer(next), .integer(min(next + Int64(Self.page), range.upperBound)),
                    evidence,
                ])
            for row in 0..<rows.count { take(rows, row, from: 0) }
        }
        return Int64(range.count)
    }

    // MARK: Undos

    private func readUndos(_ connection: any SQLConnection) throws(SQLFailure) {
        let (started, ended) = (dialect.ownTime("started"), dialect.ownTime("ended"))
        let runs = try connection.query(
            "SELECT r.id, f.part, r.started, r.ended, f.table_name, \(hasKeys ? "f.key_columns" : "NULL") "
                + "FROM pushsweep_run r JOIN pushsweep_feed f ON f.feed = r.id WHERE r.kind = 'undo'"
        )
        for row in 0..<runs.count {
            guard let run = runs[row, 0].text, let part = runs[row, 1].integer else { continue }
            let last = try connection.query(
                "SELECT seq, \(ownTime) FROM pushsweep_change WHERE run = ? AND feed = ? AND part = ? "
                    + "ORDER BY seq DESC LIMIT 1", [.text(run), .text(run), .integer(part)])
            guard last.count > 0, let number = last[0, 0].integer else { continue }
            let recorded = runs[row, 3] == .null ? nil : ended.mark(runs[row, 3])
            let changed =
                dialect.ownTime("changed_at").mark(last[0, 1])
                ?? max(
                    recorded ?? EpochMilliseconds(.max),
                    started.mark(runs[row, 2]) ?? EpochMilliseconds(.max))
            guard changed > cutoff else { continue }
            note(changed, table: runs[row, 4], key: runs[row, 5])
            _ = try read(
                Place(run: run, feed: run, part: part), from: 0, to: number + 1, connection)
        }
    }

    // MARK: Entries

    /// Records changes whose entries name rows of the table by other columns than its present key.
    private func note(_ changed: EpochMilliseconds, table named: SQLValue, key: SQLValue) {
        guard named.text == table, let key = key.text, key != keyNames else { return }
        gap = max(gap ?? changed, changed)
    }

    private var columns: String { "action, row_key, evidence_at, \(ownTime)" }

    /// Records an entry whose row looks older than its change. Evidence of the period needs no
    /// record, because its mark is recent. Values that an undo restored may be older than its
    /// evidence.
    private func take(_ rows: SQLRows, _ row: Int, from column: Int) {
        guard let action = rows[row, column].text, action != "delete",
            let key = rows[row, column + 1].text
        else { return }
        if let own = dialect.ownTime("changed_at").mark(rows[row, column + 3]), own <= cutoff {
            return
        }
        let isGivenBack = ["insert", "restore", "side-restore"].contains(action)
        let evidence = dialect.ownTime("evidence_at").mark(rows[row, column + 2])
        if isGivenBack || evidence.map({ $0 <= cutoff }) ?? true { keys.insert(key) }
    }
}
