import GRDB

/// The tables of the journal. Times are milliseconds since 1970 UTC.
enum JournalSchema {
    /// The application ID in the header of an SQLite file that is our journal.
    static let applicationID: UInt32 = 1_349_873_719
    /// The number of this layout in the header (`user_version`). One with other tables has another.
    static let layout = 3

    /// Whether the file has this layout; false for a file that has no table yet.
    ///
    /// - Throws: `otherLayout` for tables of another layout.
    static func isThere(_ db: Database) throws -> Bool {
        let number = try Int.fetchOne(db, sql: "PRAGMA user_version")
        if number == layout { return true }
        let tables = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM sqlite_master")
        guard number == 0, tables == 0 else { throw OtherLayout() }
        return false
    }

    /// Tables of another layout than ours.
    struct OtherLayout: Error {}

    /// Creates the tables in a file that has none.
    static func create(_ db: Database) throws {
        try db.execute(
            sql: """
                CREATE TABLE run (
                    id TEXT NOT NULL PRIMARY KEY, kind TEXT NOT NULL, operator TEXT NOT NULL,
                    started INTEGER NOT NULL, ended INTEGER, exit INTEGER, summary TEXT);
                CREATE INDEX run_kind ON run (kind);
                CREATE INDEX run_success ON run (kind) WHERE exit = 0;
                CREATE TABLE feed (
                    id TEXT NOT NULL PRIMARY KEY, run TEXT NOT NULL, app TEXT NOT NULL,
                    environment TEXT NOT NULL, kind TEXT NOT NULL DEFAULT 'feedback',
                    source TEXT NOT NULL, opened INTEGER NOT NULL, closed INTEGER,
                    bytes INTEGER NOT NULL DEFAULT 0, end TEXT, state TEXT NOT NULL, cause TEXT,
                    gate TEXT, intake TEXT, settled INTEGER, purged INTEGER NOT NULL DEFAULT 0);
                CREATE INDEX feed_state ON feed (state, opened);
                CREATE INDEX feed_intake ON feed (intake) WHERE intake IS NOT NULL;
                CREATE TABLE chunk (
                    id INTEGER PRIMARY KEY, feed TEXT NOT NULL, start INTEGER NOT NULL,
                    bytes BLOB NOT NULL);
                CREATE UNIQUE INDEX chunk_place ON chunk (feed, start);
                CREATE TABLE quarantine (
                    feed TEXT NOT NULL, start INTEGER NOT NULL, length INTEGER NOT NULL,
                    reason TEXT NOT NULL, PRIMARY KEY (feed, start));
                PRAGMA user_version = \(layout);
                """)
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
