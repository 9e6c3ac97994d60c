import GRDB

/// The tables of the journal. Times are milliseconds since 1970 UTC. A released migration is never
/// edited; a new one follows it.
enum JournalSchema {
    /// The application ID in the header of an SQLite file that is our journal.
    static let applicationID: UInt32 = 1_349_873_719

    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1 feeds and runs") { db in
            try db.execute(
                sql: """
                    CREATE TABLE run (
                        id TEXT NOT NULL PRIMARY KEY, kind TEXT NOT NULL,
                        started INTEGER NOT NULL, ended INTEGER, exit INTEGER, summary TEXT);
                    CREATE TABLE feed (
                        id TEXT NOT NULL PRIMARY KEY, run TEXT NOT NULL, app TEXT NOT NULL,
                        environment TEXT NOT NULL, source TEXT NOT NULL, opened INTEGER NOT NULL,
                        closed INTEGER, bytes INTEGER NOT NULL DEFAULT 0, end TEXT,
                        state TEXT NOT NULL, cause TEXT, settled INTEGER,
                        purged INTEGER NOT NULL DEFAULT 0);
                    CREATE INDEX feed_state ON feed (state, opened);
                    CREATE TABLE chunk (
                        id INTEGER PRIMARY KEY, feed TEXT NOT NULL, start INTEGER NOT NULL,
                        bytes BLOB NOT NULL);
                    CREATE UNIQUE INDEX chunk_place ON chunk (feed, start);
                    CREATE TABLE quarantine (
                        feed TEXT NOT NULL, start INTEGER NOT NULL, length INTEGER NOT NULL,
                        reason TEXT NOT NULL, PRIMARY KEY (feed, start));
                    """)
        }
        migrator.registerMigration("2 answers beside feedback lists") { db in
            try db.execute(
                sql: "ALTER TABLE feed ADD COLUMN kind TEXT NOT NULL DEFAULT 'feedback'")
        }
        migrator.registerMigration("3 the gate that holds a feed") { db in
            try db.execute(sql: "ALTER TABLE feed ADD COLUMN gate TEXT")
        }
        migrator.registerMigration("4 the last run of a kind") { db in
            try db.execute(
                sql: """
                    CREATE INDEX run_kind ON run (kind);
                    CREATE INDEX run_success ON run (kind) WHERE exit = 0;
                    """)
        }
        migrator.registerMigration("5 reports of other senders") { db in
            try db.execute(
                sql: """
                    ALTER TABLE feed ADD COLUMN intake TEXT;
                    CREATE INDEX feed_intake ON feed (intake) WHERE intake IS NOT NULL;
                    """)
        }
        migrator.registerMigration("6 who runs") { db in
            try db.execute(sql: "ALTER TABLE run ADD COLUMN operator TEXT")
        }
        return migrator
    }
}

// GRDB's own subscripts end the process when a value has an unexpected type. A file that was edited,
// or a disk with a flipped bit, must cause an error message instead, because the other feeds of the
// journal are still usable.

/// A row with a value that we never wrote.
struct UnreadableRow: Error, CustomStringConvertible {
    let column: String

    var description: String {
        "column \(column) holds a value that this program never writes; keep a copy of the state folder and "
            + "check the disk; to continue without the rest of it, move journal.sqlite away"
    }
}

extension Row {
    /// A value of a column that is never NULL.
    func value<T: DatabaseValueConvertible>(_ column: String) throws -> T {
        guard let value: T = try optional(column) else { throw UnreadableRow(column: column) }
        return value
    }

    /// A value of a column that may be NULL.
    func optional<T: DatabaseValueConvertible>(_ column: String) throws -> T? {
        guard let index = index(forColumn: column) else { throw UnreadableRow(column: column) }
        let found: DatabaseValue = self[index]
        if found.isNull { return nil }
        guard let value = T.fromDatabaseValue(found) else { throw UnreadableRow(column: column) }
        return value
    }

    /// A value of an enumeration stored as text.
    func word<T: RawRepresentable<String>>(_ text: String, in column: String) throws -> T {
        guard let word = T(rawValue: text) else { throw UnreadableRow(column: column) }
        return word
    }

    private func index(forColumn column: String) -> Int? {
        Array(columnNames).firstIndex(of: column)
    }
}
