/// What the engines spell differently. The store writes everything else once, in SQL that MariaDB
/// 10.6, MySQL 8, Galera, Spider, TiDB and Vitess all run.
package struct SQLDialect: Hashable, Sendable {
    /// The two families of engines.
    package enum Engine: Hashable, Sendable {
        case mariaDB
        case sqlite
    }

    /// The family.
    package let engine: Engine
    /// The character around identifiers.
    let quote: Unicode.Scalar
    /// Opens a transaction that will write.
    let begin: String
    /// Ends a SELECT whose rows are going to be changed.
    package let rowLock: String
    /// Whether one statement for many rows is cheaper than many prepared ones. SQLite runs in our
    /// own process, so its statements travel nowhere.
    package let changesRowsInBatches: Bool
    /// Whether writers wait by asking again now and then instead of in a queue. One that commits
    /// and begins again at once then keeps all others out: with SQLite a registration was measured
    /// to wait 4 of the 5 seconds that an application took.
    let writersPoll: Bool

    /// MariaDB, MySQL and what speaks their protocol.
    package static let mariaDB = SQLDialect(
        engine: .mariaDB, quote: "`", begin: "START TRANSACTION", rowLock: " FOR UPDATE",
        changesRowsInBatches: true, writersPoll: false)

    /// SQLite. BEGIN IMMEDIATE takes the write lock at once: a transaction that reads first and
    /// writes later can fail with SQLITE_BUSY without waiting.
    static let sqlite = SQLDialect(
        engine: .sqlite, quote: "\"", begin: "BEGIN IMMEDIATE", rowLock: "",
        changesRowsInBatches: false, writersPoll: true)

    /// An identifier as it stands in a statement, whatever characters it has.
    package func quoted(_ name: String) -> String {
        // By scalars: servers know no characters, and a quote with a combining mark after it is one
        // character that equals no quote.
        var quoted = String.UnicodeScalarView([quote])
        for scalar in name.unicodeScalars {
            if scalar == quote { quoted.append(quote) }
            quoted.append(scalar)
        }
        quoted.append(quote)
        return String(quoted)
    }

    /// Inserts one row or overwrites the other columns of the row with the same key. Needs INSERT
    /// and UPDATE only, where REPLACE would need DELETE.
    package func upsert(_ table: String, key: [String], columns: [String], rows: Int = 1) -> String
    {
        let all = key + columns
        let row = "(" + placeholders(all.count) + ")"
        let insert =
            "INSERT INTO \(table) (\(all.joined(separator: ", "))) VALUES "
            + repeatElement(row, count: rows).joined(separator: ", ")
        switch engine {
        case .mariaDB:
            let assignments = columns.map { "\($0) = VALUES(\($0))" }
            return "\(insert) ON DUPLICATE KEY UPDATE \(assignments.joined(separator: ", "))"
        case .sqlite:
            let assignments = columns.map { "\($0) = excluded.\($0)" }
            return "\(insert) ON CONFLICT (\(key.joined(separator: ", "))) DO UPDATE SET "
                + assignments.joined(separator: ", ")
        }
    }
}

/// `?, ?, …`: `count` places for values, at least one.
package func placeholders(_ count: Int) -> String {
    repeatElement("?", count: count).joined(separator: ", ")
}
