import APNsProtocol
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

@Suite("Indexes of changes", .needsServer)
struct IndexHintTests {
    /// A table that the server takes for an almost empty one.
    private static func stage(_ options: String, rows: Int = 3_000) throws -> TokenDatabase {
        let database = try TokenDatabase.withSideTables(.mariaDB)
        try database.sql.run(
            "CREATE TABLE devices (id BIGINT PRIMARY KEY, device_token VARCHAR(64) NOT NULL, "
                + "registered_at DATETIME(3) NOT NULL, invalidated_at DATETIME(3) NULL, "
                + "KEY token (device_token)) STATS_PERSISTENT=1 STATS_AUTO_RECALC=0 \(options)")
        try database.sql.run("ANALYZE TABLE devices")
        let values = (0..<rows).map {
            "(\($0), '\(DeviceToken.numbered($0).hex)', '2023-12-01', NULL)"
        }
        try database.sql.run("INSERT INTO devices VALUES \(values.joined(separator: ", "))")
        database.settings.mapping.table = "devices"
        return database
    }

    private static let evidence = (0..<1_500).map { TokenEvidence.dead($0, at: start) }

    @Test(
        "changes and locking reads search by an index, whatever the statistics say",
        arguments: RemovalPolicy.Action.allCases,
        // MySQL certifies no commits.
        ["", "PARTITION BY HASH(id) PARTITIONS 4"].flatMap {
            MariaDBServer.isMariaDB ? [($0, false), ($0, true)] : [($0, false)]
        })
    func plans(
        _ action: RemovalPolicy.Action, _ table: (options: String, certifiesCommits: Bool)
    ) throws {
        let database = try Self.stage(table.options)
        let connection = FaultyConnection(database.driver(), [])
        connection.certifiesCommits = table.certifiesCommits
        let store = try TokenTable(database.settings, connection, hurried())
        let progress = try store.apply(Self.evidence, policy: RemovalPolicy(action: action))
        #expect(progress.counts == Counts(applied: 1_500))
        try connection.run("SET SESSION sql_safe_updates = 0")
        var explained = 0
        for (sql, values) in connection.log where sql.contains("`devices`") {
            guard sql.hasPrefix("UPDATE") || sql.hasPrefix("DELETE") || sql.contains("FOR UPDATE")
            else { continue }
            // MySQL describes plans as a tree, unless asked for the table.
            let explain = MariaDBServer.isMariaDB ? "EXPLAIN" : "EXPLAIN FORMAT=TRADITIONAL"
            let plan = try connection.query("\(explain) \(sql)", values)
            let names = plan.names
            func field(_ name: String) -> String? {
                names.firstIndex(of: name).flatMap { plan[0, $0].text }
            }
            explained += 1
            #expect(field("type") != "ALL" && field("type") != "index", "\(sql.prefix(80))")
            // The trial's row is gone by now, so that its plan reads nothing.
            if !sql.hasPrefix("SELECT"), field("type") != nil { #expect(field("key") == "PRIMARY") }
        }
        // Where commits are certified, marks are made without a locking read, but in a table with partitions.
        let isLate = table.certifiesCommits && action == .mark && table.options.isEmpty
        #expect(explained >= (isLate ? 4 : 8))
        #expect(
            connection.log.contains { $0.0.contains("FOR UPDATE") && $0.0.contains("`devices`") }
                != isLate)
    }

    @Test("a removal after the grace period and an undo find rows by the index of their key")
    func byKey() throws {
        let database = try Self.stage("", rows: 400)
        let connection = FaultyConnection(database.driver(), [])
        let store = try TokenTable(database.settings, connection, hurried())
        try store.sweep("marks", (0..<200).map { .dead($0, at: start) })
        #expect(try store.undo(.run("marks")).restored == 200)
        let reads = connection.log.map(\.0).filter {
            $0.hasPrefix("SELECT") && $0.contains("FROM `devices`") && $0.contains("`id` IN (")
        }
        #expect(!reads.isEmpty)
        #expect(reads.allSatisfy { $0.contains("FORCE INDEX (`PRIMARY`)") })
    }

    @Test(
        "rows of a partitioned table are changed by lists, and none of them by itself",
        arguments: RemovalPolicy.Action.allCases)
    func partitioned(_ action: RemovalPolicy.Action) throws {
        let database = try Self.stage("PARTITION BY HASH(id) PARTITIONS 4")
        let connection = FaultyConnection(database.driver(), [])
        let store = try TokenTable(database.settings, connection, hurried())
        let progress = try store.apply(Self.evidence, policy: RemovalPolicy(action: action))
        #expect(progress.counts == Counts(applied: 1_500))
        let changes = connection.log.map(\.0).filter {
            ($0.hasPrefix("UPDATE") || $0.hasPrefix("DELETE")) && $0.contains("`devices`")
        }
        #expect((1...20).contains(changes.count), "\(changes.count) statements")
        #expect(!connection.log.contains { $0.0.hasPrefix("SAVEPOINT") })
    }

    @Test("an index that the server hides from statements is named by none, and is no index")
    func hidden() throws {
        let database = try Self.stage("", rows: 300)
        let hidden = MariaDBServer.isMariaDB ? "IGNORED" : "INVISIBLE"
        try database.sql.run("ALTER TABLE devices ALTER INDEX token \(hidden)")
        let store = try TokenTable(database.settings, database.driver(), hurried())
        #expect(try store.layout().tokenIndex == nil)
        let progress = try store.apply((0..<200).map { TokenEvidence.dead($0, at: start) })
        #expect(progress.counts == Counts(applied: 200))
        try database.sql.run("CREATE INDEX other ON devices (device_token)")
        let again = try TokenTable(database.settings, database.driver(), hurried())
        #expect(try again.layout().tokenIndex == "other")
    }
}
