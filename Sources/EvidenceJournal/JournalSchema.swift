import Database
import Encodings

/// The tables of the journal. Times are milliseconds since 1970 UTC.
enum JournalSchema {
    /// The application ID in the header of an SQLite file that is our journal.
    static let applicationID: UInt32 = 1_349_873_719
    /// The number of this layout in the header (`user_version`). One with other tables has another.
    private static let layout = 5

    /// That of the build that kept lists here too.
    private static let layoutWithLists = 4

    /// The statements that create the tables in a file that has none.
    static let tables = """
        CREATE TABLE run (
            id TEXT NOT NULL PRIMARY KEY, kind TEXT NOT NULL, operator TEXT NOT NULL,
            started INTEGER NOT NULL, ended INTEGER, exit INTEGER, summary TEXT);
        CREATE INDEX run_kind ON run (kind);
        CREATE INDEX run_success ON run (kind) WHERE exit = 0;
        PRAGMA user_version = \(layout);
        """

    /// Whether the file has this layout; false for a file that has no table yet.
    ///
    /// - Throws: `Refusal` for tables of another layout.
    static func isThere(_ database: SQLiteConnection) throws -> Bool {
        let number = try database.query("PRAGMA user_version").scalar?.count
        if number == layout { return true }
        let tables = try database.query("SELECT COUNT(*) FROM sqlite_master").scalar?.count
        guard number == 0, tables == 0 else { throw Refusal.otherLayout }
        return false
    }

    /// Takes the lists of an earlier build out of a journal, once the database has them.
    ///
    /// - Throws: `otherBuild` where lists wait.
    static func dropLists(_ database: SQLiteConnection, of path: String) throws {
        guard try database.query("PRAGMA user_version").scalar?.count == layoutWithLists else {
            return
        }
        let waiting = try database.query(
            "SELECT COUNT(*) FROM feed WHERE state <> 'applied'"
        ).scalar?.count
        guard waiting == 0 else {
            throw JournalFailure(
                .otherBuild,
                "opening the journal \(path): it has lists of an earlier build that wait (\(waiting ?? 1)), which this "
                    + "one does not read: let pushsweep sweep of that build store them first, or move journal.sqlite away, "
                    + "and with it what was read of them")
        }
        try database.transaction {
            try database.run(
                "DROP TABLE feed; DROP TABLE chunk; DROP TABLE quarantine; PRAGMA user_version = \(layout)"
            )
        }
        try database.run("PRAGMA incremental_vacuum")
    }
}

// A file that was edited, or a disk with a flipped bit, must cause an error message, because the other
// records of the journal are still usable.

extension Refusal {
    /// Content that this program does not write.
    static let otherLayout = Refusal(
        "it has the layout of another build, which this one does not read; run pushsweep sweep, which takes it over or "
            + "says what waits in it; where it does not, finish that with the other build")

    static func column(_ name: String) -> Refusal {
        Refusal(
            "column \(name) holds a value that this program never writes; keep a copy "
                + "of the state folder and check the disk; to continue without the rest of it, "
                + "move journal.sqlite away")
    }
}

extension EvidenceJournal {
    /// Changes rows by one statement; returns their number.
    @discardableResult
    func change(
        _ doing: String, _ sql: String, _ values: [SQLValue]
    ) throws(JournalFailure) -> Int {
        try perform(doing) { try $0.execute(sql, values) }
    }

    /// Makes something of each row.
    func rows<T>(
        _ doing: String, _ sql: String, _ values: [SQLValue],
        _ make: (ArraySlice<SQLValue>) throws -> T
    ) throws(JournalFailure) -> [T] {
        try perform(doing) {
            let rows = try $0.query(sql, values)
            return try (0..<rows.count).map { try make(rows.row($0)) }
        }
    }
}
