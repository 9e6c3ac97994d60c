import APNsProtocol
import Foundation
import Operations
import TestSupport
import Testing

@Suite("pushsweep audit")
struct AuditTests {
    private static func report(_ result: ToolResult) throws -> AuditReport {
        try JSONDecoder().decode(AuditReport.self, from: Data(result.output.utf8))
    }

    @Test(
        "an account that may only read gets the whole report, and no row changes",
        arguments: TestEngine.available)
    func whole(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, dead: 6)
        let before = try stage.run("audit", "--format", "json")
        #expect(before.exit == 0, "\(before.error)")
        let first = try Self.report(before)
        #expect(first.apps.count == 1 && first.apps[0].tokens.stale == 0)
        #expect(first.runs.lastGoodSweep == nil)
        #expect(first.findings.contains { $0.rule == "no-good-sweep" && $0.severity == .medium })

        _ = try stage.sweep()
        let rows = try stage.database.marks()
        let result = try stage.run("audit", "--deep", "--format", "json")
        #expect(result.exit == 0 && result.error == "", "\(result.error)")
        let report = try Self.report(result)
        let app = try #require(report.apps.first)
        #expect(app.tokens.stale == 6)
        #expect(app.tokens.rows == first.apps[0].tokens.rows)
        #expect(app.evidence.map(\.applied) == [6] && app.evidence[0].source == "feedback")
        #expect(app.staleAges.reduce(0) { $0 + $1.count } == 6)
        #expect(report.runs.endings == [NamedCount("sweep 0", 1)])
        let run = try #require(report.runs.changing.first)
        #expect(run.rows == 6 && !run.undone && run.by.contains(" at "))
        #expect(report.healthy && report.headline.hasPrefix("Healthy: "))
        #expect(report.gaps == [])
        #expect(app.deep != nil)
        #expect(try stage.database.marks() == rows)

        #expect(try stage.run("undo", run.run).exit == 0)
        let undone = try Self.report(try stage.run("audit", "--format", "json"))
        #expect(undone.runs.changing.first { $0.run == run.run }?.undone == true)
    }

    @Test("the account of an audit needs SELECT alone")
    func selectOnly() throws {
        guard MariaDBServer.fromEnvironment != nil else { return }
        let stage = try SweepStage(.mariaDB, dead: 3)
        _ = try stage.sweep()
        let account = try #require(try ReadingAccount(of: stage.database))
        try account.grantSelect()
        let result = try stage.start(
            ["audit", "--deep", "--format", "json"],
            environment: account.environment
        ).wait()
        #expect(result.exit == 0, "\(result.error)")
        let report = try Self.report(result)
        #expect(report.gaps == [] && report.apps.first?.tokens.stale == 3)
    }

    @Test("several files in several formats come from one run, and a baseline says what changed")
    func files() throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        let names = ["report.html", "report.json", "report.csv", "report.md", "report.txt"]
        let paths = names.map(stage.folder.file)
        let options = paths.flatMap { ["--output", $0] }
        let result = try stage.start(["audit"] + options).wait()
        #expect(result.exit == 0 && result.output == "", "\(result.error)")
        let starts = ["<!DOCTYPE html>", "{", "section", "# ", ""]
        for (path, start) in zip(paths, starts) {
            let text = try String(contentsOfFile: path, encoding: .utf8)
            #expect(text.hasPrefix(start) && text.hasSuffix("\n"), "\(path)")
        }
        _ = try stage.sweep()
        let later = try Self.report(
            try stage.run("audit", "--baseline", paths[1], "--format", "json"))
        let changes = try #require(later.changes)
        #expect(
            changes.contains(
                AuditChange(object: "chat/production", figure: "stale", before: 0, after: 3)))
        let refused = try stage.run("audit", "--baseline", paths[2])
        #expect(refused.exit == 64 && refused.error.contains("it is no report of an audit"))
        let unwritable = try stage.run("audit", "--output", "/nowhere/report.html")
        #expect(unwritable.exit == 73 && unwritable.error.contains("/nowhere/report.html"))
        let nameless = try stage.run("audit", "--output", "report")
        #expect(nameless.exit == 64)
    }

    @Test("users without a living token are listed for whoever may read the file")
    func users() throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        _ = try stage.sweep()
        try stage.database.execute(
            "UPDATE active_users SET user_id = '=user ' || id WHERE invalidated_at IS NOT NULL")
        let path = stage.folder.file("users.csv")
        let result = try stage.run("audit", "--deep", "--users-without-token", path)
        #expect(result.exit == 0, "\(result.error)")
        let lines = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n")
        #expect(lines.first == "app,environment,user" && lines.count == 4, "\(lines)")
        // A spreadsheet would run a cell that begins with a sign.
        #expect(lines.dropFirst().allSatisfy { $0.contains(",\"'=user ") }, "\(lines)")
        var facts = stat()
        #expect(stat(path, &facts) == 0 && facts.st_mode & 0o777 == 0o600)
        let refused = try stage.run("audit", "--users-without-token", path)
        #expect(refused.exit == 64)
    }

    @Test("an open hold makes the report unhealthy, and a decision is listed with who took it")
    func holds() throws {
        let stage = try SweepStage(.sqlite, dead: 30)
        stage.lines.limits = "guard: {floor: 7}"
        #expect(try stage.sweep().exit == 3)
        let held = try Self.report(try stage.run("audit", "--format", "json"))
        #expect(!held.healthy && held.headline.hasPrefix("Not healthy: chat/production: "))
        #expect(held.holds.map(\.state) == ["open"] && held.holds[0].tuples == 30)
        // Where the journal cannot be copied the hold is told of all the same.
        let blind = try Self.report(
            try stage.run(
                "audit", "--format", "json",
                environment: ["TMPDIR": try stage.folder.write("no-folder", "")]))
        #expect(blind.holds.map(\.state) == ["open"] && blind.holds[0].tuples == 30)
        #expect(blind.gaps.contains { $0.contains("its numbers of today are not known") })
        #expect(!blind.gaps.contains { $0.hasPrefix("journal in") }, "\(blind.gaps)")
        let list = try stage.run("holds", "list", "--format", "json")
        let hold = try #require((list.json["holds"] as? [[String: Any]])?.first?["hold"] as? String)
        #expect(try stage.run("holds", "discard", hold, "--reason", "wrong list").exit == 0)
        let decided = try Self.report(try stage.run("audit", "--format", "json"))
        #expect(decided.holds.map(\.state) == ["discarded"])
        #expect(decided.holds[0].reason == "wrong list")
        #expect(decided.holds[0].decision?.contains(", 20") == true)
        #expect(decided.holds[0].held == held.holds[0].held)
        #expect(decided.holds[0].cause == held.holds[0].cause)
    }

    @Test("a release is listed with who took it, why, and what had been held")
    func released() throws {
        let stage = try SweepStage(.sqlite, dead: 30)
        stage.lines.limits = "guard: {floor: 7}"
        #expect(try stage.sweep().exit == 3)
        let held = try Self.report(try stage.run("audit", "--format", "json")).holds[0]
        let list = try stage.run("holds", "list", "--format", "json")
        let hold = try #require((list.json["holds"] as? [[String: Any]])?.first?["hold"] as? String)
        let shown = try stage.run("holds", "show", hold, "--format", "json")
        let digest = try #require(shown.json["digest"] as? String)
        let refused = try stage.run("holds", "release", digest, "--reason", "two\nlines")
        #expect(refused.exit == 64)
        let released = try stage.run(
            "holds", "release", digest, "--reason", "the first sweep", "--format", "json")
        #expect(released.exit == 0, "\(released.error)")
        #expect(released.json["reason"] as? String == "the first sweep")
        let holds = try Self.report(try stage.run("audit", "--format", "json")).holds
        #expect(holds.map(\.state) == ["released"] && holds[0].tuples == 30)
        #expect(holds[0].held == held.held && holds[0].cause == held.cause)
        #expect(holds[0].reason == "the first sweep")
        #expect(holds[0].decision?.contains(", 20") == true)
    }
}
