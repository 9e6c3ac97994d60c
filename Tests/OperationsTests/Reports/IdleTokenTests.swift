import APNsProtocol
import Foundation
import TestSupport
import Testing
import TokenHygiene

@Suite("Idle tokens in the commands")
struct IdleTokenTests {
    /// Ten devices, of which three have not registered since 2020; a trigger writes registrations.
    private static func stage(_ engine: TestEngine) throws -> SendStage {
        let stage = try SendStage(engine)
        let now = try stage.database.store().session.databaseTime().rawValue
        try stage.database.register(0..<3, at: 1_600_000_000_000)
        try stage.database.register(3..<10, at: now - 86_400_000)
        try stage.queue(0..<10)
        stage.lines = "policy: {idle-after: 180d}"
        return stage
    }

    private static func trigger(_ engine: TestEngine) -> String {
        engine == .sqlite
            ? "CREATE TRIGGER pushsweep_registered_update AFTER UPDATE OF device_token ON active_users BEGIN "
                + "UPDATE active_users SET registered_at = strftime('%Y-%m-%d %H:%M:%f', 'now') "
                + "WHERE rowid = NEW.rowid; END"
            : "CREATE TRIGGER pushsweep_registered_update BEFORE UPDATE ON active_users FOR EACH ROW BEGIN "
                + "IF NOT (NEW.device_token <=> OLD.device_token) THEN "
                + "SET NEW.registered_at = UTC_TIMESTAMP(3); END IF; END"
    }

    @Test(
        "gate, filter, audit, explain and send leave idle rows out until they register again, and nothing marks them",
        arguments: TestEngine.available)
    func commands(_ engine: TestEngine) throws {
        let stage = try Self.stage(engine)
        for command in [
            ["send"], ["preflight", "--read-only"], ["schema", "print", "--view"],
            ["preflight", "--filter"], ["send", "--dry-run"],
        ] {
            try stage.run(command).ends(78, "policy.idle-after of 180 days needs a time that")
        }
        try stage.run("check").ends(78, "policy.idle-after of 180 days needs a time that")
        // What marks rows, or shows them, goes on.
        try stage.run("sweep").ends(0)
        try stage.run("audit").ends(0, "[idle-needs-trigger]")
        try stage.run("explain", DeviceToken.numbered(1).hex).ends(0, "would send to it")
        #expect(try stage.states() == ["pending": 10])
        try stage.database.execute(Self.trigger(engine))
        let list = try stage.folder.write(
            "tokens", (0..<10).map { DeviceToken.numbered($0).hex + "\n" }.joined())
        let gate = ["preflight", "--read-only", "--tokens-from", list]
        try stage.run(gate).ends(
            0, "10 read, 7 living, 3 idle",
            "note: idle-tokens: chat/production: 3 of 10 tokens (30.0 %) have not registered")
        func passed(_ more: String...) throws -> Int {
            return try stage.run(gate + ["--filter"] + more).ends(0).output.split(
                separator: "\n"
            ).count {
                $0.count == 64
            }
        }
        #expect(try passed() == 7)
        #expect(try passed("--memory", "0") == 7)
        #expect(try passed("--only-known") == 7)
        try stage.run("audit").ends(
            0, "3 of 10 living rows have not registered for 180 days, and",
            "Of these to idle tokens, which send skips", "[queued-to-idle]")
        try stage.run("explain", DeviceToken.numbered(1).hex).ends(
            0, "would not send to it", "has not registered for the time of policy.idle-after")
        try stage.run("explain", DeviceToken.numbered(4).hex).ends(0, "would send to it")
        try stage.send().ends(0, #""skipped":{"idle":3}"#)
        #expect(try stage.states() == ["sent": 7, "skipped": 3])
        try stage.run("sweep").ends(0)
        #expect(try stage.database.unmarked() == 10)
        // The same device registers again.
        try stage.database.update(
            "device_token = ?", [.bytes(DeviceToken.numbered(20).bytes)], of: 1)
        try stage.queue([20])
        try stage.send().ends(0)
        #expect(try stage.states() == ["sent": 8, "skipped": 3])
    }

    @Test(
        "without the setting an audit tells how many there would be, and nothing else changes",
        arguments: TestEngine.available)
    func unset(_ engine: TestEngine) throws {
        let stage = try Self.stage(engine)
        stage.lines = ""
        try stage.run("audit").ends(
            0, "3 of 10 living rows have not registered for 180 days",
            "policy.idle-after leaves them out")
        try stage.run("preflight", "--read-only").ends(0, "10 read, 10 living")
            .lacks("idle")
        try stage.send().ends(0)
        #expect(try stage.states() == ["sent": 10])
    }

    @Test("a table that is mostly idle shuts the gate and makes an audit ask for a person")
    func mostly() throws {
        let stage = try Self.stage(.sqlite)
        try stage.database.execute(Self.trigger(.sqlite))
        try stage.database.register(10..<40, at: 1_600_000_000_000)
        try stage.queue(10..<40)
        try stage.run("preflight", "--read-only").ends(
            2, "high: idle-tokens: chat/production: 33 of 40")
        try stage.run("audit").ends(0, "Not healthy: chat/production: 33 of 40 living rows")
    }
}
