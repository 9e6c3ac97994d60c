import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

@Suite("Shards and what crashes leave there", .serialized)
struct ShardTests {
    @Test(
        "the servers of the shards are read from the comments of a Spider table",
        arguments: [
            ("srv \"shard1\"", ["shard1"]),
            ("wrapper \"mysql\", server 'a b', table \"srv\"", ["a", "b"]),
            ("host \"10.0.0.1\", password \"srv\"", []), ("", []), ("srv", []),
        ])
    func names(_ comment: String, _ names: [String]) {
        #expect(ShardNames.named(in: comment) == names)
    }

    @Test("prepared transactions are counted and one is named with its id")
    func sentence() {
        var rows = SQLRows(width: 1)
        #expect(PreparedTransactions(server: "shard s1", listed: rows, column: 0).finding == nil)
        rows.append(.text("'a','b',1"))
        rows.append(.text("'c','d',1"))
        let finding = PreparedTransactions(server: "shard s1", listed: rows, column: 0).finding
        #expect(
            finding?.sentence.hasPrefix(
                "shard s1 has 2 prepared transactions, the first is 'a','b',1:") == true)
    }

    private static func findings(_ store: TokenTable) throws -> [StoreFinding] {
        try store.examine(.apply(RemovalPolicy())).findings.filter {
            $0.sentence.contains("prepared") || $0.sentence.contains("spider_internal_xa")
        }
    }

    private static func spread() throws -> TokenDatabase {
        let database = try TokenDatabase(.mariaDB)
        try database.createOwnSchema()
        return database
    }

    /// Leaves a prepared transaction on a connection while a body runs.
    private static func prepared(
        on connection: any SQLConnection, changing statement: String,
        _ body: (String) throws -> Void
    ) throws {
        let id = "'\(UUID().uuidString.lowercased())','',1"
        try connection.run("XA BEGIN \(id)")
        try connection.run(statement)
        try connection.run("XA END \(id)")
        try connection.run("XA PREPARE \(id)")
        defer { try? connection.run("XA ROLLBACK \(id)") }
        try body(id)
    }

    @Test(
        "without Spider nothing is asked", .enabled(if: MariaDBServer.isAvailable),
        .disabled(if: SpreadTable.isUsed))
    func plain() throws {
        #expect(try Self.findings(Self.spread().store()).isEmpty)
    }

    @Test(
        "check finds a transaction that is prepared on a shard or on the Spider node",
        .enabled(if: SpreadTable.isUsed))
    func found() throws {
        let database = try Self.spread()
        try database.execute("CREATE TABLE local (id INT PRIMARY KEY) ENGINE=InnoDB")
        let store = try database.store()
        let none = try Self.findings(store)
        #expect(none.map(\.severity) == [.ok])
        #expect(none[0].sentence.hasSuffix("on the shards shard1, shard2, shard3"))
        let shard = try #require(SpreadTable.shard(2)).connection(database: database.name)
        let row =
            "INSERT INTO active_users (user_id, app_id, device_token, registered_at) "
            + "VALUES ('u', 'chat', X'01', '2024-01-01')"
        try Self.prepared(on: shard, changing: row) { id in
            let findings = try Self.findings(store)
            #expect(findings.map(\.severity) == [.warning])
            #expect(
                findings[0].sentence.hasPrefix(
                    "shard shard2 has a prepared transaction, the first is \(id.dropLast(5))"))
        }
        try Self.prepared(
            on: database.sql, changing: "INSERT INTO local VALUES (1)"
        ) { id in
            let findings = try Self.findings(store)
            #expect(findings.map(\.severity) == [.warning, .ok])
            #expect(findings[0].sentence.hasPrefix("the Spider node has a prepared transaction"))
        }
        #expect(try Self.findings(store).map(\.severity) == [.ok])
    }

    @Test(
        "a read without locks names no index, so that each shard gets one statement; one that locks does",
        .enabled(if: SpreadTable.isUsed))
    func hints() throws {
        let database = try Self.spread()
        try database.register(0..<20, at: start)
        let connection = FaultyConnection(database.driver(), [])
        let store = try TokenTable(database.settings, connection, hurried())
        let evidence = (0..<20).map { TokenEvidence.dead($0, at: start + 60_000) }
        func reads() -> [String] {
            connection.log.map(\.0).filter {
                $0.contains("FROM `active_users`") && $0.contains("`device_token` IN (?")
            }
        }
        _ = try store.classify(evidence)
        #expect(!reads().isEmpty && reads().allSatisfy { $0.contains(" USE INDEX () ") })
        let before = reads().count
        try store.apply(evidence)
        let locking = reads().dropFirst(before).filter { $0.hasSuffix("FOR UPDATE") }
        #expect(!locking.isEmpty && locking.allSatisfy { $0.contains(" FORCE INDEX (") })
    }

    @Test(
        "check fails where a shard is away, also if no row was read there",
        .enabled(if: SpreadTable.isUsed))
    func away() throws {
        let database = try Self.spread()
        let admin = try #require(MariaDBServer.fromEnvironment).connection()
        let gone = "gone" + UUID().uuidString.lowercased().filter { $0 != "-" }.prefix(8)
        try admin.run(
            "CREATE SERVER \(gone) FOREIGN DATA WRAPPER mysql OPTIONS (HOST '127.0.0.1', PORT 1)")
        defer { try? admin.run("DROP SERVER \(gone)") }
        let definition = try #require(
            database.sql.query("SHOW CREATE TABLE active_users")[0, 1].text)
        func examine(replacing word: String, with other: String) throws -> [StoreFinding] {
            try database.execute("DROP TABLE active_users")
            try database.execute(definition.replacing(word, with: other))
            return try TokenTable(database.settings, pacing: hurried())
                .examine(.apply(RemovalPolicy())).findings
        }
        // A table of one shard each names its server itself; that of the table is not used then.
        let unused = try examine(
            replacing: "COMMENT='wrapper \"mysql\",",
            with: "COMMENT='wrapper \"mysql\", srv \"\(gone)\",")
        #expect(!unused.contains { $0.sentence.contains(gone) }, "\(unused)")
        // Reading fails too where it meets the shard; a sample may not.
        do {
            let findings = try examine(replacing: "srv \"shard3\"", with: "srv \"\(gone)\"")
            let finding = try #require(
                findings.first { $0.sentence.contains("asking shard \(gone)") }, "\(findings)")
            #expect(finding.severity == .failure(.busy), "\(finding)")
        } catch let failure as StoreFailure {
            #expect([.busy, .unreachable].contains(failure.code), "\(failure)")
        }
    }

    @Test(
        "spider_internal_xa is a finding, and an account that may not ask shards is told how",
        .enabled(if: SpreadTable.isUsed))
    func settings() throws {
        let database = try Self.spread()
        let admin = try #require(MariaDBServer.fromEnvironment).connection()
        let name = "u" + UUID().uuidString.lowercased().filter { $0 != "-" }.prefix(12)
        try admin.run("CREATE USER '\(name)'@'%' IDENTIFIED BY 'p'")
        defer { try? admin.run("DROP USER '\(name)'@'%'") }
        try admin.run("GRANT SELECT, INSERT, UPDATE, DELETE ON \(database.name).* TO '\(name)'@'%'")
        var settings = try #require(MariaDBServer.fromEnvironment).settings(
            database: database.name, user: String(name), password: "p")
        settings.mapping = database.settings.mapping
        let store = try TokenTable(settings)
        let hidden = try Self.findings(store)
        #expect(hidden.map(\.severity) == [.ok])
        #expect(
            hidden[0].sentence.contains("GRANT CREATE TEMPORARY TABLES ON `\(database.name)`.* TO"))
        #expect(
            try store.shardGrants().map { $0.hasPrefix("GRANT CREATE TEMPORARY TABLES ON ") } == [
                true
            ])
        #expect(hidden[0].sentence.hasSuffix("run XA RECOVER on each shard"))
        try admin.run("SET GLOBAL spider_internal_xa = ON")
        defer { try? admin.run("SET GLOBAL spider_internal_xa = OFF") }
        let on = try Self.findings(store)
        #expect(on.map(\.severity) == [.warning, .warning])
        #expect(on[0].sentence.contains("SET GLOBAL spider_internal_xa=OFF"))
    }
}
