// The ledger is in the order of runs, but an undo works row by row. So the chosen entries, without
// their images, are copied into a scratch database and sorted there: by row, and for each row
// newest first. The newer change is the one with the later time of the database's clock, because a
// sender that began before a sweep continues after it. Where that time is equal or missing, as in
// entries of older versions, the change of the run that began later is newer. Within one run the
// change by later evidence is newer, because a run changes a row a second time only for later
// evidence, and removes it last. This does not require correct clocks, see UndoOrder.
//
// The scratch database is a temporary file of SQLite, which has no name and disappears with its
// connection. It is in the state folder (SQLITE_TMPDIR), because keys of the side table are tokens.
// The same selection gives the same order again, so an undo that was killed continues after the
// last processed row.

import APNsProtocol
import Database
import TokenHygiene

/// An entry of the ledger in the order of an undo, without its image.
struct UndoEntry {
    /// The index of the entry's group: run, feed and part.
    let group: Int
    let sequence: Int64
    let action: String
    /// The time of the evidence.
    let time: EpochMilliseconds
    /// When the change was made, by the database's clock; nil in entries of older versions.
    let changed: EpochMilliseconds?
    let source: String
    let hasImage: Bool
}

/// All chosen entries of one row or of one mark in the side table.
struct UndoTarget {
    /// The sort key of targets, also stored as the position of an undo.
    let name: String
    /// The partition of the group of its entries; for a mark of the side table, its partition.
    let partition: Partition
    /// The key as spelled in the ledger.
    let key: String
    /// Whether it is a mark in the side table.
    let isTokenMark: Bool
    /// The entries, newest first.
    var entries: [UndoEntry]
}

/// The chosen changes of an undo, in its order.
package final class UndoPlan {
    /// Entries of the same run, feed and part, with the values of the feed's checkpoint.
    struct Group {
        let run: String
        let feed: String
        let part: Int64
        let partition: Partition
    }

    /// The selection of changes.
    package let selection: UndoScope
    /// The runs of the chosen changes, newest first.
    package let runs: [RunRecord]
    /// The number of entries that cannot be undone whatever the rows hold, by reason.
    package internal(set) var excluded: [UndoObstacle: Int] = [:]
    /// The number of entries to examine.
    package internal(set) var entries = 0
    /// The actions on rows, as the ledger names them.
    package internal(set) var actions: Set<String> = []
    var groups: [Group] = []
    private let scratch: SQLiteConnection
    private var waiting: [SQLValue] = []

    /// Entries per insert: their values fit into the 999 parameters that every SQLite accepts.
    private static let entriesPerInsert = 64
    private static let width = 11

    init(_ selection: UndoScope, _ runs: [RunRecord]) throws(SQLFailure) {
        self.selection = selection
        self.runs = runs
        scratch = SQLiteConnection(
            path: "", creates: true, StoreSettings(location: .sqlite(path: "")))
        try scratch.connect()
        try scratch.run(
            """
            CREATE TABLE entry (target TEXT, moment INTEGER, newness INTEGER, age INTEGER, \
            rank INTEGER, part INTEGER, seq INTEGER, action TEXT, time INTEGER, source TEXT, \
            image INTEGER, PRIMARY KEY (target, moment, newness, age, rank, part, seq)) WITHOUT ROWID
            """)
        try scratch.run("BEGIN")
    }

    /// The ids of those runs that made any chosen change.
    package var changedRuns: [String] {
        let changed = Set(groups.map(\.run))
        return runs.map(\.id).filter(changed.contains)
    }

    /// The partitions of the entries, in a fixed order.
    var partitions: [Partition] {
        Set(groups.map(\.partition)).sorted {
            ($0.app, $0.environment) < ($1.app, $1.environment)
        }
    }

    /// Adds an entry of the last group to the plan. `newness` counts runs from the newest.
    func add(_ entry: UndoEntry, key: String, newness: Int) throws(SQLFailure) {
        let partition = groups[entry.group].partition
        let isTokenMark = entry.action.hasPrefix("side-")
        let target =
            isTokenMark
            ? ["s", partition.app, partition.environment, key].joined(separator: "\u{1F}")
            : "r\u{1F}\(key)"
        waiting += [
            .text(target), .integer(entry.changed.map { -$0.rawValue } ?? .max),
            .integer(Int64(newness)), .integer(-entry.time.rawValue),
            .integer(entry.action == "delete" ? 0 : 1), .integer(Int64(entry.group)),
            .integer(entry.sequence), .text(entry.action), .integer(entry.time.rawValue),
            .text(entry.source), .integer(entry.hasImage ? 1 : 0),
        ]
        if waiting.count == Self.entriesPerInsert * Self.width { try insertWaiting() }
        entries += 1
        actions.insert(entry.action)
    }

    private func insertWaiting() throws(SQLFailure) {
        guard !waiting.isEmpty else { return }
        let row = "(\(placeholders(Self.width)))"
        let rows = repeatElement(row, count: waiting.count / Self.width)
        _ = try scratch.execute(
            "INSERT INTO entry VALUES \(rows.joined(separator: ", "))", waiting)
        waiting.removeAll(keepingCapacity: true)
    }

    /// Completes the plan after its last entry.
    func seal() throws(SQLFailure) {
        try insertWaiting()
        try scratch.run("COMMIT")
    }

    /// The next targets after a position, at most `limit`; empty at the end.
    func targets(after position: String?, limit: Int) throws(SQLFailure) -> [UndoTarget] {
        // Most targets have one entry; a target with more than the limit is read again with a
        // higher one.
        var room = limit + 64
        while true {
            let rows = try scratch.query(
                "SELECT target, part, seq, action, time, source, image, moment FROM entry WHERE "
                    + "target > ? ORDER BY target, moment, newness, age, rank, part, seq LIMIT ?",
                [.text(position ?? ""), .integer(Int64(room))])
            var targets: [UndoTarget] = []
            for row in 0..<rows.count {
                let name = rows[row, 0].text ?? ""
                if targets.last?.name != name { targets.append(target(name, rows, row)) }
                targets[targets.count - 1].entries.append(entry(rows, row))
            }
            guard rows.count == room else { return Array(targets.prefix(limit)) }
            targets.removeLast()
            if !targets.isEmpty { return Array(targets.prefix(limit)) }
            room *= 4
        }
    }

    private func target(_ name: String, _ rows: SQLRows, _ row: Int) -> UndoTarget {
        UndoTarget(
            name: name, partition: groups[rows[row, 1].count ?? 0].partition,
            key: name.split(separator: "\u{1F}", omittingEmptySubsequences: false).last.map(
                String.init) ?? "",
            isTokenMark: name.hasPrefix("s"), entries: [])
    }

    private func entry(_ rows: SQLRows, _ row: Int) -> UndoEntry {
        UndoEntry(
            group: rows[row, 1].count ?? 0, sequence: rows[row, 2].integer ?? 0,
            action: rows[row, 3].text ?? "",
            time: EpochMilliseconds(rows[row, 4].integer ?? 0),
            changed: rows[row, 7].integer.flatMap { $0 == .max ? nil : EpochMilliseconds(-$0) },
            source: rows[row, 5].text ?? "", hasImage: rows[row, 6].count == 1)
    }
}

/// Reads the chosen entries of the ledger into a plan, without their images, page by page.
struct UndoReader {
    let layout: TableLayout
    let connection: any SQLConnection

    private static let page = 5_000

    /// The entries of one part of a feed that one run wrote.
    private struct Part {
        let run: String
        /// The place of the run, from the newest.
        let newness: Int
        let feed: String
        let index: Int64
    }

    /// Fills the plan with the entries of its runs.
    func fill(_ plan: UndoPlan) throws(SQLFailure) {
        var keys: Set<String>?
        if case .token(let token) = plan.selection { keys = try self.keys(of: token, plan.runs) }
        for (newness, run) in plan.runs.enumerated() {
            let parts = try connection.query(
                "SELECT DISTINCT feed, part FROM pushsweep_change WHERE run = ?", [.text(run.id)])
            for row in 0..<parts.count {
                guard let feed = parts[row, 0].text, let part = parts[row, 1].integer else {
                    continue
                }
                try read(
                    Part(run: run.id, newness: newness, feed: feed, index: part), keys, into: plan)
            }
        }
    }

    /// Reads the entries of one part of a feed.
    private func read(
        _ part: Part, _ keys: Set<String>?, into plan: UndoPlan
    ) throws(SQLFailure) {
        let checkpoint = try connection.query(
            "SELECT app, environment, table_name, key_columns FROM pushsweep_feed "
                + "WHERE feed = ? AND part = ?",
            [.text(part.feed), .integer(part.index)])
        let isForeign =
            checkpoint.count == 0 || !layout.isNamed(checkpoint[0, 2].text)
            || (checkpoint[0, 3].text ?? layout.keyNames) != layout.keyNames
        let group = plan.groups.count
        if !isForeign {
            plan.groups.append(
                UndoPlan.Group(
                    run: part.run, feed: part.feed, part: part.index,
                    partition: Partition(
                        app: checkpoint[0, 0].text ?? "", environment: checkpoint[0, 1].text ?? ""))
            )
        }
        let time = connection.dialect.ownTime("evidence_at")
        // A run that still works may add entries, and a purge on another host may drop some.
        let known = try count(part)
        var read = 0
        var sequence: Int64 = -1
        while true {
            let rows = try connection.query(
                "SELECT seq, action, row_key, evidence_at, source, before_image IS NOT NULL, "
                    + "changed_at FROM pushsweep_change WHERE run = ? AND feed = ? AND part = ? AND seq > ? "
                    + "ORDER BY seq LIMIT \(Self.page)",
                [
                    .text(part.run), .text(part.feed), .integer(part.index), .integer(sequence),
                ])
            for row in 0..<rows.count {
                sequence = rows[row, 0].integer ?? sequence
                let key = rows[row, 2].text ?? ""
                if let keys, !keys.contains(key) { continue }
                guard !isForeign else {
                    plan.excluded[.foreign, default: 0] += 1
                    continue
                }
                try plan.add(
                    UndoEntry(
                        group: group, sequence: sequence, action: rows[row, 1].text ?? "",
                        time: time.mark(rows[row, 3]) ?? EpochMilliseconds(0),
                        changed: time.mark(rows[row, 6]),
                        source: rows[row, 4].text ?? "", hasImage: rows[row, 5].count == 1),
                    key: key, newness: part.newness)
            }
            guard rows.count == Self.page else {
                let left = try read + rows.count < known ? count(part) : known
                guard left == known else {
                    throw SQLFailure(
                        kind: .conflict, code: 0,
                        message: "a purge drops entries of the ledger while they are read")
                }
                return try rows.require(atLeast: known, of: "entries of the ledger", after: read)
            }
            read += rows.count
        }
    }

    private func count(_ part: Part) throws(SQLFailure) -> Int {
        try connection.query(
            "SELECT COUNT(*) FROM pushsweep_change WHERE run = ? AND feed = ? AND part = ? "
                + "AND seq >= 0", [.text(part.run), .text(part.feed), .integer(part.index)]
        ).scalar?.count ?? 0
    }

    /// The keys of a token in the ledger: those of its rows, that of its mark in the side table,
    /// and those of removed rows whose image has the token.
    private func keys(
        of token: DeviceToken, _ runs: [RunRecord]
    ) throws(SQLFailure) -> Set<String> {
        var keys: Set = [RowImage.key([.bytes(token.bytes)])]
        let evidence = [TokenEvidence(token: token, time: EpochMilliseconds(0))]
        if let lookup = try? RowLookup(layout, connection, nil, wholeRows: false) {
            for row in try lookup.rows(for: evidence[...], locking: false).rows {
                keys.insert(lookup.name(of: row))
            }
        }
        for run in runs {
            let rows = try connection.query(
                "SELECT row_key, before_image FROM pushsweep_change WHERE run = ? AND action IN "
                    + "('delete', 'insert') AND INSTR(LOWER(before_image), ?) > 0",
                [.text(run.id), .text(token.hex)])
            for row in 0..<rows.count {
                guard let image = rows[row, 1].text, let key = rows[row, 0].text else { continue }
                let content =
                    RowImageReader.content(image) ?? RowImageReader.pair(image)?.after
                if content?[layout.token.name].flatMap(layout.token.token) == token {
                    keys.insert(key)
                }
            }
        }
        return keys
    }
}
