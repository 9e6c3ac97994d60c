import Foundation
import TestSupport
import Testing

@testable import Database
@testable import TokenTable

@Suite(
    "The session of a connection", .serialized,
    .needsServer)
struct SessionTests {
    @Test("characters arrive whole, whatever the server sets at the login")
    func characterSet() throws {
        let own = try PrivateServer(["--init-connect=SET NAMES latin1"])
        let admin = try own.server.connection()
        try admin.run("CREATE DATABASE push")
        // init_connect spares administrators.
        try admin.run("CREATE USER 'job'@'%' IDENTIFIED BY 'p'")
        try admin.run("GRANT ALL ON push.* TO 'job'@'%'")
        var settings = own.server.settings(database: "push", password: "p")
        settings.location = try StoreLocation(
            "mysql://job@\(own.server.host):\(own.server.port)/push", relativeTo: "/")
        let store = try TokenTable(settings, pacing: hurried())
        let text = "Anna \u{1F600} \u{0151}"
        try store.connection.run("CREATE TABLE t (v VARCHAR(20) CHARACTER SET utf8mb4)")
        _ = try store.connection.execute("INSERT INTO t VALUES (?)", [.text(text)])
        #expect(try store.connection.query("SELECT v FROM t").scalar?.text == text)
        #expect(
            try admin.query("SELECT HEX(v) FROM push.t").scalar?.text?.hasSuffix("C591") == true)
        withExtendedLifetime(own) {}
    }

    // MySQL has no limit for a silent transaction.
    @Test(
        "a transaction in which a dead host is silent frees its rows, and the run connects again",
        .enabled(if: MariaDBServer.isMariaDB, Comment(rawValue: MariaDBServer.absenceOnMySQL)))
    func silence() throws {
        let database = try TokenDatabase(.mariaDB)
        try database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER) ENGINE=InnoDB")
        try database.execute("INSERT INTO t VALUES (1, 0)")
        database.settings.timeouts = StoreTimeouts(read: 40, write: 1, lockWait: 30)
        let dead = try TokenTable(database.settings, pacing: hurried()).connection
        #expect(try dead.query("SELECT @@idle_transaction_timeout").scalar?.count == 71)
        let reader = try TokenTable(database.settings.used(for: .reports)).connection
        #expect(try reader.query("SELECT @@idle_transaction_timeout").scalar?.count == 0)
        try dead.run("SET SESSION idle_transaction_timeout = 1")
        try dead.begin()
        _ = try dead.execute("UPDATE t SET v = 1 WHERE id = 1", [])
        // Waits until the server gives the row free.
        let other = try TokenTable(database.settings, pacing: hurried()).connection
        #expect(try other.execute("UPDATE t SET v = 2 WHERE id = 1", []) == 1)
        let failure = #expect(throws: SQLFailure.self) { try dead.run("COMMIT") }
        #expect(failure?.kind == .lost)
        #expect(try database.count("SELECT v FROM t") == 2)
    }

    /// A connection through a router, to a table whose one row has the value 0.
    private struct Routed {
        let router: SQLRouter
        let database: TokenDatabase
        let account: OpenAccount
        let connection: any SQLConnection

        init() throws {
            let server = try #require(MariaDBServer.fromEnvironment)
            database = try TokenDatabase(.mariaDB)
            try database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER) ENGINE=InnoDB")
            try database.execute("INSERT INTO t VALUES (1, 0)")
            account = try OpenAccount(server)
            router = try SQLRouter(primary: server.port)
            let name = try #require(database.texts("SELECT DATABASE()").first?.first)
            let settings = StoreSettings(
                location: try StoreLocation(
                    "mysql://\(account.name)@127.0.0.1:\(router.port)/\(name)", relativeTo: "/"),
                tls: .off)
            connection = try TokenTable(settings, pacing: hurried()).connection
            try connection.begin()
            _ = try connection.execute("UPDATE t SET v = 1 WHERE id = 1", [])
        }

        func value() throws -> Int? { try connection.query("SELECT v FROM t").scalar?.count }
    }

    @Test("a transaction that cannot be rolled back ends with its connection, and no read is in it")
    func refusedRollback() throws {
        let stage = try Routed()
        stage.router.refuse("ROLLBACK", with: [1_047, 1_047])
        stage.connection.rollBack()
        let failure = #expect(throws: SQLFailure.self) { try stage.value() }
        #expect(failure?.kind == .lost)
        try stage.connection.connect()
        #expect(try stage.value() == 0)
        #expect(stage.router.connections == 2)
    }

    @Test("a rollback that meets the end of its transaction keeps the connection")
    func repeatedRollback() throws {
        let stage = try Routed()
        stage.router.refuse("ROLLBACK", with: [1_213])
        stage.connection.rollBack()
        #expect(try stage.value() == 0)
        #expect(stage.router.connections == 1)
    }

    @Test("a connection that the look at its server has closed is no connection")
    func closedWhileExamined() throws {
        let stage = try Routed()
        stage.router.refuse("ROLLBACK", with: [1_047, 1_047])
        let failure = #expect(throws: SQLFailure.self) { try stage.connection.connect() }
        #expect(failure?.kind == .lost)
        #expect(throws: Never.self) { try stage.connection.connect() }
        #expect(try stage.value() == 0)
    }

    @Test("a result whose columns the server describes only when it runs is read to its end")
    func lateColumns() throws {
        let database = try TokenDatabase(.mariaDB)
        let connection = database.driver()
        try connection.connect()
        try connection.run("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        let rows = try connection.query("ANALYZE TABLE t")
        #expect(rows.names.contains("Msg_text") && rows.count > 0, "\(rows)")
        _ = try connection.execute("ANALYZE TABLE t", [])
        let replicas = ["SHOW REPLICA STATUS", "SHOW SLAVE STATUS"].compactMap {
            try? connection.query($0)
        }
        #expect(!replicas.isEmpty)
        #expect(try connection.query("SELECT COUNT(*) FROM t").scalar?.count == 0)
        connection.rollBack()
        #expect(throws: Never.self) { try connection.query("SELECT 1") }
    }
}
