// Two hosts are two state folders on one database: the kernel lock of one has no effect on the
// other, so only the lease separates them.

import APNsProtocol
import APNsSimulator
import Foundation
import Glibc
import TestSupport
import Testing

private let start: UInt32 = 1_700_000_000
private let before: Int64 = 1_600_000_000_000

@Suite("Runs on two hosts", .serialized)
struct TwoHostsTests {
    private static let tokens = 1_000
    /// Runs that want to work at once.
    private static let runs = Series.isLong ? 20 : 8

    /// A gateway with one list of a thousand dead tokens, all of them registered.
    private func stage(
        _ engine: TestEngine, behaviour: FeedbackBehaviour = FeedbackBehaviour()
    ) throws -> SweepStage {
        try SweepStage(engine, dead: Self.tokens, behaviour: behaviour)
    }

    /// Checks that every token was read once, marked once and counted once.
    private func checkWhole(_ stage: SweepStage) throws {
        let database = stage.database
        #expect(try database.marked == Self.tokens)
        #expect(
            try database.texts("SELECT SUM(applied), SUM(already) FROM pushsweep_batch")
                == [["\(Self.tokens)", "0"]])
        #expect(
            try database.changedOnce(Self.tokens))
        #expect(try database.rows(of: "pushsweep_lease", "owner IS NOT NULL") == 0)
    }

    /// A stage on which a first run reads a list that does not end, with the bytes so far in its
    /// file.
    private func readingStage(_ engine: TestEngine) throws -> (SweepStage, RunningTool) {
        var behaviour = FeedbackBehaviour()
        behaviour.ending = .holdOpen
        let stage = try stage(engine, behaviour: behaviour)
        stage.lines.feedbackOptions = "idle-timeout: 60s"
        let first = try stage.start(["sweep"])
        #expect(eventually(seconds: 20) { stage.arrivedBytes == Self.tokens * 38 })
        return (stage, first)
    }

    /// The same after the first run was killed.
    private func killedStage(_ engine: TestEngine) throws -> SweepStage {
        let (stage, first) = try readingStage(engine)
        first.signal(SIGKILL)
        #expect(first.wait().exit == 137)
        stage.lines.feedbackOptions = "idle-timeout: 200ms"
        return stage
    }

    /// Makes the lease end, as a minute without renewal would.
    private func endLease(_ stage: SweepStage) throws {
        try stage.database.execute(
            "UPDATE pushsweep_lease SET expires_at = ? WHERE name = 'active_users'",
            [stage.database.time(before)])
    }

    @Test(
        "of overlapping runs one works, the others end with 4 and name it",
        arguments: TestEngine.available)
    func overlapping(_ engine: TestEngine) throws {
        let (stage, first) = try readingStage(engine)
        let others = try (1..<Self.runs).map { number in
            try stage.start(
                ["sweep", "--format", "json"],
                environment: number % 2 == 0 ? stage.host("b") : [:])
        }
        for (number, other) in zip(1..., others) {
            let result = other.wait().ends(4, "next=wait")
            // Runs of one host may also overlap.
            if number % 2 == 0 && !result.error.contains("/lock;") {
                result.says("held by sweep on ")
            }
        }
        #expect(try stage.database.rows(of: "pushsweep_batch", "reports > 0") == 0)
        first.signal(SIGTERM)
        #expect(first.wait().exit == 75)
        // One connection: no other run has asked the gateway.
        #expect(stage.gateway.records(atLeast: 1).count == 1)
        stage.lines.feedbackOptions = "idle-timeout: 200ms"
        try stage.sweep().ends(0)
        try checkWhole(stage)
    }

    @Test(
        "runs that start at the same moment lose and double nothing",
        arguments: TestEngine.available)
    func atOnce(_ engine: TestEngine) throws {
        let stage = try stage(engine)
        let runs = try (0..<Self.runs).map { number in
            try stage.start(
                ["sweep", "--format", "json"],
                environment: stage.host(number % 2 == 0 ? "a" : "b"))
        }
        let results = runs.map { $0.wait() }
        for result in results {
            #expect([0, 4].contains(result.exit), "\(result.exit): \(result.error)")
        }
        #expect(results.contains { $0.exit == 0 })
        let read = results.reduce(0) { sum, result in
            sum + ((result.app()["tuples"] as? Int) ?? 0)
        }
        #expect(read == Self.tokens)
        try checkWhole(stage)
    }

    @Test(
        "runs wait for the end of a killed run's lease, except on its own host",
        arguments: TestEngine.available)
    func killed(_ engine: TestEngine) throws {
        let stage = try killedStage(engine)
        func onB() throws -> ToolResult {
            try stage.json("sweep", environment: stage.host("b"))
        }
        try onB().ends(4, " until ")
        // A dry run changes nothing, but would read the gateway too.
        try stage.run("sweep", "--dry-run", environment: stage.host("b")).ends(4)
        #expect(stage.gateway.records.count <= 1)
        try endLease(stage)
        try onB().ends(0)
        // The bytes read belong to the first host, which continues with them.
        try stage.sweep().ends(0).app(has: ["resumed": true])
        try checkWhole(stage)
    }

    @Test(
        "a run that loses the lease stops before its next commit, with 75",
        .needsServer,
        arguments: ["mark", "delete"])
    func takenAway(_ action: String) throws {
        let stage = try stage(.mariaDB)
        stage.lines.policy = "policy: {action: \(action)}"
        let database = stage.database
        func rows() throws -> [[[String]]] {
            try ["active_users", "pushsweep_change", "pushsweep_batch"].map {
                try database.texts("SELECT * FROM \($0)")
            }
        }
        // A row that another transaction holds keeps the chunk open until its lease is lost.
        try database.sql.begin()
        _ = try database.sql.query(
            "SELECT id FROM active_users WHERE device_token = ? FOR UPDATE",
            [.bytes(DeviceToken.numbered(0).bytes)])
        let run = try stage.start(["sweep", "--format", "json"])
        let watcher = try #require(MariaDBServer.fromEnvironment).connection(
            database: database.name)
        let deadline = ContinuousClock.now + .seconds(20)
        while try watcher.query(
            "SELECT COUNT(*) FROM information_schema.processlist WHERE db = '\(database.name)' "
                + "AND (info LIKE '%FOR UPDATE%' OR info LIKE 'UPDATE `active_users`%') "
                + "AND id <> CONNECTION_ID() AND time_ms > 200"
        ).scalar?.count == 0, ContinuousClock.now < deadline {}
        try watcher.run(
            "UPDATE pushsweep_lease SET fence = fence + 1, owner = 'sweep@b run=r home=h since=s' "
                + "WHERE name = 'active_users'")
        try database.sql.run("ROLLBACK")
        run.wait().ends(75, "sweep on b", "next=rerun why=lease")
        #expect(try database.rows(of: "pushsweep_change") == 0)
        let then = try rows()
        // The list waits on this host, and the message says to wait for the other run.
        try stage.sweep().ends(75, "held by sweep on b", "wait for it")
        #expect(try rows() == then)
        try endLease(stage)
        try stage.sweep().ends(0).app(has: ["applied": Self.tokens])
        #expect(
            try database.changedOnce(Self.tokens))
    }

    @Test(
        "a run that loses the lease while it reads applies nothing and keeps it all",
        arguments: TestEngine.available)
    func takenWhileReading(_ engine: TestEngine) throws {
        var behaviour = FeedbackBehaviour()
        behaviour.ending = .holdOpen
        let stage = try stage(engine, behaviour: behaviour)
        stage.lines.feedbackOptions = "idle-timeout: 1s"
        let run = try stage.start(["sweep", "--format", "json"])
        stage.awaitJournal()
        try stage.database.execute(
            "UPDATE pushsweep_lease SET fence = fence + 1, owner = 'sweep@b run=r home=h since=s' "
                + "WHERE name = 'active_users'")
        run.wait().ends(75, "why=lease")
        #expect(try stage.database.rows(of: "pushsweep_batch", "reports > 0") == 0)
        try endLease(stage)
        try stage.sweep().ends(0)
        try checkWhole(stage)
    }

    @Test(
        "replays of a file run one after the other too",
        arguments: TestEngine.available)
    func replay(_ engine: TestEngine) throws {
        let stage = try stage(engine)
        let file = try stage.folder.write(
            "feed.bin",
            FeedbackTuple.bytes((0..<Self.tokens).map { .dead($0, at: start + UInt32($0 % 10)) }))
        try stage.database.execute(
            "INSERT INTO pushsweep_lease (name, owner, fence, expires_at) "
                + "VALUES ('active_users', 'sweep@b run=r home=h since=s', 7, ?)",
            [stage.database.time(4_000_000_000_000)])
        try stage.run("replay", file).ends(4)
        // A dry replay of a file only reads rows, so it need not wait.
        try stage.run("replay", file, "--dry-run").ends(0)
        try endLease(stage)
        try stage.run("replay", file).ends(0)
        #expect(try stage.database.count("SELECT fence FROM pushsweep_lease") == 8)
    }
}
