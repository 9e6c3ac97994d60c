import APNsProtocol
import Findings
import Foundation
import Synchronization
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

/// A connection that refuses transactions in which too many rows change, as Galera does by
/// `wsrep_max_ws_rows` (at the statement) and `wsrep_max_ws_size` (at the commit).
private func limit(
    _ connection: FaultyConnection, to rows: @escaping () -> Int, atCommit: Bool
) -> SQLFailure {
    let failure =
        atCommit
        ? SQLFailure.mariaDB(code: 1_105, message: "Maximum writeset size exceeded")
        : .mariaDB(code: 1_180, message: "wsrep_max_ws_rows exceeded")
    var changed = 0
    connection.refusal = { sql in
        if sql.hasPrefix("BEGIN") || sql.hasPrefix("START") { changed = 0 }
        // A statement of SQLite changes one row.
        if sql.hasPrefix("UPDATE active_users") || sql.hasPrefix("UPDATE \"active_users") {
            changed += 1
        }
        guard changed > rows() else { return nil }
        return !atCommit || sql.hasPrefix("COMMIT") ? failure : nil
    }
    return failure
}

@Suite("Transactions of limited size")
struct TransactionSizeTests {
    private static func stage() throws -> (TokenDatabase, FaultyConnection) {
        let database = try TokenDatabase.own(.sqlite, 0..<400)
        return (database, FaultyConnection(database.driver(), []))
    }

    private static let evidence = (0..<400).map { TokenEvidence.dead($0, at: start + 60_000) }

    @Test(
        "a chunk that the cluster refuses for its size halves until it fits, without a pause",
        arguments: [(50, true), (50, false), (1, true), (1, false)])
    func halves(_ rows: Int, _ atCommit: Bool) throws {
        let (database, connection) = try Self.stage()
        let time = VirtualTime()
        let told = Mutex<[String]>([])
        var pacing = time.pacing
        pacing.report = { sentence in told.withLock { $0.append(sentence) } }
        let store = try TokenTable(database.settings, connection, pacing)
        let failure = limit(connection, to: { rows }, atCommit: atCommit)
        #expect(failure.kind == .tooLarge)
        #expect(try store.apply(Self.evidence).counts == Counts(applied: 400))
        #expect(time.now == 0)
        #expect(try database.changedOnce(400))
        let sentences = Set(told.withLock { $0 })
        #expect(sentences.count == 1)
        #expect(sentences.first?.contains(atCommit ? "wsrep_max_ws_size" : "_ws_rows") == true)
    }

    @Test("a limit below one row ends the run with the name of the setting to raise")
    func belowOne() throws {
        let (database, connection) = try Self.stage()
        let store = try TokenTable(database.settings, connection, VirtualTime().pacing)
        _ = limit(connection, to: { 0 }, atCommit: true)
        let thrown = expectFailure(.configuration) { try store.apply(Self.evidence) }
        #expect(thrown?.sentence.hasSuffix("raise wsrep_max_ws_size") == true, "\(thrown as Any)")
        #expect(try database.unmarked() == 400)
    }

    @Test("the ceiling rises again after some chunks, and more seldom after each refusal")
    func rises() {
        let ceiling = ChunkCeiling()
        #expect(ceiling.refused(900) && ceiling.entries == 450)
        #expect(ceiling.refused(450) && ceiling.entries == 225)
        for _ in 0..<31 { ceiling.committed() }
        #expect(ceiling.entries == 225)
        ceiling.committed()
        #expect(ceiling.entries == 450)
        #expect(ceiling.refused(450) && ceiling.entries == 225)
        for _ in 0..<63 { ceiling.committed() }
        #expect(ceiling.entries == 225)
        #expect(!ceiling.refused(1))
    }
}

@Suite("Failures of clusters")
struct ClusterFailureTests {
    @Test(
        "each failure of a cluster has its kind, and a sentence that says what to do",
        arguments: [
            (
                1_047, "WSREP has not yet prepared node for application use", SQLFailure.Kind.lost,
                "wsrep_cluster_status"
            ),
            (1_180, "Got error 5 during COMMIT", .lost, "error log"),
            (1_205, "Lock wait timeout exceeded", .conflict, "INNODB_TRX"),
            (1_213, "Deadlock found", .conflict, "other nodes"),
            (1_105, "Unknown error", .other, "error log"),
            (3_032, "The server is currently in offline mode", .overloaded, "run again"),
            (9_001, "Max connect timeout reached", .overloaded, "run again"),
            (1_197, "more than 'max_binlog_cache_size' bytes", .tooLarge, "max_binlog_cache_size"),
        ])
    func kinds(_ code: UInt32, _ message: String, _ kind: SQLFailure.Kind, _ word: String) {
        let failure = SQLFailure.mariaDB(code: code, message: message)
        #expect(failure.kind == kind)
        let sentence = StoreFailure(failure, while: "testing").sentence
        #expect(sentence.hasPrefix("testing: \(message) (\(code))"))
        #expect(sentence.contains(word), "\(sentence)")
        #expect(!sentence.contains("report this"))
    }
}
