import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

@Suite("Triggers of the application")
struct ForeignTriggerTests {
    /// Triggers by engine, and whether they write the time of a registration.
    static let triggers: [(TestEngine, String, Bool)] = [
        (
            .mariaDB,
            "AFTER UPDATE ON devices FOR EACH ROW INSERT INTO audit VALUES (OLD.id, OLD.registered_at)",
            false
        ),
        (
            .mariaDB,
            "BEFORE UPDATE ON devices FOR EACH ROW BEGIN IF NEW.registered_at = OLD.registered_at "
                + "THEN SET NEW.nick = 'registered_at', @a = NEW.registered_at; END IF; END", false
        ),
        (
            .mariaDB,
            "BEFORE UPDATE ON devices FOR EACH ROW SET NEW.nick = CONCAT('a', ';'), "
                + "NEW . `Registered_At` := UTC_TIMESTAMP()", true
        ),
        (
            .sqlite,
            "AFTER UPDATE ON devices BEGIN INSERT INTO audit VALUES (OLD.id, OLD.registered_at); END",
            false
        ),
        (
            .sqlite,
            "AFTER UPDATE ON devices BEGIN UPDATE audit SET registered_at = 1 WHERE id = NEW.id; END",
            false
        ),
        (
            .sqlite,
            "AFTER UPDATE OF nick ON devices BEGIN UPDATE devices SET registered_at = datetime('now'); "
                + "END", false
        ),
        (
            .sqlite,
            "AFTER UPDATE OF nick, [Device_Token] ON devices BEGIN UPDATE OR IGNORE \"devices\" "
                + "SET nick = 'registered_at', registered_at = datetime('now') WHERE id = NEW.id; END",
            true
        ),
    ].filter { TestEngine.available.contains($0.0) }

    @Test("check takes a trigger for one that writes the time only if it does", arguments: triggers)
    func writers(_ engine: TestEngine, _ trigger: String, _ writes: Bool) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.sql.run("CREATE TABLE audit (id INTEGER, registered_at DATETIME NULL)")
        try database.sql.run(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(64), "
                + "nick VARCHAR(20), registered_at DATETIME NULL)")
        try database.execute(
            "INSERT INTO devices VALUES (1, ?, 'a', '2024-01-01 00:00:00')",
            [.text(DeviceToken.numbered(1).hex)])
        try database.sql.run("CREATE TRIGGER audit_devices \(trigger)")
        let findings = try database.store { $0.table = "devices" }
            .examine(.apply(RemovalPolicy())).findings
        #expect(
            findings.contains {
                $0.failure == nil
                    && $0.sentence.hasPrefix("trigger audit_devices of devices writes ")
            } == writes)
        #expect(
            findings.contains {
                $0.severity == .medium && $0.sentence.contains("days old")
            } != writes)
    }

    @Test(
        "a trigger that is made while a run works enters no change in the ledger that it takes back",
        arguments: TestEngine.available)
    func madeMeanwhile(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 0..<400)
        let store = try database.store(pacing: hurried())
        var chunks = 0
        let progress = try store.apply(
            (0..<400).map { .dead($0, at: start + 60_000) },
            report: { _ in
                chunks += 1
                guard chunks == 1 else { return }
                do {
                    try database.execute(
                        engine == .mariaDB
                            ? "CREATE TRIGGER back BEFORE UPDATE ON active_users FOR EACH ROW "
                                + "SET NEW.invalidated_at = NULL"
                            : "CREATE TRIGGER back AFTER UPDATE ON active_users BEGIN UPDATE "
                                + "active_users SET invalidated_at = NULL WHERE id = NEW.id; END")
                } catch {
                    Issue.record(error)
                }
            })
        let marked = try database.marked
        #expect(chunks > 1 && marked < 400)
        #expect(progress.counts.applied == marked)
        #expect(try database.rows(of: "pushsweep_change", "action = 'mark'") == marked)
    }

    @Test(
        "a trigger for removed rows that is made while a run works ends it, and nothing runs it",
        arguments: TestEngine.available)
    func removalMeanwhile(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine)
        try database.execute("CREATE TABLE gone (id INTEGER)")
        try database.register(0..<400, at: start)
        let store = try database.store(pacing: hurried())
        var left = 0
        expectFailure(.configuration, "told") {
            try store.apply(
                (0..<400).map { .dead($0, at: start + 60_000) },
                policy: RemovalPolicy(action: .delete),
                report: { _ in
                    guard left == 0 else { return }
                    do {
                        left = try database.rows()
                        try database.execute(
                            "CREATE TRIGGER told AFTER DELETE ON active_users FOR EACH ROW "
                                + (engine == .sqlite ? "BEGIN " : "")
                                + "INSERT INTO gone VALUES (1)"
                                + (engine == .sqlite ? "; END" : ""))
                    } catch {
                        Issue.record(error)
                    }
                })
        }
        #expect(try database.rows() == left && left > 0)
        #expect(try database.rows(of: "gone") == 0)
    }
}
