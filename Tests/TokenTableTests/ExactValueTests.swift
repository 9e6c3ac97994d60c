import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

extension TokenDatabase {
    /// The rows of a table with every value as the database prints its bytes, ordered by its
    /// number.
    func printed(_ columns: [String], of table: String) throws -> [[String]] {
        let list = columns.map { name in
            engine == .sqlite
                ? "typeof(\(name)) || CASE typeof(\(name)) WHEN 'real' THEN quote(\(name)) "
                    + "ELSE hex(CAST(\(name) AS BLOB)) END"
                : "HEX(CAST(\(name) AS BINARY))"
        }
        return try texts("SELECT \(list.joined(separator: ", ")) FROM \(table) ORDER BY number")
    }
}

@Suite("Values of rows, byte by byte")
struct ExactValueTests {
    @Test("a key with a NUL, or with invalid UTF-8, names its own row and no other")
    func oddKeys() throws {
        let database = try TokenDatabase.withSideTables(.sqlite)
        try database.sql.run(
            "CREATE TABLE devices (id TEXT PRIMARY KEY, device_token TEXT, registered_at DATETIME NULL, "
                + "invalidated_at BIGINT, number INTEGER)")
        let keys = ["616461", "6164610078", "616461ff", "616461efbfbd", "00", ""]
        for (number, key) in keys.enumerated() {
            try database.sql.run(
                "INSERT INTO devices VALUES (CAST(x'\(key)' AS TEXT), '\(DeviceToken.numbered(number).hex)', "
                    + "NULL, NULL, \(number))")
        }
        let store = try database.store {
            $0.table = "devices"
            $0.invalidatedAt.type = .epochMilliseconds
        }
        for number in keys.indices {
            try store.apply([.dead(number, at: start + Int64(number))])
            let marked = try database.texts(
                "SELECT number FROM devices WHERE invalidated_at = \(start + Int64(number))")
            #expect(marked == [["\(number)"]], "key \(keys[number])")
        }
    }

    @Test("SQLite returns text with NUL and with invalid UTF-8 unchanged")
    func sqliteText() throws {
        let database = try TokenDatabase.withSideTables(.sqlite)
        try database.sql.run(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token TEXT, note TEXT, number INTEGER)"
        )
        let notes = ["610062", "61ff62", "ff", "efbfbd", "00", "", "f09f9880"]
        for (number, note) in notes.enumerated() {
            try database.sql.run(
                "INSERT INTO devices VALUES (\(number), '\(DeviceToken.numbered(number).hex)', "
                    + "CAST(x'\(note)' AS TEXT), \(number))")
        }
        let before = try database.printed(["id", "device_token", "note"], of: "devices")
        let store = try database.store { $0.table = "devices" }
        let policy = RemovalPolicy(action: .delete, deletesWithoutRegistrationTime: true)
        try store.sweep("run", notes.indices.map { .dead($0, at: start) }, policy: policy)
        #expect(try database.rows(of: "devices") == 0)
        try store.undo(.run("run"))
        #expect(try database.printed(["id", "device_token", "note"], of: "devices") == before)
    }

    @Test("a file in UTF-16, whose text does not survive byte by byte, is refused unchanged")
    func sqliteUTF16() throws {
        // The encoding is chosen before the first table is made, so a file of its own is needed.
        let folder = try TemporaryFolder()
        let settings = StoreSettings(location: .sqlite(path: folder.file("utf16.sqlite")))
        let sql = SQLiteConnection(path: folder.file("utf16.sqlite"), creates: true, settings)
        try sql.connect()
        try sql.run("PRAGMA encoding = 'UTF-16le'")
        for statement in SchemaScript.whole(for: settings.location).statements {
            try sql.run(statement)
        }
        expectFailure(.configuration, "UTF-16le") { try TokenTable(settings) }
        withExtendedLifetime(folder) {}
    }

    @Test(
        "a key whose values do not compare as they are read is refused",
        .needsServer,
        arguments: [
            "DECIMAL(30,0)", "FLOAT", "DOUBLE", "ENUM('a','b')", "SET('a','b')", "BIT(8)",
            "VARCHAR(20) CHARACTER SET cp932", "VARCHAR(20) CHARACTER SET big5",
        ])
    func oddKeyTypes(_ type: String) throws {
        let database = try TokenDatabase.withSideTables(.mariaDB)
        try database.sql.run(
            "CREATE TABLE devices (id INT, k \(type), device_token VARCHAR(64), PRIMARY KEY (k, id))"
        )
        let store = try database.store {
            $0.table = "devices"
            $0.key = ["id", "k"]
        }
        expectFailure(.configuration, "key column k has type") {
            try store.require(.apply(RemovalPolicy()))
        }
    }

    @Test("impossible dates and error values of an ENUM come back unchanged", .needsServer)
    func oddDates() throws {
        let database = try TokenDatabase.withSideTables(.mariaDB)
        try database.sql.run("SET SESSION sql_mode = 'ALLOW_INVALID_DATES'")
        try database.sql.run(
            "CREATE TABLE devices (id INT PRIMARY KEY, device_token VARCHAR(64), born DATETIME(6), "
                + "day DATE, kind ENUM('a','b'), number INT)")
        let rows = [
            "'2024-00-00 11:22:33', '2024-00-00', 'a'",
            "'2024-02-31 11:22:33.5', '2024-02-31', 'zz'",
            "'0000-00-00 00:00:00', '0000-00-00', 'b'", "NULL, NULL, NULL",
            "'9999-12-31 23:59:59.999999', '0001-01-01', ''",
        ]
        for (number, row) in rows.enumerated() {
            try database.sql.run(
                "INSERT IGNORE INTO devices VALUES (\(number), '\(DeviceToken.numbered(number).hex)', "
                    + "\(row), \(number))")
        }
        let columns = ["id", "device_token", "born", "day", "kind + 0"]
        let before = try database.printed(columns, of: "devices")
        let store = try database.store { $0.table = "devices" }
        let policy = RemovalPolicy(action: .delete, deletesWithoutRegistrationTime: true)
        try store.sweep("run", rows.indices.map { .dead($0, at: start) }, policy: policy)
        #expect(try database.rows(of: "devices") == 0)
        let undone = try store.undo(.run("run"))
        #expect(undone.inserted == rows.count && undone.kept.isEmpty)
        #expect(try database.printed(columns, of: "devices") == before)
    }

    @Test(
        "a row with text that no client gets whole is left and named; the others are removed",
        .needsServer)
    func unfitText() throws {
        let database = try TokenDatabase.withSideTables(.mariaDB)
        try database.sql.run(
            "CREATE TABLE devices (id INT PRIMARY KEY, device_token VARCHAR(64), "
                + "note VARCHAR(20) CHARACTER SET ucs2, kind ENUM('', 'a'), number INT)")
        try database.sql.run("SET SESSION sql_mode = ''")
        try database.sql.run(
            "INSERT IGNORE INTO devices VALUES (1, '\(DeviceToken.numbered(1).hex)', 'fine', 'a', 1), "
                + "(2, '\(DeviceToken.numbered(2).hex)', 'fine', 'zz', 2), "
                + "(3, '\(DeviceToken.numbered(3).hex)', _ucs2 x'd800', 'a', 3)")
        let store = try database.store { $0.table = "devices" }
        let policy = RemovalPolicy(action: .delete, deletesWithoutRegistrationTime: true)
        let before = try database.printed(["id", "note", "kind + 0"], of: "devices")
        try store.sweep("run", (1...3).map { .dead($0, at: start) }, policy: policy)
        let refused = try database.texts(
            "SELECT row_key FROM pushsweep_change WHERE action = 'refused' ORDER BY row_key")
        let left = try database.texts("SELECT id FROM devices ORDER BY id")
        #expect(left == refused && !left.contains(["1"]) && left.contains(["2"]))
        try store.undo(.run("run"))
        #expect(try database.printed(["id", "note", "kind + 0"], of: "devices") == before)
    }
}
