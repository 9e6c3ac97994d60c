import Database
import Encodings

// A trigger of SQLite may write the table that it belongs to, by itself or by the triggers of another table. So
// a statement about one row may remove another one or move its registration, and nothing of that shows in the
// row itself nor in the count of changes. Reading the whole table again would show it. Triggers of our own
// show it cheaper: they stand in the scratch database of the connection, for one chunk, and write down each row
// that is written, whoever writes it.
//
//   begin chunk -> make the triggers -> statement -> read what it touched -> ... -> drop them -> commit
//
// Rows that REPLACE removes run no trigger, unless triggers may be recursive. A trigger that says REPLACE makes
// the statements of all triggers that it runs say it, too, also about this table. So where one says it, triggers
// are recursive while rows are written down. One that would run itself for ever is refused with its row.
//
// A rollback takes them away with all else. They are made only where the table has triggers of others. Servers
// refuse a trigger that writes its own table (1442).

/// Writes down which rows of the token table statements write, in SQLite. Confined to the store's thread.
struct TouchedRows {
    /// What happened to a row, in the order of its weight.
    enum Depth: Int {
        /// A column without a role changed.
        case value
        /// It came or went, or a column with a role changed.
        case role
    }

    private let lookup: RowLookup

    private var layout: TableLayout { lookup.layout }
    private var connection: any SQLConnection { lookup.connection }

    /// Whether triggers may remove rows by REPLACE, and our statements do not forbid it.
    private var isRecursive: Bool { layout.mayReplaceRows && layout.orAbort.isEmpty }

    private static let table = "temp.pushsweep_touched"
    private static let events = ["INSERT", "UPDATE", "DELETE"]

    /// Begins to write down, where a change of some kind may run triggers of others that write the table; nil
    /// elsewhere. `event` is `INSERT` or `UPDATE`.
    init?(
        _ lookup: RowLookup, _ event: String, of triggers: [TableReach.Trigger]
    ) throws(SQLFailure) {
        guard lookup.dialect.engine == .sqlite,
            triggers.contains(where: { $0.event == event }),
            triggers.contains(where: { !$0.isOwn })
        else { return nil }
        self.lookup = lookup
        // The last chunk of the connection may have been about another table, or another key.
        try end()
        // Rows that REPLACE removes run no trigger otherwise.
        if isRecursive { try connection.run("PRAGMA recursive_triggers = ON") }
        try connection.run("DROP TABLE IF EXISTS \(Self.table)")
        let keys = layout.key.indices.map { "k\($0)" }
        try connection.run(
            "CREATE TEMP TABLE pushsweep_touched (depth, "
                + "\(keys.joined(separator: ", ")))")
        for event in Self.events {
            try connection.run(
                "CREATE TEMP TRIGGER \(Self.name(event)) AFTER \(event) ON "
                    + "\(layout.table.sql(lookup.dialect)) \(condition(event)) BEGIN "
                    + "\(statements(event).joined()) END")
        }
    }

    private static func name(_ event: String) -> String {
        "pushsweep_touched_\(event.lowercased())"
    }

    private func key(_ side: String) -> String {
        layout.key.map { "\(side).\(lookup.dialect.quoted($0.name))" }.joined(separator: ", ")
    }

    /// Whether columns have the same values before and after, byte by byte.
    private func same(_ columns: [String]) -> String {
        let tests = columns.map { column in
            let name = lookup.dialect.quoted(column)
            return "OLD.\(name) IS NEW.\(name) COLLATE BINARY"
        }
        return tests.isEmpty ? "1" : "(\(tests.joined(separator: " AND ")))"
    }

    /// The columns of which a change is told; more make an expression that SQLite refuses.
    private var compared: [String] { Array(layout.columns.prefix(500)) }

    private func condition(_ event: String) -> String {
        event == "UPDATE" && layout.columns.count <= compared.count
            ? "WHEN NOT \(same(compared))" : ""
    }

    private func statements(_ event: String) -> [String] {
        let beginning = "INSERT INTO pushsweep_touched SELECT"
        let side = event == "INSERT" ? "NEW" : "OLD"
        guard event == "UPDATE" else {
            return ["\(beginning) \(Depth.role.rawValue), \(key(side));"]
        }
        let names = layout.key.map(\.name)
        let depth =
            "CASE WHEN NOT \(same(layout.usedColumns)) THEN \(Depth.role.rawValue) "
            + "ELSE \(Depth.value.rawValue) END"
        return [
            "\(beginning) \(depth), \(key("OLD"));",
            "\(beginning) \(Depth.role.rawValue), \(key("NEW")) WHERE NOT \(same(names));",
        ]
    }

    /// Forgets what was written so far.
    func forget() throws(SQLFailure) { try connection.run("DELETE FROM \(Self.table)") }

    /// The keys of rows that were written, as the ledger spells them, at most `limit`.
    private func names(from depth: Depth, limit: Int) throws(SQLFailure) -> [ExactText] {
        let keys = layout.key.indices.map { "k\($0)" }.joined(separator: ", ")
        let rows = try connection.query(
            "SELECT DISTINCT \(keys) FROM \(Self.table) WHERE depth >= ? LIMIT ?",
            [.integer(Int64(depth.rawValue)), .integer(Int64(limit))])
        return (0..<rows.count).map { RowImage.key(Array(rows.row($0))) }
    }

    /// Whether another row than some was written.
    func hasOthers(than own: Set<ExactText>, from depth: Depth) throws(SQLFailure) -> Bool {
        try names(from: depth, limit: own.count + 1).contains { !own.contains($0) }
    }

    /// Ends to write down; without it the rollback of the transaction does.
    func end() throws(SQLFailure) {
        if isRecursive { try connection.run("PRAGMA recursive_triggers = OFF") }
        for event in Self.events {
            try connection.run("DROP TRIGGER IF EXISTS temp.\(Self.name(event))")
        }
    }
}
