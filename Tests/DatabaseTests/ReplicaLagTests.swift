import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Database
@testable import TokenTable

@Suite("The lag of a real replica", .needsServer)
struct ReplicaLagTests {
    /// A primary and its replica, which has caught up.
    struct Pair {
        let primary: PrivateServer
        let replica: PrivateServer
        let primarySQL: any SQLConnection
        let replicaSQL: any SQLConnection

        init() throws {
            primary = try PrivateServer(["--server-id=1", "--log-bin=bin"])
            replica = try PrivateServer(["--server-id=2"])
            primarySQL = try primary.server.connection()
            replicaSQL = try replica.server.connection()
            let position = try primarySQL.query("SHOW MASTER STATUS")
            let (file, offset) = (position[0, 0].text ?? "", position[0, 1].count ?? 0)
            try replicaSQL.run(
                "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = \(primary.server.port), "
                    + "MASTER_USER = '\(primary.server.user)', "
                    + "MASTER_PASSWORD = '\(primary.server.password)', "
                    + "MASTER_LOG_FILE = '\(file)', MASTER_LOG_POS = \(offset)")
            try replicaSQL.run("START SLAVE")
            try primarySQL.run("CREATE DATABASE push")
            try primarySQL.run("CREATE TABLE push.t (a INT PRIMARY KEY)")
            let deadline = ContinuousClock.now + .seconds(20)
            while (try? replicaSQL.query("SELECT COUNT(*) FROM push.t")) == nil {
                guard ContinuousClock.now < deadline else {
                    throw TestFailure("the replica does not follow")
                }
            }
        }

        /// Delays the replica by a number of seconds.
        func delay(_ seconds: Int) throws {
            try replicaSQL.run("STOP SLAVE")
            try replicaSQL.run("CHANGE MASTER TO MASTER_DELAY = \(seconds)")
            try replicaSQL.run("START SLAVE")
        }
    }

    @Test("a run sees the lag, reports it and waits until the replica has caught up")
    func pauses() throws {
        let pair = try Pair()
        try pair.delay(1_000)
        try pair.primarySQL.run("INSERT INTO push.t VALUES (1)")
        let story = Mutex<[String]>([])
        var throttle = Throttle()
        throttle.maxLag = 1
        throttle.replicas = [pair.replica.server.settings(database: "push")]
        throttle.report = { line in story.withLock { $0.append(line) } }
        func store(_ pacing: Pacing) throws -> TokenTable {
            var pacing = pacing
            pacing.throttle = throttle
            return try TokenTable(pair.primary.server.settings(database: "push"), pacing: pacing)
        }
        // The lag grows with the time.
        let deadline = ContinuousClock.now + .seconds(20)
        while try store(hurried()).session.waitForThrottle(shouldStop: { true }),
            ContinuousClock.now < deadline
        {}
        #expect(story.withLock { $0.last?.contains(" lags ") } == true)
        let replica = pair.replica.server
        let isHurried = Mutex(false)
        let pacing = hurried {
            let isFirst = isHurried.withLock { isHurried in
                defer { isHurried = true }
                return !isHurried
            }
            guard isFirst, let sql = try? replica.connection() else { return }
            for statement in [
                "STOP SLAVE", "CHANGE MASTER TO MASTER_DELAY = 0", "START SLAVE",
            ] {
                try? sql.run(statement)
            }
        }
        #expect(
            try store(pacing).session.waitForThrottle(shouldStop: { ContinuousClock.now > deadline }
            ))
        #expect(story.withLock { $0.last?.hasPrefix("continues") } == true)
        // The replica itself, asked as the token database, knows its lag too.
        throttle.replicas = []
        throttle.maxLag = 1_000
        let own = try TokenTable(
            replica.settings(database: "push").used(for: .reports),
            pacing: {
                var pacing = hurried()
                pacing.throttle = throttle
                return pacing
            }())
        #expect(try own.session.waitForThrottle())
        #expect(
            try own.session.lagGrants().first?.hasPrefix("GRANT REPLICA MONITOR ON *.* TO ") == true
        )
    }
}
