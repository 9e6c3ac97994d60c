// The rows that this program has changed within the grace period, whatever their marks are. The ledger
// has the time that the database gave each entry, but no index over times, because it would add a cost to
// every change. So entries are found through the checkpoints of feeds, which move in the transaction of every
// change and have such an index. From a checkpoint to its entries the ledger's primary key serves:
//
//   checkpoints moved within the period -> run, feed and part -> entries, in pages
//
// A feed that one run began and another ended has entries under both, and its checkpoint names the last run.
// The numbers of a feed's entries begin at 0, so a checkpoint shows whether some are missing. Missing entries
// are then searched under the other runs. Entries that are not found were purged too early, and their
// rows are unknown. So no row is removed until the period after the checkpoint has passed. The same holds for
// entries that name rows by other columns than the table's present key, because the settings may have
// changed the key.
//
// An undo has no feed, and its checkpoint does not move. The time of its last entry shows its age.
//
// Senders continue while rows are removed. So before a chunk is removed, with its rows locked, the checkpoints
// are read again, which also finds the recent changes of senders.

import APNsProtocol
import Database
import TokenHygiene

/// Keys of rows and token marks that were changed after a moment, as the ledger spells them.
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
    /// The time of the newest checkpoint whose entries are missing; nil where none is missing.
    private(set) var gap: EpochMilliseconds?
    private var keys: Set<String> = []
    /// The number of entries already read, by part of a feed.
    private var known: [Place: Int64] = [:]
    /// The moment from which on checkpoints are read again; nil before the first time.
    private var refreshed: EpochMilliseconds?
    private let connection: any SQLConnection
    private var dialect: SQLDialect { connection.dialect }
    /// The expression for an entry's own time; older tables have no column for it.
    private let ownTime: String
    /// Whether a checkpoint's name of a table is the table.
    private let isTable: (String?) -> Bool
    /// The present key columns of the table.
    private let keyNames: String
    /// Whether checkpoints store the key columns of their entries; older tables have no column for
    /// them.
    private let hasKeys: Bool

    private struct Place: Hashable {
        let run: String
        let feed: String
        let part: Int64
    }

    private struct Checkpoint {
        let place: Place
        let entries: Int64
        let changed: EpochMilliseconds
    }

    /// Starts without entries. `hasTimes` states whether entries have a time of their own,
    /// `hasKeys` whether checkpoints store the key columns.
    init(
        after cutoff: EpochMilliseconds, _ layout: TableLayout, _ connection: any SQLConnection,
        hasTimes: Bool, hasKeys: Bool
    ) {
        self.cutoff = cutoff
        self.connection = connection
        ownTime = hasTimes ? "changed_at" : "NULL"
        isTable = layout.isNamed
        keyNames = layout.keyNames
        self.hasKeys = hasKeys
    }

    /// Whether a row or a token mark was changed after the moment.
    func contains(_ key: String) -> Bool { keys.contains(key) }

    /// Reads the changes since the last call. Undos are read only at the start of a removal,
    /// because no undo runs while this run has the lease.
    func refresh(withUndos: Bool) throws(SQLFailure) {
        let now = try dialect.instant(connection.query("SELECT \(dialect.now)").scalar ?? .null)
        var waiting: [String: [Checkpoint]] = [:]
        for checkpoint in try checkpoints(after: refreshed ?? cutoff)
        where checkpoint.entries > known[checkpoint.place] ?? 0 {
            waiting[checkpoint.place.run, default: []].append(checkpoint)
        }
        for (run, checkpoints) in waiting { try read(checkpoints, of: run) }
        if withUndos { try readUndos() }
        refreshed = refreshed ?? max(cutoff, now.advanced(by: -Self.longestTransaction))
    }

    // MARK: Feeds

    /// The checkpoints that moved after a moment, those of all apps, because a table may not separate
    /// its apps.
    private func checkpoints(
        after moment: EpochMilliseconds
    ) throws(SQLFailure) -> [Checkpoint] {
        var checkpoints: [Checkpoint] = []
        var partition: (SQLValue, SQLValue)? = nil
        while let next = try self.partition(after: partition) {
            partition = next
            checkpoints += try self.checkpoints(of: next, after: moment)
        }
        return checkpoints
    }

    /// The next partition in the order of the index.
    private func partition(
        after last: (app: SQLValue, environment: SQLValue)?
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

    private func checkpoints(
        of partition: (app: SQLValue, environment: SQLValue), after moment: EpochMilliseconds
    ) throws(SQLFailure) -> [Checkpoint] {
        let time = dialect.ownTime("changed_at")
        var checkpoints: [Checkpoint] = []
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
                if entries > 0 { recordOtherKey(changed, table: rows[row, 6], key: rows[row, 7]) }
                checkpoints.append(
                    Checkpoint(
                        place: Place(run: run, feed: feed, part: part),
                        entries: entries, changed: changed))
            }
            guard rows.count == limit, let last = time.mark(rows[rows.count - 1, 4]) else {
                return checkpoints
            }
            // Checkpoints of the last moment are read twice, without any effect.
            if last == from { limit *= 2 }
            from = last
        }
    }

    /// Reads the new entries of some feeds that one run has moved.
    private func read(
        _ checkpoints: [Checkpoint], of run: String
    ) throws(SQLFailure) {
        var few: [Checkpoint] = []
        var entries: Int64 = 0
        for checkpoint in checkpoints {
            // For a feed that is partly read the bounds are known; long feeds are read in pages.
            if known[checkpoint.place] != nil || checkpoint.entries > Self.page {
                try readLong(checkpoint)
                continue
            }
            if few.count == Self.feedsPerStatement || entries + checkpoint.entries > Self.page {
                try readShort(few, of: run)
                few = []
                entries = 0
            }
            few.append(checkpoint)
            entries += checkpoint.entries
        }
        try readShort(few, of: run)
    }

    private func readShort(
        _ checkpoints: [Checkpoint], of run: String
    ) throws(SQLFailure) {
        guard !checkpoints.isEmpty else { return }
        let rows = try connection.query(
            "SELECT feed, part, seq, \(columns) FROM pushsweep_change WHERE run = ? AND feed IN "
                + "(\(placeholders(checkpoints.count))) AND seq >= 0",
            [.text(run)] + checkpoints.map { .text($0.place.feed) })
        var found: [Place: Int64] = [:]
        for row in 0..<rows.count {
            guard let feed = rows[row, 0].text, let part = rows[row, 1].integer else { continue }
            found[Place(run: run, feed: feed, part: part), default: 0] += 1
            record(rows, row, from: 3)
        }
        for checkpoint in checkpoints {
            let missing = checkpoint.entries - (found[checkpoint.place] ?? 0)
            if missing > 0 { try readElsewhere(checkpoint, missing: missing) }
            known[checkpoint.place] = checkpoint.entries
        }
    }

    private func readLong(
        _ checkpoint: Checkpoint
    ) throws(SQLFailure) {
        let start = known[checkpoint.place] ?? 0
        let count = try read(checkpoint.place, from: start, to: checkpoint.entries)
        let missing = checkpoint.entries - start - count
        if missing > 0 { try readElsewhere(checkpoint, missing: missing) }
        known[checkpoint.place] = checkpoint.entries
    }

    /// Searches the entries of a feed that are not under the run that moved it last.
    private func readElsewhere(
        _ checkpoint: Checkpoint, missing: Int64
    ) throws(SQLFailure) {
        var missing = missing
        // One gap already prevents all removals; further gaps only extend the time.
        let runs = try connection.query(
            "SELECT id FROM pushsweep_run WHERE id <> ?", [.text(checkpoint.place.run)])
        for row in 0..<runs.count where gap == nil {
            guard missing > 0, let run = runs[row, 0].text else { continue }
            let place = Place(run: run, feed: checkpoint.place.feed, part: checkpoint.place.part)
            missing -= try read(place, from: 0, to: checkpoint.entries)
        }
        if missing > 0 { gap = max(gap ?? checkpoint.changed, checkpoint.changed) }
    }

    /// Reads entries by their numbers, page by page, and returns how many there are. The numbers
    /// are consecutive, so the server can omit entries that need no further check.
    private func read(
        _ place: Place, from start: Int64, to end: Int64
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
            for row in 0..<rows.count { record(rows, row, from: 0) }
        }
        return Int64(range.count)
    }

    // MARK: Undos

    private func readUndos() throws(SQLFailure) {
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
            recordOtherKey(changed, table: runs[row, 4], key: runs[row, 5])
            _ = try read(
                Place(run: run, feed: run, part: part), from: 0, to: number + 1)
        }
    }

    // MARK: Entries

    /// Records changes whose entries name rows of the table by other columns than its present key.
    private func recordOtherKey(_ changed: EpochMilliseconds, table named: SQLValue, key: SQLValue)
    {
        guard isTable(named.text), let key = key.text, key != keyNames else { return }
        gap = max(gap ?? changed, changed)
    }

    private var columns: String { "action, row_key, evidence_at, \(ownTime)" }

    /// Records an entry whose row looks older than its change. Evidence of the period needs no
    /// record, because its mark is recent. Values that an undo restored may be older than its
    /// evidence.
    private func record(_ rows: SQLRows, _ row: Int, from column: Int) {
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
