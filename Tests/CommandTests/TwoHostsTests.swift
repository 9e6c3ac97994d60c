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

    /// A gateway with one list of a thousand dead tokens, all of them registered.
    private func stage(
        _ engine: TestEngine, behaviour: FeedbackBehaviour = FeedbackBehaviour()
    ) throws -> SweepStage {
        try SweepStage(engine, dead: Self.tokens, behaviour: behaviour)
    }

    /// Checks that every token was read once, marked once and counted once.
    private func checkWhole(_ stage: SweepStage) throws {
        let database = stage.database
        #expect(
            try database.count("SELECT COUNT(*) FROM active_users WHERE invalidated_at IS NOT NULL")
                == Self.tokens)
        #expect(
            try database.texts("SELECT SUM(applied), SUM(already) FROM pushsweep_feed")
                == [["\(Self.tokens)", "0"]])
        #expect(
            try database.texts("SELECT COUNT(*), COUNT(DISTINCT row_key) FROM pushsweep_change")
                == [["\(Self.tokens)", "\(Self.tokens)"]])
        #expect(
            try database.count("SELECT COUNT(*) FROM pushsweep_lease WHERE owner IS NOT NULL") == 0)
    }

    /// A stage on which a first run reads a list that does not end, with the bytes so far in its
    /// journal.
    private func readingStage(_ engine: TestEngine) throws -> (SweepStage, RunningTool) {
        var behaviour = FeedbackBehaviour()
        behaviour.ending = .holdOpen
        let stage = try stage(engine, behaviour: behaviour)
        stage.lines.feedbackOptions = "idle-timeout: 60s"
        let first = try stage.start(["sweep"])
        stage.awaitJournal()
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
        "of twenty overlapping runs one works, the others end with 4 and name it",
        arguments: TestEngine.available, [1, 2])
    func twenty(_ engine: TestEngine, _ hosts: Int) throws {
        let (stage, first) = try readingStage(engine)
        let others = try (1..<20).map { number in
            try stage.start(
                ["sweep", "--format", "json"],
                environment: hosts == 2 && number % 2 == 0 ? stage.host("b") : [:])
        }
        for (number, other) in zip(1..., others) {
            let result = other.wait()
            #expect(result.exit == 4, "\(result.error)")
            #expect(result.closingLine.contains("next=wait"))
            // Runs of one host may also overlap.
            if hosts == 2 && number % 2 == 0 && !result.error.contains("/lock;") {
                #expect(result.error.contains("held by sweep on "), "\(result.error)")
            }
        }
        #expect(try stage.database.count("SELECT COUNT(*) FROM pushsweep_feed") == 0)
        first.signal(SIGTERM)
        #expect(first.wait().exit == 75)
        // One connection: no other run has asked the gateway.
        #expect(stage.gateway.records(atLeast: 1).count == 1)
        stage.lines.feedbackOptions = "idle-timeout: 200ms"
        let next = try stage.sweep()
        #expect(next.exit == 0, "\(next.error)")
        try checkWhole(stage)
    }

    @Test(
        "runs that start at the same moment lose and double nothing",
        arguments: TestEngine.available)
    func atOnce(_ engine: TestEngine) throws {
        let stage = try stage(engine)
        let runs = try (0..<20).map { number in
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
            try stage.start(["sweep", "--format", "json"], environment: stage.host("b")).wait()
        }
        let early = try onB()
        #expect(early.exit == 4 && early.error.contains(" until "), "\(early.error)")
        // A dry run changes nothing, but would read the gateway too.
        let dry = try stage.start(["sweep", "--dry-run"], environment: stage.host("b")).wait()
        #expect(dry.exit == 4, "\(dry.error)")
        #expect(stage.gateway.records.count <= 1)
        try endLease(stage)
        #expect(try onB().exit == 0)
        // The bytes read belong to the first host, which continues with them.
        let next = try stage.sweep()
        #expect(next.exit == 0, "\(next.error)")
        #expect(next.app()["resumed"] as? Bool == true)
        try checkWhole(stage)
    }

    @Test(
        "the next run takes over at once after a killed run of its own host",
        arguments: TestEngine.available)
    func sameHost(_ engine: TestEngine) throws {
        let stage = try killedStage(engine)
        let next = try stage.sweep()
        #expect(next.exit == 0, "\(next.error)")
        try checkWhole(stage)
    }

    @Test(
        "a run that loses the lease stops before its next commit, with 75",
        .enabled(if: MariaDBServer.isAvailable, Comment(rawValue: MariaDBServer.absence)),
        arguments: ["mark", "delete"])
    func takenAway(_ action: String) throws {
        let stage = try stage(.mariaDB)
        stage.lines.policy = "policy: {action: \(action)}"
        let database = stage.database
        func rows() throws -> [[[String]]] {
            try ["active_users", "pushsweep_change", "pushsweep_feed"].map {
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
                + "AND info LIKE '%FOR UPDATE%' AND id <> CONNECTION_ID() AND time_ms > 200"
        ).scalar?.count == 0, ContinuousClock.now < deadline {}
        try watcher.run(
            "UPDATE pushsweep_lease SET fence = fence + 1, owner = 'sweep@b run=r home=h since=s' "
                + "WHERE name = 'active_users'")
        try database.sql.run("ROLLBACK")
        let result = run.wait()
        #expect(result.exit == 75, "\(result.error)")
        #expect(result.error.contains("sweep on b"), "\(result.error)")
        #expect(result.closingLine.hasSuffix("next=rerun why=lease"), "\(result.closingLine)")
        #expect(try database.count("SELECT COUNT(*) FROM pushsweep_change") == 0)
        let then = try rows()
        // The evidence stays on this host, and the message says to wait for the other one.
        let waiting = try stage.sweep()
        #expect(waiting.exit == 75, "\(waiting.error)")
        #expect(try rows() == then)
        try endLease(stage)
        let next = try stage.sweep()
        #expect(next.exit == 0, "\(next.error)")
        #expect(next.app()["applied"] as? Int == Self.tokens)
        #expect(
            try database.texts("SELECT COUNT(*), COUNT(DISTINCT row_key) FROM pushsweep_change")
                == [["\(Self.tokens)", "\(Self.tokens)"]])
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
        let result = run.wait()
        #expect(result.exit == 75 && result.closingLine.contains("why=lease"), "\(result.error)")
        #expect(try stage.database.count("SELECT COUNT(*) FROM pushsweep_feed") == 0)
        try endLease(stage)
        #expect(try stage.sweep().exit == 0)
        try checkWhole(stage)
    }

    @Test("replays of a file run one after the other too", arguments: TestEngine.available)
    func replay(_ engine: TestEngine) throws {
        let stage = try stage(engine)
        let file = try stage.folder.write(
            "feed.bin",
            FeedbackTuple.bytes((0..<Self.tokens).map { .dead($0, at: start + UInt32($0 % 10)) }))
        try stage.database.execute(
            "INSERT INTO pushsweep_lease (name, owner, fence, expires_at) "
                + "VALUES ('active_users', 'sweep@b run=r home=h since=s', 7, ?)",
            [stage.database.time(4_000_000_000_000)])
        let held = try stage.run("replay", file)
        #expect(held.exit == 4, "\(held.error)")
        // A dry replay of a file only reads rows, so it need not wait.
        #expect(try stage.run("replay", file, "--dry-run").exit == 0)
        try endLease(stage)
        let next = try stage.run("replay", file)
        #expect(next.exit == 0, "\(next.error)")
        #expect(try stage.database.count("SELECT fence FROM pushsweep_lease") == 8)
    }
}
