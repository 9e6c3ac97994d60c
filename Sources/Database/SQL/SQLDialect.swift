import Encodings

/// The differences between the engines. The store writes everything else once, in SQL that MariaDB
/// 10.6, MySQL 8, Galera, TiDB and Vitess all run.
package struct SQLDialect: Hashable, Sendable {
    /// The two families of engines.
    package enum Engine: Hashable, Sendable {
        case mariaDB
        case sqlite
    }

    /// The family to which the engine belongs.
    package let engine: Engine
    /// The quote around identifiers.
    let quote: Unicode.Scalar
    /// The statement that begins a transaction that will write.
    let begin: String
    /// The end of a SELECT whose rows will be changed. MySQL asks for UPDATE, DELETE or LOCK TABLES on
    /// the table besides SELECT.
    package let rowLock: String
    /// The end of a SELECT whose rows must stay as they are until the commit, and are not changed in
    /// this transaction. SELECT is enough for it, on MySQL from 8.0.22.
    package let sharedLock: String
    /// Whether one statement for many rows is cheaper than many prepared ones. SQLite runs in this
    /// process, so its statements have no transfer cost.
    package let changesRowsInBatches: Bool
    /// Whether writers wait by polling instead of in a queue. A writer that commits and begins
    /// again at once then blocks all others: with SQLite a registration was measured to wait 4 of
    /// the 5 seconds that an application took.
    let writersPoll: Bool

    /// The dialect of MariaDB, MySQL and servers with their protocol.
    package static let mariaDB = SQLDialect(
        engine: .mariaDB, quote: "`", begin: "START TRANSACTION", rowLock: " FOR UPDATE",
        sharedLock: " LOCK IN SHARE MODE",
        changesRowsInBatches: true, writersPoll: false)

    /// The dialect of SQLite. BEGIN IMMEDIATE takes the write lock at once: a transaction that
    /// reads first and writes later can fail with SQLITE_BUSY without waiting.
    static let sqlite = SQLDialect(
        engine: .sqlite, quote: "\"", begin: "BEGIN IMMEDIATE", rowLock: "",
        sharedLock: "",
        changesRowsInBatches: false, writersPoll: true)

    /// A quoted SQL identifier for a name with any characters.
    package func quoted(_ name: String) -> String {
        name.doubling(quote)
    }

    /// A text as an SQL literal, for statements that a person copies into a session of any mode and
    /// character set. Whether a backslash escapes depends on the mode, what other bytes mean on the
    /// character set; a terminal shows control characters as numbers; and a semicolon or a backtick ends
    /// what is copied. A text with one of them is written as its bytes.
    package func literal(_ text: String) -> String {
        let isPlain = text.utf8.allSatisfy {
            (0x20...0x7E).contains($0) && !"\\;`".utf8.contains($0)
        }
        if isPlain { return text.doubling("'") }
        let bytes = "x'\(Hex.text(Array(text.utf8)))'"
        // An introducer leaves the collation to the column, which CONVERT does not.
        return engine == .mariaDB ? "_utf8mb4 \(bytes)" : "CAST(\(bytes) AS TEXT)"
    }

    /// A part of an account's name, which no bytes may stand for. A backslash never escapes between
    /// backticks.
    static func accountPart(_ text: String) -> String {
        let isPlain = text.utf8.allSatisfy {
            (0x20...0x7E).contains($0) && $0 != UInt8(ascii: "\\")
        }
        return text.doubling(isPlain ? "'" : "`")
    }

    /// The hint after a table's name that makes a server use an index; empty for SQLite and where
    /// there is no index.
    package func indexHint(_ index: String?) -> String {
        guard engine == .mariaDB, let index else { return "" }
        return " FORCE INDEX (\(quoted(index)))"
    }

    /// The beginning of a statement that deletes rows of a table, up to its condition, and whether it has
    /// the form about several tables, without which a DELETE takes no hint.
    package func deletion(_ table: String, _ hint: String) -> (sql: String, isJoin: Bool) {
        hint.isEmpty
            ? ("DELETE FROM \(table) WHERE ", false)
            : ("DELETE \(table) FROM \(table)\(hint) WHERE ", true)
    }

    /// A statement that inserts rows or overwrites the other columns of a row with the same key. It
    /// needs INSERT and UPDATE only, where REPLACE would need DELETE.
    package func upsert(_ table: String, key: [String], columns: [String], rows: Int = 1) -> String
    {
        insertion(table, key: key, columns: columns, rows: rows) { $1($2) }
    }

    /// A statement that inserts a row, or adds its numbers to those of the row with the same key. It
    /// needs INSERT and UPDATE.
    package func accumulation(_ table: String, key: [String], sums: [String]) -> String {
        insertion(table, key: key, columns: sums, rows: 1) { "\($0($2)) + \($1($2))" }
    }

    /// An insert that changes a row with the same key instead. `value` makes the new value of a column, the last
    /// argument, with the names of present values and of inserted ones. A server changes the columns in their
    /// order, so a value must not depend on the present one of a column before it.
    package func insertion(
        _ table: String, key: [String], columns: [String], rows: Int,
        _ value: (
            _ present: (String) -> String, _ inserted: (String) -> String, _ column: String
        ) -> String
    ) -> String {
        let all = key + columns
        let row = "(" + placeholders(all.count) + ")"
        let insert =
            "INSERT INTO \(table) (\(all.joined(separator: ", "))) VALUES "
            + commaList(row, rows)
        switch engine {
        case .mariaDB:
            let assignments = columns.map {
                "\($0) = \(value({ $0 }, { "VALUES(\($0))" }, $0))"
            }
            return "\(insert) ON DUPLICATE KEY UPDATE \(assignments.joined(separator: ", "))"
        case .sqlite:
            let assignments = columns.map {
                "\($0) = \(value({ "\(table).\($0)" }, { "excluded.\($0)" }, $0))"
            }
            return "\(insert) ON CONFLICT (\(key.joined(separator: ", "))) DO UPDATE SET "
                + assignments.joined(separator: ", ")
        }
    }
}

/// `?, ?, …`: `count` parameters; an empty text for none.
package func placeholders(_ count: Int) -> String { commaList("?", count) }

/// A text `count` times with commas in between. Lists of a statement are made of it some
/// thousand times in a run, and a join of an array takes ten times as long.
package func commaList(_ text: String, _ count: Int) -> String {
    count > 0 ? String(repeating: text + ", ", count: count - 1) + text : ""
}

// Periods are counted by the database's clock, because the clocks of hosts differ. The spelling of
// the clock depends on the engine and is defined only here.

extension SQLDialect {
    /// An SQL expression for the present in UTC by the database's clock, in milliseconds.
    package var now: String {
        switch engine {
        case .mariaDB: "UTC_TIMESTAMP(3)"
        case .sqlite: "strftime('%Y-%m-%d %H:%M:%f', 'now')"
        }
    }

    /// An SQL expression for the present plus a number of seconds, which may be below 0.
    package func now(adding seconds: Int) -> String {
        switch engine {
        case .mariaDB: "UTC_TIMESTAMP(3) + INTERVAL \(seconds) SECOND"
        case .sqlite: "strftime('%Y-%m-%d %H:%M:%f', 'now', '\(seconds) seconds')"
        }
    }
}
