import APNsProtocol
import Database
import TestSupport
import Testing
import TokenTable

@Suite("Marks beside the table of an app that was renamed")
struct StrandedMarksTests {
    @Test(
        "check, a sweep, an audit and the gate say that they count no more; marks of another table say nothing",
        arguments: TestEngine.available)
    func renamed(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, dead: 3)
        stage.lines.activeUsers = "  active-users: {app: none, invalidated-at: none}"
        try stage.swept().ends(0)
        #expect(try stage.database.rows(of: "pushsweep_invalid") == 3)
        let words =
            "pushsweep_invalid has marks of app 'talk' and none of 'chat', so no token counts"
        let gate = ["preflight", "--read-only", "--app", "chat", "--fail-on", "high"]
        func outputs() throws -> [String] {
            let jobs = [["check"], ["audit"], gate]
            // The warnings of a run are those of the program.
            let swept = try stage.run(["sweep"], under: ["/usr/bin/env"]).ends(0)
            return [swept.error] + (try jobs.map { try stage.run($0).output })
        }
        #expect(try outputs().allSatisfy { !$0.contains("pushsweep_invalid has marks") })
        // As if the app had had another name when it was swept.
        try stage.database.execute("UPDATE pushsweep_invalid SET app = 'talk'")
        try stage.database.execute("UPDATE pushsweep_part SET app = 'talk'")
        for output in try outputs() { #expect(output.unwrapped.contains(words), "\(output)") }
        try stage.run(gate).ends(2, "marks-of-no-app")
        try stage.run("audit").says("Not healthy")
        // Beside a mark of its own it is told, and the gate stays open: another host may know the app.
        try stage.database.execute(
            "UPDATE pushsweep_invalid SET app = 'chat' WHERE token = ?",
            [.bytes(DeviceToken.numbered(1).bytes)])
        try stage.run("check").says("marks of app 'talk' beside those of 'chat'")
        try stage.run(gate).ends(0, "marks-of-no-app")
        try stage.database.execute("UPDATE pushsweep_invalid SET app = 'chat'")
        #expect(try outputs().allSatisfy { !$0.contains("pushsweep_invalid has marks") })
        try stage.database.execute("UPDATE pushsweep_invalid SET app = 'talk'")
        // Where rows have no environment either, the one of the settings is part of the name.
        try stage.database.execute(
            "UPDATE pushsweep_invalid SET app = 'chat', environment = 'sandbox'")
        try stage.database.execute(
            "UPDATE pushsweep_part SET app = 'chat', environment = 'sandbox'")
        #expect(try outputs().allSatisfy { !$0.contains("pushsweep_invalid has marks") })
        stage.lines.activeUsers =
            "  active-users: {app: none, environment: none, invalidated-at: none}"
        try stage.run("check").says("marks of app 'chat/sandbox' and none of 'chat/production'")
        stage.lines.activeUsers = "  active-users: {app: none, invalidated-at: none}"
        for table in ["pushsweep_invalid", "pushsweep_part"] {
            try stage.database.execute(
                "UPDATE \(table) SET app = 'talk', environment = 'production'")
        }
        // Settings of another host may name the app, where rows have one.
        let lines = stage.lines
        stage.lines.activeUsers = "  active-users: {invalidated-at: none}"
        #expect(try outputs().allSatisfy { !$0.contains("pushsweep_invalid has marks") })
        stage.lines = lines
        try stage.database.execute("UPDATE pushsweep_part SET table_name = 'other'")
        #expect(try outputs().allSatisfy { !$0.contains("pushsweep_invalid has marks") })
    }

    @Test(
        "an upgrade adds no column of a reason where marks stand beside the table",
        arguments: TestEngine.available)
    func upgrade(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 0..<2)
        for column in ["invalidated_at", "invalid_reason"] {
            try database.execute("ALTER TABLE active_users DROP COLUMN \(column)")
        }
        let missing = try database.store().missingSchema(upgrading: true).statements
        #expect(missing.contains { $0.contains("invalid_reason") })
        database.settings.mapping.invalidatedAt.column = .absent
        let beside = try database.store().missingSchema(upgrading: true).statements
        #expect(beside.isEmpty, "\(beside)")
    }
}

extension String {
    /// The text with its line breaks, and the blanks after them, as one blank each.
    fileprivate var unwrapped: String {
        split(whereSeparator: \.isWhitespace).joined(separator: " ")
    }
}
