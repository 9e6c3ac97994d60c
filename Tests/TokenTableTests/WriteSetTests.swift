import APNsProtocol
import Database
import Foundation
import Synchronization
import TestSupport
import Testing
import TokenHygiene
import TokenTable

/// Whether the server of the tests is a node of Galera.
private let isGalera =
    ProcessInfo.processInfo.environment["PUSHSWEEP_TEST_CLUSTER_KIND"] == "galera"

@Suite(
    "The limits of a real Galera node", .serialized,
    .enabled(if: isGalera, "the server of the tests is no node of Galera"))
struct WriteSetTests {
    @Test(
        "a chunk beyond the limit of rows or bytes halves until the node takes it",
        arguments: [
            ("wsrep_max_ws_rows", 250), ("wsrep_max_ws_rows", 12), ("wsrep_max_ws_size", 16_384),
        ],
        RemovalPolicy.Action.allCases)
    func limits(_ limit: (name: String, value: Int), _ action: RemovalPolicy.Action) throws {
        // The limit is one of the whole node, and other tests use the first.
        let one = try #require(MariaDBServer.fromEnvironment)
        let port = ProcessInfo.processInfo.environment["PUSHSWEEP_TEST_CLUSTER_2_PORT"]
        let node = one.node(port: try #require(port.flatMap { Int($0) }))
        let database = try TokenDatabase(.mariaDB, on: node)
        try database.createOwnSchema()
        try database.register(0..<1_000, at: start)
        let former = try database.texts("SELECT @@GLOBAL.\(limit.name)")[0][0]
        defer { try? database.sql.run("SET GLOBAL \(limit.name) = \(former)") }
        try database.sql.run("SET GLOBAL \(limit.name) = \(limit.value)")
        let told = Mutex<Set<String>>([])
        var pacing = Pacing()
        pacing.report = { sentence in _ = told.withLock { $0.insert(sentence) } }
        let store = try database.store(pacing: pacing)
        let progress = try store.apply(
            (0..<1_000).map { .dead($0, at: start + 60_000) }, policy: RemovalPolicy(action: action)
        )
        #expect(progress.isApplied && progress.counts == Counts(applied: 1_000))
        #expect(try database.changedOnce(1000))
        let sentences = told.withLock { $0 }
        #expect(sentences.count == 1, "\(sentences)")
        #expect(sentences.first?.contains("\(limit.name) = \(limit.value)") == true, "\(sentences)")
    }
}
