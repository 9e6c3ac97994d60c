import APNsProtocol
import Database
import Encodings
import TestSupport
import Testing
import TokenHygiene

@testable import TokenTable

/// Texts with the same letters and different bytes, which Swift takes for equal.
private let alike = ["Zo\u{E9}", "Zoe\u{301}", "\u{212B}1", "\u{C5}1", "A\u{30A}1"]

@Suite("Rows whose texts have the same letters and different bytes")
struct IdentityTests {
    @Test("values and keys are equal only where their bytes are")
    func values() {
        #expect(Set(alike).count == 2, "Swift no longer takes them for equal")
        #expect(Set(alike.map(SQLValue.text)).count == alike.count)
        #expect(Set(alike.map { ExactText($0) }).count == alike.count)
        #expect(Set(alike.map { RowImage.key([.text($0)]) }).count == alike.count)
        #expect(ExactText("a") < "b" && !(ExactText("a") < "a") && ExactText("Z") < "\u{E9}")
        let content = RowContent(alike, alike.indices.map { .integer(Int64($0)) })
        for (index, name) in alike.enumerated() {
            #expect(content[name] == .integer(Int64(index)))
        }
        let image = RowImage.object(content.columns, content.values)
        #expect(RowImageReader.content(image) == content)
    }

    @Test("a text is cut at a whole scalar, by its bytes")
    func prefix() {
        #expect("abc".prefix(bytes: 3) == "abc" && "abc".prefix(bytes: 2) == "ab")
        #expect("a\u{E9}b".prefix(bytes: 2) == "a" && "a\u{E9}b".prefix(bytes: 3) == "a\u{E9}")
        #expect("\u{1F600}".prefix(bytes: 3).isEmpty && "e\u{301}".prefix(bytes: 2) == "e")
    }

    private static func database(_ engine: TestEngine) throws -> TokenDatabase {
        let database = try TokenDatabase.withSideTables(engine)
        let text =
            engine == .sqlite ? "TEXT" : "VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
        try database.execute(
            "CREATE TABLE devices (user \(text) NOT NULL PRIMARY KEY, device_token VARCHAR(64), "
                + "registered_at \(engine == .sqlite ? "DATETIME" : "DATETIME(3)") NULL, "
                + "invalidated_at \(engine == .sqlite ? "DATETIME" : "DATETIME(3)") NULL, note \(text), "
                + "number INT)")
        try database.execute("CREATE INDEX token ON devices (device_token)")
        for (number, key) in alike.enumerated() {
            try database.execute(
                "INSERT INTO devices VALUES (?, ?, ?, NULL, ?, ?)",
                [
                    .text(key), .text(DeviceToken.numbered(number).hex), database.time(start),
                    .text("note \(key)"), .integer(Int64(number)),
                ])
        }
        return database
    }

    private func contents(_ database: TokenDatabase) throws -> [[String]] {
        try database.printed(["user", "device_token", "invalidated_at", "note"], of: "devices")
    }

    @Test(
        "each is marked, removed and taken back for itself", arguments: TestEngine.available,
        RemovalPolicy.Action.allCases)
    func thereAndBack(_ engine: TestEngine, _ action: RemovalPolicy.Action) throws {
        let database = try Self.database(engine)
        let store = try database.store {
            $0.table = "devices"
            $0.key = ["user"]
        }
        let before = try contents(database)
        let evidence = alike.indices.map { TokenEvidence.dead($0, at: start + 60_000) }
        try store.sweep("all", evidence, policy: RemovalPolicy(action: action))
        #expect(
            try database.count("SELECT COUNT(*) FROM devices WHERE invalidated_at IS NULL") == 0)
        let undone = try store.undo(.run("all"))
        #expect(undone.restored == alike.count && undone.kept.isEmpty)
        #expect(try contents(database) == before)
        // One of each kind: the others stay living, and come back alone.
        try store.sweep(
            "some", [evidence[0], evidence[2]], at: start + 1_000_000,
            policy: RemovalPolicy(action: action))
        let living = try database.texts(
            "SELECT number FROM devices WHERE invalidated_at IS NULL ORDER BY number")
        #expect(living == [["1"], ["3"], ["4"]])
        #expect(try store.undo(.run("some"), at: start + 1_100_000).restored == 2)
        #expect(try contents(database) == before)
    }

    @Test("a row of an app with the same letters is another app's", arguments: TestEngine.available)
    func apps(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        let text =
            engine == .sqlite
            ? "TEXT" : "VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci"
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, app \(text), device_token VARCHAR(64), "
                + "registered_at \(engine == .sqlite ? "DATETIME" : "DATETIME(3)") NULL, "
                + "invalidated_at \(engine == .sqlite ? "DATETIME" : "DATETIME(3)") NULL)")
        for (number, app) in alike.enumerated() {
            try database.execute(
                "INSERT INTO devices VALUES (?, ?, ?, ?, NULL)",
                [
                    .integer(Int64(number)), .text(app), .text(DeviceToken.numbered(number).hex),
                    database.time(start),
                ])
        }
        let store = try database.store {
            $0.table = "devices"
            $0.app = .named("app")
        }
        try store.apply(
            alike.indices.map { .dead($0, at: start + 60_000) },
            app: alike[1])
        let marked = try database.texts("SELECT id FROM devices WHERE invalidated_at IS NOT NULL")
        #expect(marked == [["1"]])
    }

    @Test("columns with the same letters keep their own values", arguments: TestEngine.available)
    func columns(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        let names = ["\u{E9}", "e\u{301}"].map(database.sql.dialect.quoted)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(64), \(names[0]) INT, "
                + "\(names[1]) INT)")
        try database.execute(
            "INSERT INTO devices VALUES (1, '\(DeviceToken.numbered(0).hex)', 10, 20)")
        let store = try database.store { $0.table = "devices" }
        let before = try database.texts("SELECT * FROM devices")
        try store.sweep(
            "run", [.dead(0, at: start)],
            policy: RemovalPolicy(action: .delete, deletesWithoutRegistrationTime: true))
        #expect(try database.rows(of: "devices") == 0)
        try store.undo(.run("run"))
        #expect(try database.texts("SELECT * FROM devices") == before)
    }
}
