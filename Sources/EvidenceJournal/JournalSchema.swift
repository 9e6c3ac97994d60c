import APNsProtocol
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
        "it has the layout of another build, which this one does not read; move journal.sqlite "
            + "away, and with it what that build had read of lists and not stored")

    static func column(_ name: String) -> Refusal {
        Refusal(
            "column \(name) holds a value that this program never writes; keep a copy "
                + "of the state folder and check the disk; to continue without the rest of it, "
                + "move journal.sqlite away")
    }
}

/// A row of the journal, read by the names of its columns.
struct JournalRow {
    private let names: [String]
    private let values: ArraySlice<SQLValue>

    fileprivate init(_ rows: SQLRows, _ row: Int) {
        names = rows.names
        values = rows.row(row)
    }

    private subscript(column: String) -> SQLValue? {
        guard let place = names.firstIndex(of: column) else { return nil }
        let value = values[values.startIndex + place]
        return value == .null ? nil : value
    }

    /// A value of a column that may be NULL.
    func optional<T: JournalValue>(_ column: String) throws(Refusal) -> T? {
        guard let found = self[column] else { return nil }
        guard let value = T(found) else { throw .column(column) }
        return value
    }

    /// A value of a column that is never NULL.
    func value<T: JournalValue>(_ column: String) throws(Refusal) -> T {
        guard let value: T = try optional(column) else { throw .column(column) }
        return value
    }

    /// A value of an enumeration stored as text.
    func word<T: RawRepresentable<String>>(_ column: String) throws(Refusal) -> T {
        guard let word: T = try optionalWord(column) else { throw .column(column) }
        return word
    }

    /// A value of an enumeration stored as text, in a column that may be NULL.
    func optionalWord<T: RawRepresentable<String>>(
        _ column: String
    ) throws(Refusal) -> T? {
        guard let text: String = try optional(column) else { return nil }
        guard let word = T(rawValue: text) else { throw .column(column) }
        return word
    }
}

/// A value as the journal stores it.
protocol JournalValue {
    init?(_ stored: SQLValue)
    var stored: SQLValue { get }
}

extension JournalValue where Self: FixedWidthInteger {
    init?(_ stored: SQLValue) {
        guard let number = stored.integer else { return nil }
        self.init(exactly: number)
    }
    var stored: SQLValue { .integer(Int64(self)) }
}
extension Int: JournalValue {}
extension Int32: JournalValue {}

extension String: JournalValue {
    init?(_ stored: SQLValue) {
        guard case .text(let text) = stored else { return nil }
        self = text.string
    }
    var stored: SQLValue { .text(self) }
}

extension EpochMilliseconds: JournalValue {
    init?(_ stored: SQLValue) {
        guard let number = stored.integer else { return nil }
        self.init(number)
    }
    var stored: SQLValue { .integer(rawValue) }
}

/// A statement with its values, which an interpolation binds.
struct JournalSQL: ExpressibleByStringInterpolation, StringInterpolationProtocol {
    private(set) var text = ""
    private(set) var values: [SQLValue] = []

    init(stringLiteral text: String) { self.text = text }
    init(stringInterpolation statement: JournalSQL) { self = statement }
    init(literalCapacity: Int, interpolationCount: Int) {}

    mutating func appendLiteral(_ text: String) { self.text += text }

    mutating func appendInterpolation(_ value: SQLValue) {
        text += "?"
        values.append(value)
    }

    mutating func appendInterpolation(_ value: (some JournalValue)?) {
        appendInterpolation(value?.stored ?? .null)
    }

    mutating func appendInterpolation(_ word: (some RawRepresentable<String>)?) {
        appendInterpolation(word?.rawValue)
    }

    /// A list of texts, without its brackets.
    mutating func appendInterpolation(list words: [String]) {
        for (number, word) in words.enumerated() {
            if number > 0 { text += ", " }
            appendInterpolation(word)
        }
    }

    /// A part of the statement.
    mutating func appendInterpolation(_ part: JournalSQL) {
        text += part.text
        values += part.values
    }
}

extension SQLiteConnection {
    /// Changes rows; returns their number.
    @discardableResult
    func change(_ sql: JournalSQL) throws(SQLFailure) -> Int { try execute(sql.text, sql.values) }

    /// Makes something of each row.
    func rows<T>(_ sql: JournalSQL, _ make: (JournalRow) throws -> T) throws -> [T] {
        let rows = try query(sql.text, sql.values)
        return try (0..<rows.count).map { try make(JournalRow(rows, $0)) }
    }
}

extension EvidenceJournal {
    /// Changes rows by one statement; returns their number.
    @discardableResult
    func change(_ doing: String, _ sql: JournalSQL) throws(JournalFailure) -> Int {
        try perform(doing) { try $0.change(sql) }
    }

    /// Makes something of each row.
    func rows<T>(
        _ doing: String, _ sql: JournalSQL, _ make: (JournalRow) throws -> T
    ) throws(JournalFailure) -> [T] {
        try perform(doing) { try $0.rows(sql, make) }
    }
}
