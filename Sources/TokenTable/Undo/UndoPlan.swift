// The ledger is in the order of runs, but an undo works row by row. So the chosen entries, without
// their images, are copied into a scratch database and sorted there: by row, and for each row
// newest first. The newer change is the one with the later time of the database's clock, because a
// sender that began before a sweep continues after it. Where that time is equal, the change of the
// run that began later is newer. Within one run the
// change by later evidence is newer, because a run changes a row a second time only for later
// evidence, and removes it last. This does not require correct clocks, see UndoOrder.
//
// The scratch database is a temporary file of SQLite, which has no name and disappears with its
// connection. It is in the state folder (SQLITE_TMPDIR), because keys of the side table are tokens.
// The same selection gives the same order again, so an undo that was killed continues after the
// last processed row.

// A row may refer to another one that comes later in this order. The table refuses it until that one is there, so
// it waits: at the end another pass goes over the rows that wait, until none of them comes any more.
// An undo that was killed has no list of them. It counts them as refused, and the next undo restores them.

import APNsProtocol
import Database
import Encodings
import TokenHygiene

/// All chosen entries of one row or of one mark in the side table.
struct UndoTarget {
    /// The sort key of targets, also stored as the position of an undo.
    let name: ExactText
    /// The partition of the group of its entries; for a mark of the side table, its partition.
    let partition: Partition
    /// The key as spelled in the ledger.
    let key: ExactText
    /// Whether it is a mark in the side table.
    let isTokenMark: Bool
    /// The entries, newest first.
    var entries: [LedgerEntry]
}

/// The chosen changes of an undo, in its order.
package final class UndoPlan {
    /// The selection of changes.
    package let selection: UndoScope
    /// The runs of the chosen changes, newest first.
    package let runs: [RunRecord]
    /// The number of entries that cannot be undone whatever the rows hold, by reason.
    package internal(set) var excluded: [UndoObstacle: Int] = [:]
    /// The number of entries to examine.
    package internal(set) var entries = 0
    /// The number of them that count: each device once.
    package internal(set) var changes = 0
    /// The actions on rows, as the ledger names them.
    package internal(set) var actions: Set<String> = []
    /// The parts of the entries, each with its app and environment.
    fileprivate(set) var parts: [(part: LedgerPart, partition: Partition)] = []
    private let scratch: SQLiteConnection
    private var pending: [SQLValue] = []
    /// The rows that waited at the end of the last pass.
    private var waitedBefore = Int.max

    /// Entries per insert: their values fit into the 999 parameters that every SQLite accepts.
    private static let entriesPerInsert = 64
    private static let width = 13

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
            image INTEGER, companion INTEGER, token BLOB, PRIMARY KEY (target, moment, newness, age, rank, part, seq)) WITHOUT ROWID
            """)
        try scratch.run("CREATE TABLE waiting (target TEXT PRIMARY KEY) WITHOUT ROWID")
        try scratch.run("BEGIN")
    }

    /// The ids of those runs that made any chosen change.
    package var changedRuns: [String] {
        let changed = Set(parts.map(\.part.run))
        return runs.map(\.id).filter(changed.contains)
    }

    /// The partitions of the entries, in a fixed order.
    var partitions: [Partition] {
        Set(parts.map(\.partition)).sorted {
            ($0.app, $0.environment) < ($1.app, $1.environment)
        }
    }

    /// Adds an entry of the last part to the plan. `newness` counts runs from the newest.
    fileprivate func add(_ entry: LedgerEntry, newness: Int) throws(SQLFailure) {
        let partition = parts[parts.count - 1].partition
        let target =
            entry.isBeside
            ? Self.name(beside: entry.storedKey, in: partition) : "r\u{1F}\(entry.storedKey)"
        pending += [
            .text(target), .integer(0 &- entry.changed.rawValue),
            .integer(Int64(newness)), .integer(0 &- entry.evidence.rawValue),
            .integer(entry.action == "delete" ? 0 : 1), .integer(Int64(parts.count - 1)),
            .integer(entry.sequence), .text(entry.action), .integer(entry.evidence.rawValue),
            .text(entry.source), .integer(entry.hasImage ? 1 : 0),
            .integer(entry.isCompanion ? 1 : 0),
            entry.token.map { .bytes($0.bytes) } ?? .null,
        ]
        if pending.count == Self.entriesPerInsert * Self.width { try insertPending() }
        entries += 1
        if !entry.isCompanion { changes += 1 }
        actions.insert(entry.action)
    }

    private func insertPending() throws(SQLFailure) {
        guard !pending.isEmpty else { return }
        let row = "(\(placeholders(Self.width)))"
        let rows = repeatElement(row, count: pending.count / Self.width)
        _ = try scratch.execute(
            "INSERT INTO entry VALUES \(rows.joined(separator: ", "))", pending)
        pending.removeAll(keepingCapacity: true)
    }

    /// Completes the plan after its last entry.
    func seal() throws(SQLFailure) {
        try insertPending()
        try scratch.run("COMMIT")
    }

    /// Whether another pass may bring rows back that wait: some of them came in the last one.
    var goesAgain: Bool {
        get throws(SQLFailure) {
            let count = try waitingRows()
            return count > 0 && count < waitedBefore
        }
    }

    private func waitingRows() throws(SQLFailure) -> Int {
        try scratch.query("SELECT COUNT(*) FROM waiting").scalar?.count ?? 0
    }

    /// Notes after a commit which targets wait for others, and which do no more.
    func note(
        waiting: [ExactText], done: [ExactText], passIsOver: Bool
    ) throws(SQLFailure) {
        for name in waiting {
            _ = try scratch.execute("INSERT OR IGNORE INTO waiting VALUES (?)", [.text(name)])
        }
        for name in done {
            _ = try scratch.execute("DELETE FROM waiting WHERE target = ?", [.text(name)])
        }
        if passIsOver { waitedBefore = try waitingRows() }
    }

    /// The next targets after a position, at most `limit`, of those that wait or of all; empty at the end.
    func targets(
        after position: String?, limit: Int, waitingOnly: Bool = false
    ) throws(SQLFailure) -> [UndoTarget] {
        // Most targets have one entry; a target with more than the limit is read again with a
        // higher one.
        var room = limit + 64
        while true {
            let rows = try scratch.query(
                "SELECT target, part, seq, action, time, source, image, companion, moment, token FROM entry WHERE "
                    + (waitingOnly ? "target IN (SELECT target FROM waiting) AND " : "")
                    + "target > ? ORDER BY target, moment, newness, age, rank, part, seq LIMIT ?",
                [.text(position ?? ""), .integer(Int64(room))])
            var targets: [UndoTarget] = []
            for row in 0..<rows.count {
                let name = ExactText(rows.string(row, 0))
                if targets.last?.name != name { targets.append(target(name, rows, row)) }
                targets[targets.count - 1].entries.append(entry(rows, row))
            }
            guard rows.count == room else { return Array(targets.prefix(limit)) }
            targets.removeLast()
            if !targets.isEmpty { return Array(targets.prefix(limit)) }
            room *= 4
        }
    }

    /// Whether the change of a mark beside the table to this time, or a later one, is among the chosen entries.
    func takesBack(
        _ time: EpochMilliseconds, beside token: DeviceToken, in partition: Partition
    ) throws(SQLFailure) -> Bool {
        let name = Self.name(
            beside: RowImage.key([.bytes(token.bytes)]), in: partition)
        return try scratch.query(
            "SELECT 1 FROM entry WHERE target = ? AND time >= ? LIMIT 1",
            [.text(name), .integer(time.rawValue)]
        ).count > 0
    }

    /// The sort key of a mark beside the table.
    private static func name(beside key: ExactText, in partition: Partition) -> String {
        ["s", partition.app, partition.environment, key.string].joined(separator: "\u{1F}")
    }

    private func target(_ name: ExactText, _ rows: SQLRows, _ row: Int) -> UndoTarget {
        UndoTarget(
            name: name, partition: parts[rows[row, 1].count ?? 0].partition,
            key: ExactText(
                name.string.unicodeScalars.split(
                    separator: "\u{1F}", omittingEmptySubsequences: false
                ).last.map(String.init) ?? ""),
            isTokenMark: name.utf8.first == UInt8(ascii: "s"), entries: [])
    }

    private func entry(_ rows: SQLRows, _ row: Int) -> LedgerEntry {
        LedgerEntry(
            part: parts[rows[row, 1].count ?? 0].part, sequence: rows[row, 2].integer ?? 0,
            action: rows.string(row, 3), evidence: EpochMilliseconds(rows[row, 4].integer ?? 0),
            source: rows.string(row, 5),
            changed: EpochMilliseconds(0 &- (rows[row, 8].integer ?? 0)),
            token: rows.token(row, 9), hasImage: rows[row, 6].count == 1,
            isCompanion: rows[row, 7].count == 1)
    }
}

// Fills a plan with the chosen entries of the ledger, without their images, page by page.

extension UndoPlan {
    /// Reads the entries of its runs, or those about its token.
    func fill(_ layout: TableLayout, _ connection: any SQLConnection) throws(SQLFailure) {
        let ledger = LedgerReader(connection: connection)
        if case .token(let token) = selection {
            let order = Dictionary(
                uniqueKeysWithValues: runs.enumerated().map { ($0.element.id, $0.offset) })
            let found = try ledger.entries(about: token, limit: .max).filter { $0.sequence >= 0 }
            for (part, entries) in Dictionary(grouping: found, by: \.part) {
                guard let newness = order[part.run] else { continue }
                try add(entries, of: part, newness, open(part, layout, connection))
            }
            return
        }
        for (newness, run) in runs.enumerated() {
            for part in try ledger.parts(ofRun: run.id) {
                try read(part, newness, open(part, layout, connection), ledger)
            }
        }
    }

    /// What is known of a part.
    private typealias Opened = (ownership: EntryOwnership, partition: Partition)

    /// Opens a part. Its entries may be about another table, another token or another mark.
    private func open(
        _ part: LedgerPart, _ layout: TableLayout, _ connection: any SQLConnection
    ) throws(SQLFailure) -> Opened {
        let row = try connection.query(
            "SELECT app, environment, table_name, key_columns, source FROM pushsweep_part "
                + "WHERE number = ?", [part.value])
        guard row.count > 0 else {
            return (
                EntryOwnership(layout, table: nil, columns: nil, source: nil),
                Partition(app: "", environment: "")
            )
        }
        let ownership = EntryOwnership(
            layout, table: row[0, 2].text, columns: row[0, 3].text,
            source: row[0, 4].text)
        return (ownership, row.partition(0, 0))
    }

    private func add(
        _ entries: [LedgerEntry], of part: LedgerPart, _ newness: Int, _ opened: Opened
    ) throws(SQLFailure) {
        for entry in entries {
            if opened.ownership.isForeign(entry) {
                if !entry.isCompanion { excluded[.foreign, default: 0] += 1 }
                continue
            }
            if parts.last?.part != part { parts.append((part, opened.partition)) }
            try add(entry, newness: newness)
            if let beside = entry.besideRow { try add(beside, newness: newness) }
        }
    }

    private func read(
        _ part: LedgerPart, _ newness: Int, _ opened: Opened, _ ledger: LedgerReader
    ) throws(SQLFailure) {
        // A run that still works may add entries, and a purge on another host may drop some.
        let known = try ledger.count(of: part)
        var read = 0
        var sequence: Int64 = -1
        while true {
            let page = try ledger.entries(of: part, after: sequence)
            try add(page, of: part, newness, opened)
            read += page.count
            sequence = page.last?.sequence ?? sequence
            if page.count == LedgerReader.page { continue }
            let left = try read < known ? ledger.count(of: part) : known
            guard left == known else {
                throw SQLFailure(
                    kind: .conflict, code: 0,
                    message: "a purge drops entries of the ledger while they are read")
            }
            return try SQLRows.require(read, atLeast: known, of: "entries of the ledger")
        }
    }
}
