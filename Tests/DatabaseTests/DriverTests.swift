import Findings
import Foundation
import TestSupport
import Testing

@testable import Database
@testable import PushQueue
@testable import TokenTable

@Suite("Promises of the drivers")
struct DriverTests {
    @Test("a place outside the rows or columns of a result reads as NULL")
    func emptyResult() {
        var rows = SQLRows(width: 2)
        #expect(rows[0, 0] == .null)
        rows.append(.integer(1))
        rows.append(.integer(2))
        rows.append(.integer(3))
        rows.append(.integer(4))
        #expect(rows[1, 1] == .integer(4))
        // A narrow row must not borrow a value from the next one.
        #expect(rows[0, 2] == .null && rows[2, 0] == .null && rows[-1, 0] == .null)
        #expect(throws: Never.self) { try rows.require(width: 2) }
        #expect(throws: SQLFailure.self) { try rows.require(width: 3) }
        #expect(throws: Never.self) { try SQLRows.require(2, atLeast: 2, of: "rows") }
        let failure = #expect(throws: SQLFailure.self) {
            try SQLRows.require(2, atLeast: 3, of: "rows")
        }
        #expect(failure?.kind == .inconsistent)
    }

    @Test("a quote is doubled even where a combining mark makes another character of it")
    func quoting() {
        #expect(SQLDialect.mariaDB.quoted("a`\u{301}b") == "`a``\u{301}b`")
        #expect(SQLDialect.sqlite.quoted("\"\u{20D2}") == "\"\"\"\u{20D2}\"")
        #expect(SQLDialect.mariaDB.quoted("a\"b") == "`a\"b`")
    }

    @Test(
        "names with quotes, also those that combine into other characters, stay names",
        arguments: TestEngine.available)
    func quotedNames(_ engine: TestEngine) throws {
        let database = try TokenDatabase(engine)
        let quote = engine == .mariaDB ? "`" : "\""
        let name = "x\(quote)\u{301}y"
        let quoted = database.sql.dialect.quoted(name)
        try database.execute("CREATE TABLE \(quoted) (id INTEGER)")
        try database.execute("INSERT INTO \(quoted) VALUES (7)")
        #expect(try database.count("SELECT id FROM \(quoted)") == 7)
    }

    @Test(
        "a change of the schema may outlast the read timeout, the next statement may not",
        .needsServer,
        arguments: [true, false])
    func unlimitedSchemaChange(isEncrypted: Bool) throws {
        let database = try TokenDatabase(.mariaDB)
        database.settings.timeouts.read = 1
        if !isEncrypted { database.settings.tls = .off }
        let connection = database.driver()
        try connection.connect()
        try connection.runSchemaChange("DO SLEEP(2.5)")
        let failure = #expect(throws: SQLFailure.self) { try connection.run("DO SLEEP(4)") }
        #expect(failure?.kind == .lost)
    }

    @Test(
        "a connection lost while the schema changes is reported, and the change is not repeated",
        arguments: TestEngine.available)
    func lostSchemaChange(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE active_users (id INTEGER PRIMARY KEY, device_token VARCHAR(255))")
        let asked = FaultyConnection(database.driver(), [])
        _ = try TokenTable(database.settings, asked, hurried()).missingSchema(upgrading: true)
        // The statement is executed, and its answer lost: a second try would meet its own column.
        let fault = FaultyConnection.Fault(
            operation: asked.operations + 1, isExecuted: true, kind: .lost)
        let connection = FaultyConnection(database.driver(), [fault])
        let store = try TokenTable(database.settings, connection, hurried())
        expectFailure(.busy, "`pushsweep schema apply --upgrade` again") {
            try store.applySchema(upgrading: true)
        }
        #expect(connection.operations == asked.operations + 1)
        try database.store().applySchema(upgrading: true)
        #expect(try database.store().missingSchema(upgrading: true).statements.isEmpty)
    }

    @Test("only the owner can read a new SQLite file and its side files")
    func fileMode() throws {
        let database = try TokenDatabase(.sqlite)
        guard case .sqlite(let path) = database.settings.location else { return }
        try database.execute("CREATE TABLE t (id INTEGER)")
        for file in [path, path + "-wal"] {
            let attributes = try FileManager.default.attributesOfItem(atPath: file)
            #expect(attributes[.posixPermissions] as? Int == 0o600, "\(file)")
        }
    }

    @Test(
        "errors that an account, a server's rule or a setting causes are told as such, with a cure",
        arguments: [
            (3_118, StoreFailure.Code.permission, "unlock the account"),
            (3_955, .permission, "correct store.password-file"),
            (1_820, .permission, "a new password"), (1_862, .permission, "a new password"),
            (3_159, .configuration, "remove store.tls.mode: off"),
            (2_061, .configuration, "remove store.tls.mode: off"),
            (1_524, .configuration, "a plugin that the server has"),
            (1_176, .configuration, "run again"), (3_098, .configuration, "a primary key"),
            (3_750, .configuration, "ask its administrator"),
            (1_461, .busy, "run again"), (3_572, .busy, "run again"), (3_100, .busy, "run again"),
            (3_169, .busy, "run again"), (4_082, .busy, "run again"),
        ])
    func errorNumbers(_ number: Int, _ code: StoreFailure.Code, _ cure: String) {
        let failure = StoreFailure(
            .mariaDB(code: UInt32(number), message: "no"), while: "reading")
        #expect(failure.code == code, "\(failure)")
        #expect(failure.sentence.contains(cure), "\(failure)")
    }
}
