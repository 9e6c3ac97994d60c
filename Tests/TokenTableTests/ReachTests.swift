import APNsProtocol
import Findings
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

@Suite("Effects of a change beyond its row")
struct ReachTests {
    private static let removal = RemovalPolicy(
        action: .delete, deletesWithoutRegistrationTime: true)

    private static func refusal(
        _ database: TokenDatabase, _ policy: RemovalPolicy = removal
    ) throws -> StoreFailure? {
        let store = try database.store()
        do throws(StoreFailure) {
            try store.require(.apply(policy))
            return nil
        } catch {
            return error
        }
    }

    @Test(
        "a foreign key that changes rows of another table stops removal and is named",
        arguments: TestEngine.available, ["CASCADE", "SET NULL"])
    func foreignKeys(_ engine: TestEngine, _ rule: String) throws {
        let database = try TokenDatabase.own(engine)
        try database.sql.run(
            "CREATE TABLE messages (device \(engine == .sqlite ? "INTEGER" : "BIGINT"), "
                + "FOREIGN KEY (device) REFERENCES active_users (id) ON DELETE \(rule))")
        let failure = try Self.refusal(database)
        #expect(failure?.code == .configuration)
        #expect(
            failure?.sentence.contains("messages (ON DELETE \(rule))") == true, "\(failure as Any)")
        #expect(try Self.refusal(database, RemovalPolicy()) == nil)
    }

    @Test(
        "a trigger on a table of this program is named as what no undo takes back",
        arguments: TestEngine.available)
    func ownTriggers(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        func warned() throws -> Bool {
            try database.store().examine(.apply(RemovalPolicy())).findings.contains {
                $0.failure == nil
                    && $0.sentence.contains("pushsweep_change has triggers (mirror)")
            }
        }
        #expect(try !warned())
        try database.execute(
            "CREATE TRIGGER mirror AFTER INSERT ON pushsweep_change FOR EACH ROW BEGIN "
                + "DELETE FROM active_users WHERE id = -1; END")
        #expect(try warned())
    }

    @Test(
        "a foreign key that refers to what is computed from the mark stops marks, too",
        arguments: TestEngine.available)
    func referencedComputation(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        let number = engine == .sqlite ? "INTEGER" : "BIGINT"
        try database.sql.run(
            "CREATE TABLE active_users (id \(number) PRIMARY KEY, device_token VARCHAR(64), "
                + "registered_at DATETIME, invalidated_at DATETIME NULL, invalid_reason VARCHAR(64), "
                + "living VARCHAR(64) AS (CASE WHEN invalidated_at IS NULL THEN device_token END) STORED UNIQUE)"
        )
        try database.sql.run(
            "CREATE TABLE subscriptions (device VARCHAR(64), FOREIGN KEY (device) "
                + "REFERENCES active_users (living) ON UPDATE SET NULL)")
        let failure = try Self.refusal(database, RemovalPolicy())
        #expect(failure?.sentence.contains("subscriptions (ON UPDATE SET NULL)") == true)
    }

    @Test(
        "a foreign key that refers to the mark and follows it stops marks and is named",
        arguments: TestEngine.available, ["CASCADE", "SET NULL"])
    func referencedMarks(_ engine: TestEngine, _ rule: String) throws {
        let database = try TokenDatabase.withSideTables(engine)
        let number = engine == .sqlite ? "INTEGER" : "BIGINT"
        try database.sql.run(
            "CREATE TABLE active_users (id \(number) PRIMARY KEY, device_token VARCHAR(64), "
                + "registered_at DATETIME, active \(number) NOT NULL, UNIQUE (id, active))")
        try database.sql.run(
            "CREATE TABLE messages (device \(number), a \(number), FOREIGN KEY (device, a) "
                + "REFERENCES active_users (id, active) ON UPDATE \(rule) ON DELETE RESTRICT)")
        func refusal(_ settings: StoreSettings) throws -> StoreFailure? {
            var settings = settings
            settings.mapping.living = LivingMapping(column: "active", living: "1", dead: "0")
            do throws(StoreFailure) {
                try TokenTable(settings).require(.apply(RemovalPolicy()))
                return nil
            } catch {
                return error
            }
        }
        let failure = try refusal(database.settings)
        #expect(failure?.code == .configuration)
        #expect(
            failure?.sentence.contains("messages (ON UPDATE \(rule))") == true, "\(failure as Any)")
        try database.execute("DROP TABLE messages")
        #expect(try refusal(database.settings) == nil)
        guard engine == .mariaDB else { return }
        // An account that may not see such a key is told so.
        let account = try ServerAccount(of: database)
        for table in ["active_users"] + PushsweepTable.sideTables.map(\.name) {
            try account.grant("SELECT, INSERT, UPDATE, DELETE, TRIGGER", on: table)
        }
        let blind = try refusal(account.settings)
        #expect(blind?.code == .permission)
        #expect(blind?.sentence.contains("GRANT REFERENCES ON *.* TO") == true, "\(blind as Any)")
        try account.run(["GRANT REFERENCES ON *.* TO '\(account.name)'@'%'"])
        #expect(try refusal(account.settings) == nil)
    }

    @Test(
        "a schema that is hidden from the account stops removal, unless it is one of the server",
        .enabled(if: MariaDBServer.isAvailable && !MariaDBServer.isMariaDB, "needs a MySQL"))
    func partialRevokes() throws {
        let server = try PrivateServer(["--partial-revokes=ON"], isMariaDB: false)
        let administrator = try server.server.connection()
        let database = try TokenDatabase(.mariaDB, on: server.server)
        try database.createOwnSchema()
        try administrator.run("CREATE DATABASE hid")
        try administrator.run(
            "CREATE TABLE hid.child (device BIGINT, FOREIGN KEY (device) REFERENCES "
                + "\(database.name).active_users (id) ON DELETE CASCADE)")
        try administrator.run("CREATE USER 'job'@'%' IDENTIFIED BY 'p'")
        for grant in try database.store().grants(for: Self.removal, user: "job@%") {
            try administrator.run(grant)
        }
        let settings = server.server.settings(database: database.name, user: "job", password: "p")
        func refusal() throws -> StoreFailure? {
            do throws(StoreFailure) {
                try TokenTable(settings).require(.apply(Self.removal))
                return nil
            } catch {
                return error
            }
        }
        #expect(try refusal()?.sentence.contains("child (ON DELETE CASCADE)") == true)
        try administrator.run("REVOKE REFERENCES ON hid.* FROM 'job'@'%'")
        let blind = try refusal()
        #expect(blind?.code == .permission)
        #expect(blind?.sentence.contains("GRANT REFERENCES ON `hid`.*") == true, "\(blind as Any)")
        try administrator.run("DROP DATABASE hid")
        try administrator.run("GRANT REFERENCES ON hid.* TO 'job'@'%'")
        try administrator.run("REVOKE REFERENCES ON mysql.* FROM 'job'@'%'")
        #expect(try refusal() == nil)
        withExtendedLifetime(server) {}
    }

    @Test(
        "a trigger that writes elsewhere stops removal and is named",
        arguments: TestEngine.available)
    func triggers(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        try database.sql.run("CREATE TABLE log (id INTEGER)")
        try database.execute(
            "CREATE TRIGGER `update` AFTER DELETE ON active_users FOR EACH ROW "
                + "INSERT INTO log VALUES (OLD.id)", on: .mariaDB)
        try database.execute(
            "CREATE TRIGGER \"update\" AFTER DELETE ON active_users BEGIN "
                + "INSERT INTO log VALUES (OLD.id); END", on: .sqlite)
        let failure = try Self.refusal(database)
        #expect(failure?.code == .configuration)
        #expect(failure?.sentence.contains("runs triggers: update") == true, "\(failure as Any)")
        #expect(try Self.refusal(database, RemovalPolicy()) == nil)
    }

    @Test(
        "tables without transactions are refused and unchanged, ours and others",
        .needsServer,
        arguments: ["MyISAM", "Aria", "MEMORY"],
        ["active_users", "pushsweep_batch", "pushsweep_lease"])
    func engines(_ storage: String, _ table: String) throws {
        // MEMORY holds no long columns.
        if storage == "MEMORY" && table != "active_users" { return }
        let database = try TokenDatabase(.mariaDB)
        let known = try database.sql.query(
            "SELECT 1 FROM information_schema.ENGINES WHERE ENGINE = ?", [.text(storage)])
        // MySQL has no Aria.
        guard known.count > 0 else { return }
        try database.createOwnSchema()
        try database.sql.run("ALTER TABLE \(table) ENGINE=\(storage)")
        for policy in [RemovalPolicy(), Self.removal] {
            let failure = try Self.refusal(database, policy)
            #expect(failure?.code == .configuration)
            #expect(
                failure?.sentence.contains("ENGINE=InnoDB") == true
                    && failure?.sentence.contains(table) == true, "\(failure as Any)")
        }
        // A read-only examination is allowed.
        try database.store().require(.read)
    }

    @Test(
        "a server that is set to read-only is named once, not for every right, and missing ones too",
        .needsServer)
    func readOnlyServer() throws {
        let server = try PrivateServer([])
        let administrator = try server.server.connection()
        let database = try TokenDatabase(.mariaDB, on: server.server)
        try database.createOwnSchema()
        try administrator.run("CREATE USER 'job'@'%' IDENTIFIED BY 'p'")
        try administrator.run("GRANT ALL ON \(database.name).* TO 'job'@'%'")
        let settings = server.server.settings(
            database: database.name, user: "job", password: "p")
        let store = try TokenTable(settings, pacing: hurried())
        try administrator.run("SET GLOBAL read_only = 1")
        let findings = try store.examine(.apply(RemovalPolicy())).findings
        #expect(
            findings.filter { $0.failure?.code == .readOnly }.count == 1, "\(findings)")
        try administrator.run("REVOKE UPDATE ON \(database.name).* FROM 'job'@'%'")
        let fewer = try TokenTable(settings.used(for: .reports), pacing: hurried())
            .examine(.apply(RemovalPolicy())).findings
        #expect(fewer.contains { $0.failure?.code == .permission }, "\(fewer)")
        withExtendedLifetime(server) {}
    }

    @Test("a binary log of statements is refused before the first change", .needsServer)
    func binaryLog() throws {
        let server = try PrivateServer(["--log-bin=log", "--binlog-format=STATEMENT"])
        let database = try TokenDatabase(.mariaDB, on: server.server)
        try database.createOwnSchema()
        let store = try database.store()
        expectFailure(.configuration, "set binlog_format to ROW") {
            try store.require(.apply(RemovalPolicy()))
        }
        try store.require(.read)
        try database.execute("SET GLOBAL binlog_format = 'ROW'")
        try database.store().require(.apply(RemovalPolicy()))
        withExtendedLifetime(server) {}
    }

    @Test(
        "an account that sees no other table is refused, with the grant that it needs",
        .needsServer)
    func blindAccounts() throws {
        let database = try TokenDatabase.own(.mariaDB)
        let account = try ServerAccount(of: database)
        for table in ["active_users"] + PushsweepTable.sideTables.map(\.name) {
            try account.grant("SELECT, INSERT, UPDATE, DELETE", on: table)
        }
        let narrow = account.settings
        func refusal() throws -> StoreFailure? {
            do throws(StoreFailure) {
                try TokenTable(narrow).require(.apply(Self.removal))
                return nil
            } catch {
                return error
            }
        }
        // In a schema of its own, on which the account has no right at all.
        let other = database.name + "_o"
        try database.sql.run("CREATE DATABASE \(other)")
        defer { try? database.sql.run("DROP DATABASE \(other)") }
        try database.sql.run(
            "CREATE TABLE \(other).messages (device BIGINT, FOREIGN KEY (device) REFERENCES "
                + "\(database.name).active_users (id) ON DELETE CASCADE)")
        // Rights that show no table: one on the schema, one on all schemas.
        try account.grant("EXECUTE")
        let session = try database.store().session
        try database.sql.run(session.replicationRight().grant(to: account.name))
        if try !session.describe().showsTriggers {
            try account.grant("TRIGGER", on: "active_users")
        }
        let blind = try refusal()
        #expect(blind?.code == .permission)
        #expect(
            blind?.sentence.contains("GRANT REFERENCES ON *.* TO") == true,
            "\(blind as Any)")
        try account.run(["GRANT REFERENCES ON *.* TO '\(account.name)'@'%'"])
        let seeing = try refusal()
        #expect(seeing?.code == .configuration)
        #expect(seeing?.sentence.contains("messages (ON DELETE CASCADE)") == true)
    }

    @Test(
        "the event of a trigger is found in its text",
        arguments: [
            ("CREATE TRIGGER a AFTER DELETE ON t BEGIN SELECT 1; END", "DELETE"),
            (
                "CREATE TRIGGER \"delete\" BEFORE UPDATE OF x ON t BEGIN DELETE FROM u; END",
                "UPDATE"
            ),
            ("create trigger if not exists [a delete] insert on t begin select 1; end", "INSERT"),
            ("CREATE TEMP TRIGGER `update` DELETE ON t BEGIN SELECT 1; END", "DELETE"),
            ("nothing", "DELETE"),
            (
                "CREATE TRIGGER a /* UPDATE: don't */ AFTER DELETE ON t BEGIN SELECT 1; END",
                "DELETE"
            ),
            ("CREATE TRIGGER a -- insert\nAFTER DELETE ON t BEGIN SELECT 1; END", "DELETE"),
        ])
    func events(_ sql: String, _ event: String) {
        #expect(Catalog.event(ofTrigger: sql) == event)
    }

    @Test("a trigger of several events counts for each of them")
    func severalEvents() {
        #expect(Catalog.events("UPDATE") == ["UPDATE"])
        #expect(Catalog.events("update, Delete") == ["UPDATE", "DELETE"])
    }
}
