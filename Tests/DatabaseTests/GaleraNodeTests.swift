import Foundation
import TestSupport
import Testing

@testable import Database
@testable import TokenTable

@Suite(
    "A server that was set up for Galera", .serialized,
    .needsServer)
struct GaleraNodeTests {
    /// The library of Galera; scripts/cluster galera names it.
    private static let library = ProcessInfo.processInfo.environment[
        "PUSHSWEEP_TEST_CLUSTER_PROVIDER"]
    /// What both kinds of server have in their settings.
    private static let common = ["--wsrep-on=ON", "--binlog-format=ROW"]

    @Test("and loads no Galera serves as one by itself")
    func withoutProvider() throws {
        let other = try PrivateServer(Self.common)
        let settings = other.server.settings(database: "mysql")
        let store = try TokenTable(settings, pacing: hurried())
        #expect(try store.connection.query("SELECT @@wsrep_on").scalar?.count == 1)
        #expect(!store.connection.certifiesCommits)
        #expect(try store.connection.role()?.galera == nil)
        let reader = try TokenTable(settings.used(for: .reports), pacing: hurried())
        let findings = try reader.session.examineServer()
        #expect(!findings.contains { $0.sentence.contains("Galera") }, "\(findings)")
    }

    @Test(
        "and has left its cluster is not ready, though it takes connections and answers reads",
        .enabled(if: library != nil, "scripts/test --on galera starts it"))
    func withoutCluster() throws {
        let port = try SilentServer(saying: []).port
        let node = try PrivateServer(
            Self.common + [
                "--innodb-autoinc-lock-mode=2", "--wsrep-provider=\(Self.library ?? "")",
                "--wsrep-cluster-address=gcomm://", "--wsrep-node-address=127.0.0.1:\(port)",
                "--wsrep-provider-options=base_port=\(port);"
                    + "gmcast.listen_addr=tcp://127.0.0.1:\(port)",
            ])
        let settings = node.server.settings(database: "mysql")
        let admin = try TokenTable(settings, pacing: hurried())
        #expect(admin.connection.certifiesCommits)
        #expect(try admin.connection.query("SELECT @@wsrep_sync_wait").scalar?.count == 7)
        let state = try admin.connection.role()?.galera
        #expect(state?.isReady == true && state?.clusterStatus == "Primary" && state?.size == 1)

        try admin.connection.run("SET GLOBAL wsrep_cluster_address = ''")
        var impatient = hurried()
        impatient.patience = 0
        for use in [StoreUse.changes, .decisions, .reports] {
            expectFailure(.busy, "prepared node for application use (1047); this node") {
                try TokenTable(settings.used(for: use), pacing: impatient)
            }
        }
    }
}
