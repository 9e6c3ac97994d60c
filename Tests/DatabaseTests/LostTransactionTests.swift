import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Database
@testable import TokenTable

@Suite(
    "A transaction that a Galera node ends in favour of another", .serialized,
    .enabled(
        if: Environment.text("PUSHSWEEP_TEST_CLUSTER_KIND") == "galera",
        "the server of the tests is no node of Galera"))
struct LostTransactionTests {
    /// A connection on another node that changes one row again and again until it is stopped.
    private final class Rival: Sendable {
        private let isOver = Mutex(false)
        private let group = DispatchGroup()

        init(_ settings: StoreSettings) {
            group.enter()
            Thread.detachNewThread { [self] in
                defer { group.leave() }
                guard let sql = try? TokenTable(settings, pacing: hurried()).connection else {
                    return
                }
                while !isOver.withLock({ $0 }) {
                    _ = try? sql.execute("UPDATE t SET v = v + 1 WHERE id = 1", [])
                }
            }
        }

        func stop() {
            isOver.withLock { $0 = true }
            group.wait()
        }
    }

    /// Changes the contested row and a counter, prepares a statement, and commits.
    private func count(
        to number: Int, preparing places: Int, _ sql: any SQLConnection
    ) throws(SQLFailure) {
        try sql.begin()
        _ = try sql.execute("UPDATE t SET v = 0 WHERE id = 1", [])
        _ = try sql.execute(
            "UPDATE t SET v = ? WHERE id = 2", [.integer(Int64(number))])
        _ = try sql.query(
            "SELECT id FROM t WHERE v IN (\(placeholders(places)))",
            (0..<places).map { .integer(Int64($0)) })
        _ = try sql.execute("UPDATE t SET v = v + 1 WHERE id = 3", [])
        try sql.commit()
    }

    private func failure(_ body: () throws(SQLFailure) -> Void) -> SQLFailure? {
        do throws(SQLFailure) {
            try body()
            return nil
        } catch {
            return error
        }
    }

    /// What the connection reads of the two counts.
    private func counted(_ sql: any SQLConnection) throws -> [Int?] {
        let rows = try RetryPolicy(connection: sql, pacing: hurried()).retrying("reading") {
            () throws(SQLFailure) in
            try sql.query("SELECT v FROM t WHERE id IN (2, 3) ORDER BY id")
        }
        return (0..<rows.count).map { rows[$0, 0].count }
    }

    @Test("while a statement is prepared is never taken for committed, and nothing of it is kept")
    func whilePreparing() throws {
        let database = try TokenDatabase(.mariaDB)
        try database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER) ENGINE=InnoDB")
        try database.execute("INSERT INTO t VALUES (1, 0), (2, 0), (3, 0)")
        let port = try #require(Environment.text("PUSHSWEEP_TEST_CLUSTER_2_PORT").flatMap(Int.init))
        let server = try #require(MariaDBServer.fromEnvironment).node(port: port)
        let name = try #require(database.texts("SELECT DATABASE()").first?.first)
        let rival = Rival(server.settings(database: name))
        defer { rival.stop() }
        let sql = try TokenTable(database.settings, pacing: hurried()).connection
        var (committed, ended, tries) = (0, 0, 0)
        while ended < 20, tries < 20_000 {
            tries += 1
            let failure = failure {
                // More statements than a connection keeps, and long ones.
                () throws(SQLFailure) in
                try count(to: committed + 1, preparing: 1_000 + tries % 200, sql)
            }
            if let failure {
                try #require(failure.kind == .conflict, "\(failure)")
                if failure.message.contains("while it prepared a statement") { ended += 1 }
                sql.rollBack()
            } else {
                committed += 1
            }
            try #require(try counted(sql) == [committed, committed])
        }
        #expect(ended == 20, "\(tries) tries, \(committed) committed")
    }
}
