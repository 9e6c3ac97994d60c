import APNsProtocol
import Database
import Encodings

/// The tables of the journal. Times are milliseconds since 1970 UTC.
enum JournalSchema {
    /// The application ID in the header of an SQLite file that is our journal.
    static let applicationID: UInt32 = 1_349_873_719
    /// The number of this layout in the header (`user_version`). One with other tables has another.
    private static let layout = 4

    /// The statements that create the tables in a file that has none.
    static let tables = """
        CREATE TABLE run (
            id TEXT NOT NULL PRIMARY KEY, kind TEXT NOT NULL, operator TEXT NOT NULL,
            started INTEGER NOT NULL, ended INTEGER, exit INTEGER, summary TEXT);
        CREATE INDEX run_kind ON run (kind);
        CREATE INDEX run_success ON run (kind) WHERE exit = 0;
        CREATE TABLE feed (
            id TEXT NOT NULL PRIMARY KEY, run TEXT NOT NULL, app TEXT NOT NULL,
            environment TEXT NOT NULL, source TEXT NOT NULL, opened INTEGER NOT NULL,
            closed INTEGER, bytes INTEGER NOT NULL DEFAULT 0, end TEXT, state TEXT NOT NULL,
            cause TEXT, settled INTEGER, purged INTEGER NOT NULL DEFAULT 0);
        CREATE INDEX feed_state ON feed (state, opened);
        CREATE TABLE chunk (
            id INTEGER PRIMARY KEY, feed TEXT NOT NULL, start INTEGER NOT NULL,
            bytes BLOB NOT NULL);
        CREATE UNIQUE INDEX chunk_place ON chunk (feed, start);
        CREATE TABLE quarantine (
            feed TEXT NOT NULL, start INTEGER NOT NULL, length INTEGER NOT NULL,
            reason TEXT NOT NULL, PRIMARY KEY (feed, start));
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
}

// A file that was edited, or a disk with a flipped bit, must cause an error message, because the other
// lists of the journal are still usable.

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
