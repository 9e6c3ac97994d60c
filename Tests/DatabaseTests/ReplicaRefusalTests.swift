import Findings
import TestSupport
import Testing

@testable import Database
@testable import TokenTable

@Suite(
    "A replica as the token database", .serialized,
    .needsServer)
struct ReplicaRefusalTests {
    private static func failure(_ settings: StoreSettings) -> StoreFailure? {
        #expect(throws: StoreFailure.self) { try TokenTable(settings, pacing: hurried()) }
    }

    private static func findings(_ settings: StoreSettings) throws -> [Finding] {
        try TokenTable(settings.used(for: .reports)).session.examineServer()
    }

    @Test("is refused for changes, running or stopped, may be read, and can be accepted")
    func refusal() throws {
        let pair = try ReplicaLagTests.Pair()
        var settings = pair.replica.server.settings(database: "push")
        let primary = "127.0.0.1:\(pair.primary.server.port)"
        var failure = Self.failure(settings)
        #expect(failure?.code == .configuration)
        #expect(
            failure?.sentence.contains(" (server 2) is a replica of \(primary), and a change")
                == true,
            "\(failure as Any)")
        #expect(try TokenTable(settings.used(for: .reports)).connection.role()?.obstacle != nil)
        #expect(throws: Never.self) { try TokenTable(settings.used(for: .decisions)) }
        #expect(try Self.findings(settings).first?.failure?.code == .configuration)
        try pair.replicaSQL.run("STOP SLAVE")
        failure = Self.failure(settings)
        #expect(failure?.sentence.contains("although it is stopped") == true, "\(failure as Any)")
        #expect(failure?.sentence.contains("RESET REPLICA ALL") == true, "\(failure as Any)")
        settings.acceptsReplica = true
        #expect(throws: Never.self) { try TokenTable(settings) }
        #expect(try Self.findings(settings).first?.severity == .medium)
        settings.acceptsReplica = false
        try pair.replicaSQL.run("RESET SLAVE ALL")
        #expect(throws: Never.self) { try TokenTable(settings) }
    }

    @Test("is passed over in a list of hosts, and alone with a dead host it is waited for")
    func list() throws {
        let pair = try ReplicaLagTests.Pair()
        let account = try OpenAccount(pair.primary.server)
        try OpenAccount.make(account.name, pair.replica.server)
        let (primary, replica) = (pair.primary.server.port, pair.replica.server.port)
        func settings(_ ports: Int...) throws -> StoreSettings {
            let list = ports.map { "127.0.0.1:\($0)" }.joined(separator: ",")
            return StoreSettings(
                location: try StoreLocation(
                    "mysql://\(account.name)@\(list)/push", relativeTo: "/"), tls: .off)
        }
        let store = try TokenTable(settings(replica, primary))
        #expect(store.connection.host == "127.0.0.1:\(primary)")
        // The primary is down, and nobody has promoted the replica yet: time may cure that.
        let failure = try Self.failure(settings(1, replica))
        #expect(failure?.code == .unreachable)
        #expect(failure?.sentence.contains("is a replica of") == true, "\(failure as Any)")
    }

    @Test("is not accepted beside other hosts, as a run could go on there without the last commits")
    func acceptedAlone() throws {
        let pair = try ReplicaLagTests.Pair()
        let account = try OpenAccount(pair.primary.server)
        try OpenAccount.make(account.name, pair.replica.server)
        let primary = "127.0.0.1:\(pair.primary.server.port)"
        let replica = "127.0.0.1:\(pair.replica.server.port)"
        func settings(_ hosts: String...) throws -> StoreSettings {
            let list = hosts.joined(separator: ",")
            var settings = StoreSettings(
                location: try StoreLocation(
                    "mysql://\(account.name)@\(list)/push", relativeTo: "/"), tls: .off)
            settings.acceptsReplica = true
            return settings
        }
        #expect(try TokenTable(settings(replica)).connection.host == replica)
        #expect(try TokenTable(settings(replica, primary)).connection.host == primary)
        // Reads that others act on go to the primary too; those for people go to any.
        func host(_ use: StoreUse) throws -> String? {
            try TokenTable(settings(replica, primary).used(for: use)).connection.host
        }
        #expect(try host(.decisions) == primary)
        #expect(try host(.reports) == replica)
        // Two primaries that replicate each other are two replicas.
        let both = try settings(replica, "localhost:\(pair.replica.server.port)")
        let failure = try #require(Self.failure(both))
        #expect(failure.code == .configuration)
        #expect(throws: Never.self) { try TokenTable(both.used(for: .decisions)) }
        #expect(
            failure.sentence.contains("write this one host into store.url"), "\(failure.sentence)")
        let role = try #require(
            try Self.findings(both).first { $0.failure?.code == .configuration })
        #expect(role.sentence.contains("does not accept it beside other hosts"), "\(role)")
    }

    @Test("does not decide in the place of a server that was asked before, until one takes over")
    func takesOver() throws {
        let pair = try ReplicaLagTests.Pair()
        let account = try OpenAccount(pair.primary.server)
        try OpenAccount.make(account.name, pair.replica.server)
        let primary = "127.0.0.1:\(pair.primary.server.port)"
        let replica = "127.0.0.1:\(pair.replica.server.port)"
        func settings() throws -> StoreSettings {
            StoreSettings(
                location: try StoreLocation(
                    "mysql://\(account.name)@\(replica),\(primary)/push", relativeTo: "/"),
                tls: .off
            ).used(for: .decisions)
        }
        func ask(_ session: DatabaseSession) throws(StoreFailure) {
            _ = try session.retries.retrying("reading") { () throws(SQLFailure) in
                try session.connection.query("SELECT 1")
            }
        }
        let session = try DatabaseSession(settings(), pacing: hurried())
        #expect(session.connection.host == primary)
        // A switchover: the primary takes no more changes and ends the connections of its clients.
        try pair.primarySQL.run("SET GLOBAL read_only = 1")
        let clients = try pair.primarySQL.query(
            "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '\(account.name)'")
        for row in 0..<clients.count {
            try pair.primarySQL.run("KILL \(clients[row, 0].count ?? 0)")
        }
        expectFailure(.readOnly) { try ask(session) }
        // A run that begins now takes the newest rows that there are, which are not those of the replica.
        #expect(try DatabaseSession(settings(), pacing: hurried()).connection.host == primary)
        try pair.replicaSQL.run("STOP SLAVE")
        try pair.replicaSQL.run("RESET SLAVE ALL")
        #expect(throws: Never.self) { try ask(session) }
        #expect(session.connection.host == replica)
    }

    @Test("is not accepted beside other hosts behind a proxy that splits reads either")
    func acceptedBehindProxy() {
        let identity = ServerIdentity(values: ["a", "1", "2", "p", "d"])
        let other = ServerIdentity(values: ["b", "1", "2", "p", "d"])
        func objection(_ replication: Replication) -> SQLFailure? {
            ServerRole(
                identity: identity, other: other, isReadOnly: false, replication: replication,
                galera: nil
            ).objection(acceptsReplica: true, hasOthers: true)
        }
        #expect(objection(.none) == nil)
        #expect(objection(.replica(of: "db1", isRunning: true))?.kind == .misplaced)
    }

    @Test(
        "is known while it runs without any right, and check names the right that shows it stopped")
    func rights() throws {
        let pair = try ReplicaLagTests.Pair()
        for sql in [pair.replicaSQL, pair.primarySQL] {
            try sql.run("CREATE USER IF NOT EXISTS 'plain'@'%' IDENTIFIED BY 'p'")
            try sql.run("GRANT SELECT ON push.* TO 'plain'@'%'")
        }
        let settings = pair.replica.server.settings(
            database: "push", user: "plain", password: "p")
        let failure = Self.failure(settings)
        #expect(failure?.sentence.contains("a primary that this account may not see") == true)
        try pair.replicaSQL.run("STOP SLAVE")
        #expect(throws: Never.self) { try TokenTable(settings) }
        let role = try #require(try Self.findings(settings).first)
        #expect(role.severity == .ok)
        #expect(
            role.sentence.contains("GRANT REPLICA MONITOR ON *.* TO 'plain'@'%' to be told"),
            "\(role)")
    }
}
