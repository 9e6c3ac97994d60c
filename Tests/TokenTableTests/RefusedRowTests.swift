import APNsProtocol
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

@Suite("Rows that refuse a change")
struct RefusedRowTests {
    private static let token = (0..<40).map { DeviceToken.numbered($0).hex }
    private static let evidence = (0..<40).map { TokenEvidence.dead($0, at: start + 60_000) }
    private static let removal = RemovalPolicy(
        action: .delete, deletesWithoutRegistrationTime: true)

    /// A table of forty rows, those with a number below `held` being held.
    private static func database(_ engine: TestEngine, held: Int) throws -> TokenDatabase {
        let database = try TokenDatabase.withSideTables(engine)
        try database.sql.run(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(64), "
                + "invalidated_at BIGINT, held INTEGER)")
        for number in 0..<40 {
            try database.sql.run(
                "INSERT INTO devices VALUES (\(number), '\(token[number])', NULL, \(number < held ? 1 : 0))"
            )
        }
        return database
    }

    private static func store(_ database: TokenDatabase) throws -> TokenTable {
        try database.store(pacing: hurried()) {
            $0.table = "devices"
            $0.invalidatedAt.column = .named("invalidated_at")
            $0.invalidatedAt.type = .epochMilliseconds
        }
    }

    private static func refused(_ database: TokenDatabase) throws -> Set<String> {
        Set(
            try database.texts("SELECT row_key FROM pushsweep_change WHERE action = 'refused'")
                .flatMap { $0 })
    }

    @Test("a column of vectors refuses removals before one is made, and no marks")
    func vectors() throws {
        let database = try TokenDatabase.own(.sqlite)
        let store = try database.store()
        let table = try store.catalogTable()
        let vector = CatalogColumn(
            name: "taste", type: "vector", length: nil, collation: nil, fraction: 0,
            isNullable: true, isPrimary: false, isGenerated: false, movesItself: false)
        let layout = try store.layout()
        func refusals(_ action: RemovalPolicy.Action) -> [String] {
            LayoutExamination(
                layout: layout,
                table: CatalogTable(
                    name: table.name, canonicalName: table.canonicalName,
                    columns: table.columns + [vector], indexes: table.indexes),
                mapping: database.settings.mapping,
                need: .apply(RemovalPolicy(action: action))
            ).findings.filter { $0.failure?.code == .configuration }.map(\.sentence)
        }
        #expect(refusals(.mark) == [])
        #expect(refusals(.delete).count == 1 && refusals(.delete)[0].contains("taste"))
    }

    @Test("chunk after chunk row by row is told once, with the number of the server's error")
    func lasting() throws {
        let isolation = RowIsolation(try TokenDatabase(.sqlite).sql)
        let failure = SQLFailure(kind: .refused, code: 1_292, message: "'0123abcd' is no time")
        var notices: [String?] = []
        for _ in 0..<8 {
            isolation.note(failure, isAboutRow: true)
            notices.append(isolation.committed())
            // Chunks that are taken as a whole say nothing.
            notices.append(isolation.committed())
        }
        let told = notices.compactMap { $0 }
        #expect(told.count == 1 && notices[8] != nil, "\(notices)")
        #expect(told.first?.contains("its error 1292") == true && !told[0].contains("0123abcd"))
    }

    /// What keeps a held row from being marked: statements of a server's trigger; in SQLite an index fails.
    enum Hold: String, CaseIterable {
        case aborts = "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'held', MYSQL_ERRNO = 31001"
        case failsItself = "INSERT INTO nosuch VALUES (1)"
        case namesDeadlock = "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'held', MYSQL_ERRNO = 1213"
        case namesPassingDeadlock =
            "SIGNAL SQLSTATE '40001' SET MESSAGE_TEXT = 'held', MYSQL_ERRNO = 1213"

        func make(in database: TokenDatabase) throws {
            guard database.engine == .mariaDB, self != .aborts else {
                return try database.hold("held", "1", table: "devices")
            }
            try database.execute(
                "CREATE TRIGGER hold AFTER UPDATE ON devices FOR EACH ROW IF OLD.held = 1 THEN "
                    + "\(rawValue); END IF")
        }
    }

    @Test(
        "refused rows are named in the ledger, whatever refuses them, and the others are marked",
        arguments: TestEngine.available, Hold.allCases)
    func triggers(_ engine: TestEngine, _ hold: Hold) throws {
        guard engine == .mariaDB || hold == .aborts else { return }
        let database = try Self.database(engine, held: 3)
        try hold.make(in: database)
        let store = try Self.store(database)
        let progress = try store.apply(Self.evidence)
        #expect(progress.isApplied && progress.counts == Counts(applied: 37, refused: 3))
        #expect(
            try database.texts("SELECT id FROM devices WHERE invalidated_at IS NULL ORDER BY id")
                == [["0"], ["1"], ["2"]])
        #expect(try Self.refused(database) == ["0", "1", "2"])
        #expect(try database.rows(of: "pushsweep_change", "action = 'mark'") == 37)
        // A chunk of one row is refused too.
        let alone = try store.apply([.dead(0, at: start + 90_000)])
        #expect(alone.isApplied && alone.counts == Counts(refused: 1))
    }

    @Test(
        "rows that other rows refer to are left; the others are removed and come back",
        arguments: TestEngine.available, ["", "DEFERRABLE INITIALLY DEFERRED"])
    func foreignKeys(_ engine: TestEngine, _ moment: String) throws {
        let database = try Self.database(engine, held: 3)
        let rule = engine == .sqlite ? moment : ""
        try database.sql.run(
            "CREATE TABLE messages (device INTEGER, FOREIGN KEY (device) REFERENCES devices (id) \(rule))"
        )
        try database.sql.run("INSERT INTO messages SELECT id FROM devices WHERE held = 1")
        let before = try database.texts("SELECT * FROM devices ORDER BY id")
        let store = try Self.store(database)
        let progress = try store.apply(Self.evidence, policy: Self.removal, run: "run")
        #expect(progress.isApplied && progress.counts.applied == 37)
        #expect(try database.rows(of: "devices") == 3)
        #expect(try Self.refused(database) == ["0", "1", "2"])
        try store.record("run")
        let undone = try store.undo(.run("run"))
        #expect(undone.inserted == 37 && undone.kept.isEmpty)
        #expect(try database.texts("SELECT * FROM devices ORDER BY id") == before)
    }

    @Test("rows that a trigger silently keeps from removal are refused; the others are removed")
    func passedOver() throws {
        let database = try Self.database(.sqlite, held: 3)
        try database.sql.run(
            "CREATE TRIGGER hold BEFORE DELETE ON devices WHEN OLD.held = 1 BEGIN "
                + "SELECT RAISE(IGNORE); END")
        let progress = try Self.store(database).apply(Self.evidence, policy: Self.removal)
        #expect(progress.isApplied && progress.counts == Counts(applied: 37, refused: 3))
        #expect(try database.count("SELECT COUNT(*) FROM devices") == 3)
        #expect(try Self.refused(database) == ["0", "1", "2"])
    }

    @Test(
        "a refused row does not keep another row from coming back", arguments: TestEngine.available)
    func undo(_ engine: TestEngine) throws {
        let database = try Self.database(engine, held: 0)
        let store = try Self.store(database)
        try store.sweep("run", Self.evidence, policy: Self.removal)
        // A value of the image no longer fits its column, with each error of the servers.
        try database.execute("ALTER TABLE devices MODIFY held TINYINT NOT NULL", on: .mariaDB)
        try database.execute(
            "ALTER TABLE devices ADD COLUMN odd INTEGER CHECK (id <> 5)", on: .sqlite)
        try database.execute(
            "UPDATE pushsweep_change SET before_image = REPLACE(before_image, '\"held\":0', "
                + "'\"held\":\(engine == .sqlite ? "0" : "4000")') WHERE row_key = '5'")
        let undone = try store.undo(.run("run"))
        #expect(undone.isDone && undone.kept == ["refused": 1] && undone.inserted == 39)
        #expect(try database.rows(of: "devices", "id = 5") == 0)
    }

    @Test(
        "check reports refused rows for as long as they are unchanged",
        arguments: TestEngine.available)
    func check(_ engine: TestEngine) throws {
        let database = try Self.database(engine, held: 2)
        try Hold.aborts.make(in: database)
        let store = try Self.store(database)
        try store.apply(Self.evidence)
        func told() throws -> [String] {
            try store.examine(.apply(RemovalPolicy())).findings.map(\.sentence).filter {
                $0.contains("refused a change lately")
            }
        }
        let first = try told().first ?? ""
        #expect(first.contains("2 rows refused a change lately"), "\(first)")
        #expect(first.contains("row 0: ") && first.contains("trigger"), "\(first)")
        try database.release()
        try store.apply(Self.evidence)
        #expect(try told().isEmpty)
    }

    @Test(
        "rows with an unreadable registration are counted, and the others are marked",
        .needsServer)
    func registrations() throws {
        let database = try TokenDatabase.own(.mariaDB)
        try database.sql.run("SET SESSION sql_mode = 'ALLOW_INVALID_DATES'")
        try database.register(0..<20, at: start)
        try database.sql.run(
            "UPDATE active_users SET registered_at = '2024-05-00 00:00:00' WHERE id > 0 AND "
                + "device_token = x'\(Self.token[7])'")
        let store = try database.store(pacing: hurried())
        let progress = try store.apply((0..<20).map { .dead($0, at: start + 60_000) })
        #expect(progress.isApplied && progress.counts.applied == 19 && progress.counts.total == 20)
        #expect(try database.unmarked() == 1)
        #expect(try Self.refused(database).count == 1)
    }

    @Test(
        "an undo leaves out rows whose trigger claims a deadlock, and the others come back",
        .needsServer)
    func disguisedInserts() throws {
        let database = try Self.database(.mariaDB, held: 1)
        let store = try Self.store(database)
        try store.sweep("run", Self.evidence, policy: Self.removal)
        #expect(try database.rows(of: "devices") == 0)
        try database.sql.run(
            "CREATE TRIGGER hold BEFORE INSERT ON devices FOR EACH ROW IF NEW.held = 1 THEN "
                + "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213; END IF")
        let undone = try store.undo(.run("run"))
        #expect(undone.isDone && undone.kept == ["refused": 1] && undone.inserted == 39)
    }

    @Test(
        "a refusal never affects another row: each change repeats the token that was judged",
        arguments: TestEngine.available, RemovalPolicy.Action.allCases)
    func repeatedTokens(_ engine: TestEngine, _ action: RemovalPolicy.Action) throws {
        let database = try Self.database(engine, held: 0)
        var settings = database.settings
        settings.mapping.table = "devices"
        settings.mapping.invalidatedAt.type = .epochMilliseconds
        let connection = FaultyConnection(database.driver(), [])
        let store = try TokenTable(settings, connection, hurried())
        try store.sweep(
            "run", Self.evidence,
            policy: RemovalPolicy(action: action, deletesWithoutRegistrationTime: true))
        try store.undo(.run("run"), as: "undo")
        try store.undo(.run("undo"), at: start + 1_000_000)
        let changes = connection.log.filter { sql, _ in
            (sql.hasPrefix("UPDATE") || sql.hasPrefix("DELETE")) && sql.contains("devices")
        }
        #expect(!changes.isEmpty)
        for (sql, values) in changes {
            let condition = sql.split(separator: " WHERE ", maxSplits: 1).last ?? ""
            #expect(condition.contains("device_token"), "\(sql)")
            #expect(values.contains { value in Self.token.contains { value == .text($0) } })
        }
    }

    @Test(
        "rows too large for a statement with their image are refused; the others are removed",
        .needsServer)
    func largeRows() throws {
        let server = try PrivateServer(["--max-allowed-packet=1M"])
        let database = try TokenDatabase(.mariaDB, on: server.server)
        try database.createSideTables()
        try database.sql.run(
            "CREATE TABLE devices (id INT PRIMARY KEY, device_token VARCHAR(64), photo MEDIUMBLOB)")
        for number in 0..<5 {
            try database.sql.run(
                "INSERT INTO devices VALUES (\(number), '\(Self.token[number])', "
                    + "REPEAT(x'ff', \(number == 2 ? 700_000 : 100)))")
        }
        let store = try database.store { $0.table = "devices" }
        try store.sweep("run", Array(Self.evidence.prefix(5)), policy: Self.removal)
        let left = try database.sql.query("SELECT id, LENGTH(photo) FROM devices")
        #expect(left.count == 1 && left[0, 0] == .integer(2) && left[0, 1].count == 700_000)
        #expect(try store.undo(.run("run")).inserted == 4)
        withExtendedLifetime(server) {}
    }
}

/// A row that the table would not take again is not removed.
@Suite("Rows that break a rule already")
struct BrokenRuleTests {
    private static let evidence = (0..<3).map { TokenEvidence.dead($0, at: start + 60_000) }
    private static let removal = RemovalPolicy(
        action: .delete, deletesWithoutRegistrationTime: true)

    private static func fill(_ database: TokenDatabase) throws {
        for number in 0..<3 {
            try database.execute(
                "INSERT INTO devices (id, device_token, owner, place) VALUES (?, ?, ?, ?)",
                [
                    .integer(Int64(number)), .bytes(DeviceToken.numbered(number).bytes),
                    number == 2 ? .null : .integer(Int64(number)), .text("it's"),
                ])
        }
    }

    private static func expectOneRefused(_ database: TokenDatabase) throws {
        let store = try database.store(pacing: hurried()) { $0.table = "devices" }
        try store.require(.apply(removal))
        let before = try database.contents(of: "devices")
        try store.record("one")
        let progress = try store.apply(evidence, policy: removal, run: "one")
        #expect(progress.counts == Counts(applied: 2, refused: 1))
        #expect(try database.texts("SELECT id FROM devices") == [["1"]])
        #expect(try store.undo(.run("one")).restored == 2)
        #expect(try database.contents(of: "devices") == before)
    }

    @Test("in SQLite: a row whose parent is gone", arguments: ["", "(a, b)", "(b, a)"])
    func orphan(_ columns: String) throws {
        let database = try TokenDatabase.withSideTables(.sqlite)
        try database.execute("PRAGMA foreign_keys = OFF")
        try database.execute(
            "CREATE TABLE users (a INTEGER, b TEXT, PRIMARY KEY (\(columns == "(b, a)" ? "b, a" : "a, b")))"
        )
        let own = columns == "(b, a)" ? "place, owner" : "owner, place"
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token BLOB, owner INTEGER, "
                + "place TEXT, FOREIGN KEY (\(own)) REFERENCES users \(columns))")
        try database.execute("INSERT INTO users VALUES (0, 'it''s'), (7, 'it''s')")
        try Self.fill(database)
        try Self.expectOneRefused(database)
    }

    @Test("in SQLite: rows of a table that refers to one that is missing")
    func missingParent() throws {
        let database = try TokenDatabase.withSideTables(.sqlite)
        try database.execute("PRAGMA foreign_keys = OFF")
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token BLOB, "
                + "owner INTEGER REFERENCES users(id))")
        try database.execute(
            "INSERT INTO devices VALUES (1, ?, 7)", [.bytes(DeviceToken.numbered(1).bytes)])
        let store = try database.store { $0.table = "devices" }
        let progress = try store.apply(
            [.dead(1, at: start)], policy: Self.removal)
        #expect(progress.counts == Counts(refused: 1))
        #expect(try database.rows(of: "devices") == 1)
    }

    @Test("the checks of a table are read from the statement that makes it")
    func clauses() {
        let statement = #"""
            CREATE TABLE `c ( CHECK (` (
              `j` longtext DEFAULT NULL COMMENT ' CHECK (1)' CHECK (json_valid(`j`)),
              `v` int(11) DEFAULT NULL CHECK (`v` > 0 and `a)` <> ')'),
              CONSTRAINT `big` CHECK (`s` <> 'a\')(' or (`v` < 5))
            """#
        #expect(
            Catalog.checks(in: statement) == [
                "(json_valid(`j`))", "(`v` > 0 and `a)` <> ')')", #"(`s` <> 'a\')(' or (`v` < 5))"#,
            ])
    }

    @Test("in MariaDB: a row that breaks a check", .needsServer)
    func check() throws {
        let database = try TokenDatabase(.mariaDB)
        let version = try database.texts("SELECT VERSION()")[0][0]
        guard version.contains("MariaDB") else { return }
        try database.createSideTables()
        try database.execute(
            "CREATE TABLE devices (id INT PRIMARY KEY, device_token VARBINARY(100), "
                + "owner INT CHECK (owner <> 1), place VARCHAR(20), extra JSON, "
                + "CHECK (place <> 'a''b' OR owner = 7))")
        try database.execute("SET SESSION check_constraint_checks = 0")
        try Self.fill(database)
        try Self.expectOneRefused(database)
    }

    @Test("no sentence about a refused row has its token, in whatever form the key holds it")
    func keysInWords() throws {
        let token = DeviceToken.numbered(1)
        for value in [
            SQLValue.bytes([1] + token.bytes), .text(Data(token.bytes).base64EncodedString()),
            .text(token.hex), .bytes(token.bytes), .text("x" + token.hex.uppercased()),
        ] {
            let key = LedgerKey(RowImage.key([.integer(7), value]), of: token)
            let words = LedgerEntry.refusal(of: key, because: nil)
            #expect(words.count < 90 && words.contains("7"), "\(words)")
            #expect(!words.lowercased().contains(token.hex), "\(words)")
        }
    }
}
