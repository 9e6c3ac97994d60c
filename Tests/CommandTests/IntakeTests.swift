import APNsProtocol
import Database
import Foundation
import TestSupport
import Testing
import TokenHygiene
import TokenTable

/// A sweep without a feedback gateway, whose evidence comes from another sender.
final class IntakeStage: ToolStage {
    let database: TokenDatabase
    let folder: TemporaryFolder
    private let file: String

    init(_ engine: TestEngine, floor: Int = 1_000_000, others: [String] = []) throws {
        database = try TokenDatabase(engine)
        try database.createOwnSchema()
        folder = try TemporaryFolder()
        file = try folder.write(
            "pushsweep.yaml",
            """
            state: \(folder.file("state"))
            store:
              \(try database.settingsLines(in: folder))
            guard: {floor: \(floor)}
            apps:
              - {name: chat, topic: com.example.chat, environment: production}

            """
                + others.map {
                    "  - {name: \($0), topic: com.example.\($0), environment: production}\n"
                }.joined())
    }

    func settings() -> String { file }

    /// The environment variables of a run on another host.
    func host(_ name: String) -> [String: String] {
        ["PUSHSWEEP_STATE": folder.file("state-\(name)")]
    }

    /// Inserts a report as another program would.
    func report(
        _ token: String, status: Int? = 410, reason: String? = nil,
        time: Int64? = 1_700_000_000_000, app: String = "chat",
        on connection: (any SQLConnection)? = nil
    ) throws {
        try database.report(
            token, status: status, reason: reason, time: time, app: app, on: connection)
    }

    var waiting: Int {
        get throws { try database.rows(of: "pushsweep_evidence") }
    }

    /// Lets the server close the connections of the runs; returns how many.
    func cutOff() throws -> Int {
        // The other table of MySQL fails (3854) where a statement has bytes that are no text.
        let others =
            MariaDBServer.isMariaDB
            ? "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = '\(database.name)' AND "
                + "ID <> CONNECTION_ID()"
            : "SELECT PROCESSLIST_ID FROM performance_schema.threads WHERE PROCESSLIST_DB = "
                + "'\(database.name)' AND PROCESSLIST_ID <> CONNECTION_ID()"
        var count = 0
        for row in try database.texts(others) {
            do {
                try database.execute("KILL CONNECTION \(row[0])")
                count += 1
            } catch {
                // It closed by itself meanwhile.
            }
        }
        return count
    }

    /// The sum of a count over all batches of some sources; of 410s without one.
    func sum(_ column: String, suspects: Bool = false) throws -> Int {
        try database.count(
            "SELECT COALESCE(SUM(\(column)), 0) FROM pushsweep_batch WHERE source "
                + "\(suspects ? "" : "NOT ")IN ('BadDeviceToken', 'DeviceTokenNotForTopic', 'Accepted')"
        )
    }
}

func hex(_ number: Int) -> String { DeviceToken.numbered(number).hex }

@Suite("Evidence from other senders")
struct IntakeTests {
    @Test(
        "a sweep without a gateway takes the rows in, marks what is dead and keeps what came back",
        arguments: TestEngine.available)
    func takesRows(_ engine: TestEngine) throws {
        let stage = try IntakeStage(engine)
        try stage.database.register(0..<3, at: 1_600_000_000_000)
        try stage.database.register(.numbered(3), at: 1_750_000_000_000)
        try stage.report(hex(0))
        try stage.report("<\(hex(1).uppercased())>", reason: "ExpiredToken")
        try stage.report(hex(2), status: 400, reason: "BadDeviceToken")
        try stage.report(hex(3), reason: "Unregistered")
        try stage.report(hex(2), status: 200)

        let result = try stage.json("sweep").ends(0)
        #expect(try stage.waiting == 0)
        #expect(try stage.marked == 2)
        let intake = try #require(result.json["intake"] as? [String: Any])
        #expect(intake["reports"] as? Int == 5)
        #expect(intake["evidence"] as? Int == 3)
        #expect(intake["suspects"] as? Int == 1)
        #expect(intake["other"] as? Int == 1)
        #expect(try stage.sum("applied") == 2)
        #expect(try stage.sum("newer") == 1)
        let reasons = try stage.database.texts(
            "SELECT DISTINCT invalid_reason FROM active_users WHERE invalidated_at IS NOT NULL "
                + "ORDER BY invalid_reason")
        #expect(reasons == [["ExpiredToken"], ["Unregistered"]])
        try stage.run("sweep").ends(0)

        try stage.json("undo", "--since", "2000-01-01T00:00:00Z").ends(0)
        #expect(try stage.marked == 0)
    }

    @Test(
        "what cannot be used goes to quarantine with its cure and blocks nothing",
        arguments: TestEngine.available)
    func quarantines(_ engine: TestEngine) throws {
        let stage = try IntakeStage(engine)
        try stage.database.register(0..<1, at: 1_600_000_000_000)
        try stage.report("not a token")
        try stage.report(hex(5), time: nil)
        try stage.report(hex(6), app: "unknown")
        try stage.database.execute(
            "UPDATE pushsweep_evidence SET created_at = '2026-01-01 00:00:00' WHERE app = 'unknown'"
        )
        try stage.report(hex(7), time: 1_700_000_000)
        try stage.report(hex(8), reason: "BadDeviceToken")
        try stage.report(hex(0))

        let result = try stage.json("sweep").ends(65)
        #expect(try stage.waiting == 0)
        #expect(try stage.marked == 1)
        let intake = try #require(result.json["intake"] as? [String: Any])
        #expect(intake["quarantined"] as? Int == 5)
        #expect(intake["reports"] as? Int == 6 && intake["evidence"] as? Int == 1)
        let shown = try stage.run("quarantine", "list").says(" no app from ")
        for cure in [
            "not hexadecimal text", "give the timestamp of the 410", "name it under apps",
            "seems to be in seconds", "contradict each other",
        ] {
            #expect(shown.output.contains(cure), "\(shown.output)")
        }
        try stage.run("sweep").ends(0)
    }

    @Test(
        "a quarantined row comes back by export and import, also where its token is raw bytes",
        arguments: TestEngine.available)
    func comesBack(_ engine: TestEngine) throws {
        let stage = try IntakeStage(engine)
        let token = try #require(DeviceToken([UInt8](repeating: 0xC9, count: 32)))
        try stage.database.register(token, at: 1_600_000_000_000)
        try stage.database.register(0..<1, at: 1_600_000_000_000)
        try stage.database.execute(
            "INSERT INTO pushsweep_evidence (app, device_token, timestamp_ms) VALUES (?, ?, ?)",
            [.text("chat"), .bytes(token.bytes), .integer(1_700_000_000_000)])
        try stage.database.execute(
            "INSERT INTO pushsweep_evidence (app, device_token, sent_at) VALUES (?, ?, ?)",
            [.text("typo"), .text(hex(0)), .text("2023-11-14 22:13:20.000")])
        try stage.database.execute(
            "UPDATE pushsweep_evidence SET created_at = '2026-01-01 00:00:00'")
        try stage.run("sweep").ends(65)
        #expect(try stage.marked == 0)
        let feeds = try stage.json("quarantine", "list").json["batches"] as? [[String: Any]]
        let feed = try #require(feeds?.first?["batch"] as? String)
        let rows = stage.folder.file("rows.jsonl")
        try stage.run("quarantine", "export", feed, rows).ends(0)
        try stage.run("import", rows, "--from", "jsonl").ends(0)
        #expect(try stage.marked == 2)
    }

    @Test(
        "a dry run forecasts the waiting rows and takes none",
        arguments: TestEngine.available)
    func dryRun(_ engine: TestEngine) throws {
        let stage = try IntakeStage(engine)
        try stage.database.register(0..<2, at: 1_600_000_000_000)
        for number in 0..<2 { try stage.report(hex(number)) }
        let result = try stage.json("sweep", "--dry-run").ends(0)
        let apps = try #require(result.json["apps"] as? [[String: Any]])
        #expect(apps.first?["applied"] as? Int == 2)
        #expect((result.json["intake"] as? [String: Any])?["waiting"] as? Int == 2)
        #expect(try stage.waiting == 2)
        #expect(try stage.marked == 0)
        try stage.run("sweep").ends(0)
        #expect(try stage.marked == 2)
    }

    @Test(
        "a row whose transaction commits after its neighbours is not waited for, and taken all the same",
        arguments: TestEngine.available.filter { $0 == .mariaDB })
    func outOfOrder(_ engine: TestEngine) throws {
        let stage = try IntakeStage(engine)
        try stage.database.register(0..<60, at: 1_600_000_000_000)
        let slow = stage.database.driver()
        try slow.connect()
        try slow.begin()
        for number in 0..<60 {
            let isOpen = number % 20 == 0 || number == 59
            try stage.report(hex(number), on: isOpen ? slow : nil)
        }
        let clock = ContinuousClock.now
        try stage.run("sweep").ends(0)
        #expect(ContinuousClock.now - clock < .seconds(10))
        #expect(try stage.marked == 56)
        try slow.commit()
        try stage.run("sweep").ends(0)
        #expect(try stage.marked == 60)
        #expect(try stage.waiting == 0)
    }
}

@Suite("A killed intake", .serialized)
struct IntakeKillTests {
    /// Kills per engine; the printed seed and this number repeat a run.
    private static let kills = Series.length("PUSHSWEEP_TEST_KILLS", short: 16, long: 60) / 2

    @Test(
        "killed and cut off, two hosts count each report once, and a follower sees each change once",
        arguments: TestEngine.available)
    func randomKills(_ engine: TestEngine) throws {
        var random = SeededGenerator("intake kills on \(engine)")
        let stage = try IntakeStage(engine)
        var follower = ChangeReader(stage: stage)
        var (reported, open, cutOff) = (0, 0, 0)
        let batch = 400
        let clock = ContinuousClock.now
        try stage.run("sweep", environment: stage.host("one")).ends(0)
        let length = ContinuousClock.now - clock
        for round in 0..<Self.kills {
            try stage.database.register(reported..<reported + batch, at: 1_600_000_000_000)
            let slow = stage.database.driver()
            try slow.connect()
            // One half commits while the sweep is at work, with lower numbers than the other.
            if engine == .mariaDB { try slow.begin() }
            for number in 0..<batch / 2 { try stage.report(hex(reported + number), on: slow) }
            for number in batch / 2..<batch { try stage.report(hex(reported + number)) }
            try stage.report(hex(reported), status: 400, reason: "BadDeviceToken")
            let host = round % 2 == 0 ? "one" : "two"
            let reading = try follower.start()
            let run = try stage.start(["sweep"], environment: stage.host(host))
            if engine == .mariaDB { try slow.commit() }
            Self.pause(length * Double.random(in: 0.2...1.6, using: &random))
            // A connection that the server closes may have committed without an answer.
            if engine == .mariaDB, round % 3 == 0, try stage.cutOff() > 0 {
                cutOff += 1
            } else {
                run.signal(SIGKILL)
            }
            _ = run.wait()
            reported += batch
            let waiting =
                "SELECT COUNT(*) FROM pushsweep_batch WHERE state IN ('waiting', 'applying')"
            if try stage.database.count(waiting) > 0 { open += 1 }
            reading.signal(SIGKILL)
            try follower.take(reading.wait())
            // A killed run's lease ends by itself; until then the other host ends with 4.
            try stage.database.execute("UPDATE pushsweep_lease SET owner = NULL, expires_at = NULL")
        }
        print(
            "intake kills on \(engine): \(open) of \(Self.kills) between intake and judgement, \(cutOff) "
                + "connections cut")
        if Self.kills >= 100 { #expect(open > 0) }
        for host in ["one", "two", "one"] {
            try stage.json("sweep", environment: stage.host(host)).ends(
                0, for: "seed \(random.seed)")
        }
        #expect(try stage.waiting == 0, "seed \(random.seed)")
        #expect(try stage.marked == reported, "seed \(random.seed)")
        #expect(try stage.sum("applied") == reported, "seed \(random.seed)")
        #expect(try stage.sum("already") == 0, "seed \(random.seed)")
        // The counts of killed runs are exact too.
        #expect(try stage.sum("reports") == reported, "seed \(random.seed)")
        #expect(try stage.sum("reports", suspects: true) == Self.kills, "seed \(random.seed)")
        #expect(try stage.database.rows(of: "pushsweep_report") == reported, "seed \(random.seed)")
        let rest = try follower.start()
        try follower.take(rest.wait())
        #expect(follower.tokens.count == reported, "seed \(random.seed)")
        #expect(Set(follower.tokens).count == reported, "seed \(random.seed)")
    }

    private static func pause(_ duration: Duration) {
        let (seconds, attoseconds) = duration.components
        var pause = timespec(tv_sec: Int(seconds), tv_nsec: Int(attoseconds / 1_000_000_000))
        nanosleep(&pause, nil)
    }
}

/// A follower that remembers the cursor of the last whole line.
private struct ChangeReader {
    private struct Change: Decodable {
        let token: String
        let cursor: String
    }

    let stage: IntakeStage
    private var cursor = "n0"
    private(set) var tokens: [String] = []

    init(stage: IntakeStage) { self.stage = stage }

    func start() throws -> RunningTool {
        try stage.start(
            ["changes", "--since", cursor, "--whole-tokens"], environment: stage.host("follower"))
    }

    mutating func take(_ result: ToolResult) throws {
        guard let end = result.output.lastIndex(of: "\n") else { return }
        for line in result.output[..<end].split(separator: "\n") {
            let change = try JSONDecoder().decode(Change.self, from: Data(line.utf8))
            tokens.append(change.token)
            cursor = change.cursor
        }
    }
}
