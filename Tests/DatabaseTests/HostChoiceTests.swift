import APNsSimulator
import Findings
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Database
@testable import TokenTable

@Suite(
    "Several hosts of one database", .serialized,
    .needsServer)
struct HostChoiceTests {
    private let server: MariaDBServer
    private let told = Told()

    private final class Told: Sendable {
        let lines = Mutex<[String]>([])
    }

    init() throws { server = try #require(MariaDBServer.fromEnvironment) }

    /// Settings for hosts as they stand in store.url; `@` stands for the test server.
    private func settings(_ hosts: String..., password: String? = nil) throws -> StoreSettings {
        let list = hosts.map { $0 == "@" ? "\(server.host):\(server.port)" : $0 }
        var settings = server.settings(database: "mysql", password: password)
        settings.location = try StoreLocation(
            "mysql://\(server.user)@\(list.joined(separator: ","))/mysql", relativeTo: "/")
        settings.hosts.telling { [told] line in told.lines.withLock { $0.append(line) } }
        return settings
    }

    /// A store by one try, unless said otherwise.
    private func open(_ settings: StoreSettings, tries: Int = 1) throws -> TokenTable {
        var pacing = hurried()
        pacing.patience = tries > 1 ? 60_000 : 0
        return try TokenTable(settings, pacing: pacing)
    }

    private func failure(_ settings: StoreSettings) -> StoreFailure? {
        #expect(throws: StoreFailure.self) { try open(settings) }
    }

    @Test("the first host that can be used is used, and the log says why the others are not")
    func order() throws {
        let store = try open(settings("127.0.0.1:1", "@", "127.0.0.1:2"))
        #expect(store.connection.host == "\(server.host):\(server.port)")
        let lines = told.lines.withLock { $0 }
        #expect(lines.count == 1)
        #expect(
            lines.first?.hasPrefix(
                "the token database is used at \(server.host):\(server.port), since 127.0.0.1:1: "
                    + "Can't connect") == true, "\(lines)")
        // The next connection of the run begins with the host that was found.
        _ = try open(store.settings)
        #expect(told.lines.withLock { $0.count } == 1)
    }

    @Test("when no host can be used, one sentence tells the errors of all of them")
    func none() throws {
        let failure = try failure(settings("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"))
        #expect(failure?.code == .unreachable)
        let sentence = failure?.sentence ?? ""
        #expect(sentence.contains("none of 3 hosts can be used: 127.0.0.1:1: Can't connect"))
        for port in 1...3 { #expect(sentence.contains("127.0.0.1:\(port): "), "\(sentence)") }
        #expect(!sentence.contains("(0)"))
    }

    @Test("a host that takes connections and says nothing costs three seconds")
    func silence() throws {
        let silent = try SilentServer(saying: [])
        let began = ContinuousClock.now
        let store = try open(settings("127.0.0.1:\(silent.port)", "@"))
        #expect(store.connection.host == "\(server.host):\(server.port)")
        #expect(ContinuousClock.now - began < .seconds(8))
        // The limit for statements is the usual one again.
        _ = try store.connection.query("SELECT SLEEP(4)")
    }

    @Test("a host that has blocked this one, or has no connection left, leads to the next")
    func blocked() throws {
        for (code, message) in [(1_129, "Host 'a' is blocked"), (1_040, "Too many connections")] {
            let refusing = try SilentServer(saying: MySQLPacket.refusal(UInt16(code), message))
            var settings = try settings("127.0.0.1:\(refusing.port)", "@")
            // Inside TLS the library names no number of an error that comes before the handshake.
            settings.tls = .off
            let store = try open(settings)
            #expect(store.connection.host == "\(server.host):\(server.port)")
            #expect(told.lines.withLock { $0.last?.contains(message) } == true)
        }
    }

    @Test("when no host can be used, the message says what to look at on a host that answered")
    func cause() throws {
        let refusing = try SilentServer(
            saying: MySQLPacket.refusal(
                1_047, "WSREP has not yet prepared node for application use"))
        var settings = try settings("127.0.0.1:1", "127.0.0.1:\(refusing.port)")
        settings.tls = .off
        let sentence = failure(settings)?.sentence ?? ""
        #expect(
            sentence.contains(
                "application use (1047); this node of the cluster takes no statements"))
        #expect(sentence.contains("wsrep_cluster_status"), "\(sentence)")
    }

    @Test("a connection that the server ended because it was idle is opened again")
    func idle() throws {
        // MySQL 8.0.24 and later say 4031 where others close without a word.
        let failure = SQLFailure.mariaDB(code: 4_031, message: "The client was disconnected")
        #expect(failure.kind == .lost && failure.needsConnection)
    }

    @Test("a wrong password ends the search, and the message names the host")
    func password() throws {
        let failure = try failure(settings("127.0.0.1:1", "@", "127.0.0.1:2", password: "wrong"))
        #expect(failure?.code == .permission)
        #expect(
            failure?.sentence.contains("/mysql: \(server.host):\(server.port): Access denied")
                == true,
            "\(failure as Any)")
    }

    @Test("a host that cannot prove its name ends the search, and the next one is not asked")
    func certificate() throws {
        let folder = try TemporaryFolder()
        let foreign = try EncryptedGreeter(
            showing: .wrongHostServer, of: SimulatorCertificates(directory: folder.path),
            greeting: MySQLPacket.greeting(offersTLS: true))
        let next = try SQLRouter(primary: server.port)
        var settings = try settings("127.0.0.1:\(foreign.port)", "127.0.0.1:\(next.port)")
        settings.tls = .verify(ca: foreign.authority)
        let failure = failure(settings)
        #expect(failure?.code == .untrusted, "\(failure as Any)")
        #expect(failure?.sentence.contains("127.0.0.1:\(foreign.port): ") == true)
        #expect(next.connections == 0)
    }

    @Test("the name of each host is verified on its own")
    func names() throws {
        // The certificate has localhost and 127.0.0.1, and not this spelling of the same address.
        let failure = try failure(settings("127.0.0.1:1", "127.1:\(server.port)"))
        #expect(failure?.code == .untrusted, "\(failure as Any)")
        #expect(
            try open(settings("127.0.0.1:1", "127.0.0.1:\(server.port)")).connection.host != nil)
    }

    @Test("a lost connection goes on with the next host, and other connections of the run follow")
    func loss() throws {
        let account = try OpenAccount(server)
        let hosts = try (0..<3).map { _ in try SQLRouter(primary: server.port) }
        let list = hosts.map { "127.0.0.1:\($0.port)" }.joined(separator: ",")
        let settings = StoreSettings(
            location: try StoreLocation(
                "mysql://\(account.name)@\(list)/mysql", relativeTo: "/"), tls: .off)
        settings.hosts.telling { [told] line in told.lines.withLock { $0.append(line) } }
        let first = try open(settings, tries: 2)
        let second = try open(settings, tries: 2)
        #expect(hosts.map(\.connections) == [2, 0, 0])
        hosts[0].die()
        for store in [first, second] {
            let answer = try store.retries.retrying("reading") { () throws(SQLFailure) in
                try store.connection.query("SELECT 1")
            }
            #expect(answer.scalar?.count == 1)
            #expect(store.connection.host == "127.0.0.1:\(hosts[1].port)")
        }
        #expect(hosts.map(\.connections) == [2, 2, 0])
        #expect(told.lines.withLock { $0.count } == 2)
    }

    @Test("a host that is set to read-only is passed over, and alone it is waited for")
    func readOnly() throws {
        let other = try PrivateServer(["--read-only=1"])
        let hosts = "127.0.0.1:\(other.server.port)"
        let account = try OpenAccount(server)
        try OpenAccount.make(account.name, other.server)
        func settings(_ list: String) throws -> StoreSettings {
            StoreSettings(
                location: try StoreLocation(
                    "mysql://\(account.name)@\(list)/mysql", relativeTo: "/"), tls: .off)
        }
        let store = try open(settings("\(hosts),127.0.0.1:\(server.port)"))
        #expect(store.connection.host == "127.0.0.1:\(server.port)")
        #expect(try failure(settings(hosts))?.code == .readOnly)
        let reader = try open(settings(hosts).used(for: .reports))
        #expect(try reader.connection.role()?.isReadOnly == true)
    }

    @Test("a read-only standby beside a host that is down leaves the patience with that host")
    func decisive() {
        let hosts = [1, 2, 3].map { StoreLocation.Address.tcp(host: "db\($0)", port: 3_306) }
        func kind(_ kinds: SQLFailure.Kind...) -> SQLFailure.Kind? {
            var left = kinds
            return #expect(throws: SQLFailure.self) {
                try HostChoice().choose(among: Array(hosts.prefix(kinds.count)), after: nil) {
                    (_) throws(SQLFailure) in
                    throw SQLFailure(kind: left.removeFirst(), code: 0, message: "no")
                }
            }?.kind
        }
        #expect(kind(.readOnly, .unreachable) == .unreachable)
        #expect(kind(.misplaced, .readOnly, .lost) == .lost)
        #expect(kind(.misplaced, .readOnly) == .readOnly)
        #expect(kind(.misplaced, .misplaced) == .misplaced)
    }

    @Test("check asks every host of the list, and names those that a run could not use")
    func checked() throws {
        let replica = try PrivateServer(["--read-only=1"])
        let account = try OpenAccount(server)
        try OpenAccount.make(account.name, replica.server)
        let foreign = try EncryptedGreeter(
            showing: .wrongHostServer,
            of: SimulatorCertificates(directory: TemporaryFolder().path),
            greeting: MySQLPacket.greeting(offersTLS: true))
        let silent = try SilentServer(saying: [])
        let router = try SQLRouter(primary: server.port)
        let ports = [router.port, server.port, 1, silent.port, foreign.port, replica.server.port]
        let list = ports.map { "127.0.0.1:\($0)" }.joined(separator: ",")
        let settings = StoreSettings(
            location: try StoreLocation("mysql://\(account.name)@\(list)/mysql", relativeTo: "/"),
            tls: .off)
        let findings = try open(settings.used(for: .reports)).session.examineServer()
        func finding(_ port: Int) -> Finding? {
            findings.first { $0.sentence.contains("127.0.0.1:\(port) ") }
        }
        #expect(finding(router.port)?.sentence.contains("answers to this check") == true)
        #expect(finding(server.port)?.sentence.hasSuffix("answers too, and takes changes") == true)
        let standby = try #require(finding(replica.server.port))
        #expect(standby.severity == .ok && standby.sentence.contains("runs pass it over until"))
        for port in [1, silent.port, foreign.port] {
            let bad = try #require(finding(port), "\(findings)")
            #expect(bad.severity == .medium && bad.sentence.contains("cannot be used: "))
            #expect(bad.sentence.contains("take it out of store.url"))
        }
        #expect(finding(1)?.sentence.contains("Can't connect") == true)
    }

    @Test("check compares the clocks of all hosts, and warns where they are two seconds apart")
    func clocks() throws {
        // Each session of an account without the right to connect beyond the limit is told this time.
        func other(_ seconds: Int) throws -> PrivateServer {
            try PrivateServer(["--init-connect=SET timestamp = UNIX_TIMESTAMP() + \(seconds)"])
        }
        let (ahead, behind) = (try other(40), try other(-3))
        let account = try OpenAccount(server)
        for other in [ahead, behind] {
            try other.server.connection().run(
                "GRANT SELECT ON *.* TO '\(account.name)'@'%' IDENTIFIED BY ''")
        }
        let near = try SQLRouter(primary: server.port)
        let ports = [server.port, ahead.server.port, behind.server.port, near.port]
        let list = ports.map { "127.0.0.1:\($0)" }.joined(separator: ",")
        let settings = StoreSettings(
            location: try StoreLocation("mysql://\(account.name)@\(list)/mysql", relativeTo: "/"),
            tls: .off)
        let findings = try open(settings.used(for: .reports)).session.examineServer()
            .filter { $0.sentence.hasPrefix("the clock of ") }
        #expect(findings.count == 1, "\(findings)")
        let warning = try #require(findings.first)
        #expect(warning.severity == .medium)
        // The time of a session stands still from its beginning, and a busy machine begins the second one late.
        #expect(
            (40...43).contains {
                warning.sentence.hasPrefix(
                    "the clock of 127.0.0.1:\(ahead.server.port) is \($0) seconds ahead of that of "
                        + "127.0.0.1:\(behind.server.port); leases")
            }, "\(warning)")
    }

    @Test("clocks that may differ by less than two seconds are no finding")
    func uncertainClocks() {
        func finding(_ offset: Int64, _ uncertainty: Int64 = 100) -> String? {
            ClockReading.finding([
                ClockReading("a", offset: 1_000, uncertainty: 100),
                ClockReading("b", offset: offset, uncertainty: uncertainty),
                ClockReading("c", offset: 1_001, uncertainty: 100),
            ])?.sentence
        }
        #expect(finding(3_200) == nil)
        #expect(finding(3_201)?.hasPrefix("the clock of b is 2 seconds ahead of that of a") == true)
        #expect(
            finding(-1_201)?.hasPrefix("the clock of c is 2 seconds ahead of that of b") == true)
        #expect(finding(60_000, 90_000) == nil)
    }

    @Test("a stopped replica, a split connection and a read-only Galera node are no standby")
    func standby() {
        func isStandby(
            _ replication: Replication, readOnly: Bool = false, other: ServerIdentity? = nil,
            galera: GaleraState? = nil
        ) -> Bool {
            ServerRole(
                identity: nil, other: other, isReadOnly: readOnly, replication: replication,
                galera: galera
            ).isStandby
        }
        let node = GaleraState(comment: "Synced", clusterStatus: "Primary", size: 3, isReady: true)
        #expect(!isStandby(.none, readOnly: true, galera: node))
        #expect(isStandby(.replica(of: "db1", isRunning: true)))
        #expect(!isStandby(.replica(of: "db1", isRunning: false), readOnly: true))
        #expect(isStandby(.none, readOnly: true))
        #expect(!isStandby(.none))
        let other = ServerIdentity(values: ["b", "1", "2", "p", "d"])
        #expect(!isStandby(.replica(of: "db1", isRunning: true), other: other))
    }

    @Test(
        "a server outside of its replication group, without the majority, or unseen decides nothing"
    )
    func group() {
        func objection(_ group: GroupMembership) -> SQLFailure? {
            let standing = ServerRole(
                identity: nil, other: nil, isReadOnly: false, replication: .none, galera: nil,
                group: group)
            let change = standing.objection(acceptsReplica: true, hasOthers: false)
            #expect(change == standing.objection(toRowsOlderThan: .replicas))
            return change
        }
        #expect(objection(.member(state: "ONLINE", reachable: 3, of: 3)) == nil)
        #expect(objection(.member(state: "ONLINE", reachable: 2, of: 3)) == nil)
        let cut = objection(.member(state: "ONLINE", reachable: 1, of: 2))
        #expect(cut?.kind == .lost && cut?.message.contains("reaches 1 of 2 members") == true)
        for state in ["OFFLINE", "RECOVERING", "ERROR"] {
            let lost = objection(.member(state: state, reachable: 1, of: 1))
            #expect(
                lost?.kind == .lost && lost?.message.contains("is \(state) in its group") == true)
        }
        let grant = GroupMembership.right.grant(to: "a@%")
        let unseen = objection(.hidden(grant: grant))
        #expect(unseen?.kind == .permission && unseen?.message.contains(grant) == true)
    }
}
