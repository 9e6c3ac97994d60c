import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing

private let before: Int64 = 1_500_000_000_000
private let marked: Int64 = 1_600_000_000_000

@Suite("policy.delete-after", .serialized)
struct GraceCommandTests {
    private func rows(_ stage: SweepStage, app: String = "chat") throws -> Int {
        try stage.database.count("SELECT COUNT(*) FROM active_users WHERE app_id = ?", [.text(app)])
    }

    @Test("a sweep removes rows of its chosen apps and of no other")
    func chosenApps() throws {
        let stage = try SweepStage(feeds: [.tuples([]), .tuples([]), .tuples([])])
        stage.lines.policy = "policy: {action: delete, delete-after: 7d}"
        stage.lines.apps = """
              - name: talk
                topic: com.example.talk
                environment: production
            """
        for app in ["chat", "talk"] {
            for number in 0..<10 {
                try stage.database.register(.numbered(number), at: before, app: app, mark: marked)
            }
        }
        let trial = try stage.sweep("--dry-run", "--app", "chat")
        let would = (trial.json["apps"] as? [[String: Any]] ?? []).filter {
            $0["grace"] as? Bool == true
        }.compactMap { $0["app"] as? String }
        #expect(would == ["chat"], "\(trial.output)")
        try stage.sweep("--app", "chat").ends(0)
        #expect(try rows(stage) == 0)
        #expect(try rows(stage, app: "talk") == 10)
        try stage.sweep().ends(0)
        #expect(try rows(stage, app: "talk") == 0)
    }

    @Test(
        "the database's clock counts the grace period, and the retention of purge too",
        .enabled(
            if: WallClockOfItsOwn.library != nil && TestEngine.available.contains(.mariaDB),
            Comment(rawValue: WallClockOfItsOwn.absence)))
    func hostAhead() throws {
        let now = UInt32(Date().timeIntervalSince1970)
        let stage = try SweepStage(
            .mariaDB,
            feeds: [.tuples((0..<20).map { .dead($0, at: now - 3_600) }), .tuples([]), .tuples([])])
        stage.lines.limits = SweepStage.anyNumber
        stage.lines.policy = "policy: {action: delete, delete-after: 7d, keep-ledger: 8d}"
        try stage.database.register(0..<20, at: before)
        let clock = try WallClockOfItsOwn()
        try stage.sweep().ends(0)
        try clock.set("+20d")
        let ahead = try stage.json("sweep", environment: clock.environment)
        #expect(ahead.exit == 0 || ahead.exit == 69, "\(ahead.error)")
        #expect(!ahead.output.contains("\"grace\""), "\(ahead.output)")
        #expect(try rows(stage) == 20)
        try stage.json("purge", environment: clock.environment).ends(0).json(has: ["changes": 0])
        #expect(try stage.database.rows(of: "pushsweep_change", "action = 'mark'") == 20)
    }
}
