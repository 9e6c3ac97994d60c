import APNsProtocol
import Foundation
import Glibc
import TestSupport
import Testing

@testable import Looks
@testable import Operations

@Suite("An audit")
struct AuditTests {
    private static func audit(
        _ stage: SweepStage, deep: Bool = false, _ environment: [String: String] = [:]
    ) throws -> AuditReport {
        var wish = AuditWish()
        wish.isDeep = deep
        return try Audit.run(stage.loaded(nil, environment), wish, version: "1", .silent())
    }

    @Test("a period that is empty is refused, and names its bounds")
    func emptyPeriod() throws {
        let stage = try SweepStage(.sqlite, dead: 1)
        for (since, until) in [("2026-12-01", "2026-01-01"), ("2999-01-01", nil)] {
            try stage.run(["audit", "--since", since] + (until.map { ["--until", $0] } ?? []))
                .ends(64, "it begins at \(since)", "so it is empty")
        }
    }

    @Test(
        "the whole report is there for an account with SELECT alone, and no row changes",
        arguments: TestEngine.available)
    func whole(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, dead: 6)
        let first = try Self.audit(stage)
        #expect(first.apps.count == 1 && first.apps[0].tokens.stale == 0)
        #expect(first.runs.lastGoodSweep == nil)
        #expect(first.findings.contains { $0.rule == "no-recent-sweep" && $0.severity == .medium })

        try stage.swept().ends(0)
        let rows = try stage.database.marks()
        let account = engine == .mariaDB ? try ServerAccount(of: stage.database) : nil
        try account?.grant()
        let report = try Self.audit(stage, deep: true, account?.environment ?? [:])
        let app = try #require(report.apps.first)
        #expect(app.tokens.stale == 6 && app.tokens.rows == first.apps[0].tokens.rows)
        #expect(app.evidence.map(\.applied) == [6] && app.evidence[0].source == "feedback")
        #expect(app.staleAges.reduce(0) { $0 + $1.count } == 6)
        #expect(report.runs.endings == [NamedCount("sweep 0", 1)])
        let run = try #require(report.runs.changing.first)
        #expect(run.rows == 6 && !run.undone && run.by.contains(" at "))
        #expect(report.healthy && report.headline.hasPrefix("Healthy: "))
        #expect(report.gaps == [] && app.deep != nil)
        #expect(try stage.database.marks() == rows)
        try stage.undone(run.run).ends(0)
        let undone = try Self.audit(stage)
        #expect(undone.runs.changing.first { $0.run == run.run }?.undone == true)
        #expect(undone.apps[0].evidence.map(\.applied) == [6])
        #expect(undone.apps[0].evidence.map(\.undone) == [6])
        #expect(undone.apps[0].earlier == nil)
        // Undoing the undo marks the rows again: then nothing stands undone.
        let undo = try #require(undone.runs.changing.first { $0.kind == "undo" })
        try stage.undone(undo.run).ends(0)
        #expect(try Self.audit(stage).apps[0].evidence.map(\.undone) == [nil])
    }

    @Test(
        "the days before the period, as many as it has, are summed up beside it",
        arguments: TestEngine.available)
    func earlier(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, dead: 6)
        try stage.swept().ends(0)
        let today = try Self.audit(stage)
        #expect(today.apps[0].evidence.map(\.applied) == [6])
        for (days, isThere) in [(20, false), (40, true), (59, true), (70, false)] {
            let then = stage.database.time(
                EpochMilliseconds.current.advanced(by: -Int64(days) * 86_400_000).rawValue)
            try stage.database.execute("UPDATE pushsweep_batch SET changed_at = ?", [then])
            let app = try #require(try Self.audit(stage).apps.first)
            #expect(app.earlier?.applied == (isThere ? 6 : nil), "\(days)")
            #expect(app.evidence.map(\.applied) == (days < 30 ? [6] : []), "\(days)")
        }
    }

    @Test(
        "a deep audit finds a report that something else removed or added, and nothing after honest runs",
        arguments: TestEngine.available)
    func unbalanced(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, dead: 6)
        try stage.swept().ends(0)
        let run = try stage.database.texts("SELECT id FROM pushsweep_run WHERE kind = 'sweep'")
        try stage.undone(run[0][0]).ends(0)
        let feed = try stage.database.texts("SELECT name FROM pushsweep_batch")
        try stage.replayed(feed: feed[0][0]).ends(0)
        let found = { (deep: Bool) in
            try Self.audit(stage, deep: deep).findings.filter { $0.rule == "unbalanced-batch" }
        }
        #expect(try found(true).isEmpty)
        try stage.database.execute(
            "DELETE FROM pushsweep_report WHERE token = (SELECT MIN(token) FROM "
                + "(SELECT token FROM pushsweep_report) AS t)")
        let finding = try #require(try found(true).first)
        #expect(finding.severity == .high)
        #expect(finding.sentence.contains("6 reports that should be there, and 5 are"))
        #expect(try found(false).isEmpty)
    }

    @Test(
        "several files come from one run, users without a token are listed, and a baseline compares"
    )
    func files() throws {
        let stage = try SweepStage(.sqlite, dead: 3)
        let names = ["report.html", "report.json", "report.md", "report.txt"]
        let paths = names.map(stage.folder.file)
        let users = stage.folder.file("users.csv")
        let result = try stage.run(["audit"] + paths.flatMap { ["--output", $0] }).ends(0)
        #expect(result.output == "", "\(result.error)")
        for (path, start) in zip(paths, ["<!DOCTYPE html>", "{", "# ", ""]) {
            let text = try String(contentsOfFile: path, encoding: .utf8)
            #expect(text.hasPrefix(start) && text.hasSuffix("\n"), "\(path)")
        }
        try stage.swept().ends(0)
        try stage.database.execute("UPDATE active_users SET user_id = '=user ' || id")
        let later = try stage.json(
            "audit", "--baseline", paths[1], "--deep", "--users-without-token", users
        ).ends(0)
        let changes = later.json["changes"] as? [[String: Any]] ?? []
        #expect(
            changes.contains {
                $0["figure"] as? String == "stale" && $0["before"] as? Int == 0
                    && $0["after"] as? Int == 3
            }, "\(changes)")
        let lines = try String(contentsOfFile: users, encoding: .utf8).split(separator: "\n")
        #expect(lines.first == "app,environment,user" && lines.count == 4, "\(lines)")
        // A spreadsheet would run a cell that begins with a sign.
        #expect(lines.dropFirst().allSatisfy { $0.contains(",\"'=user ") }, "\(lines)")
        var facts = stat()
        #expect(stat(users, &facts) == 0 && facts.st_mode & 0o777 == 0o600)
        try stage.run("audit", "--baseline", paths[2]).ends(64, "it is no report of an audit")
        try stage.run("audit", "--output", "/nowhere/report.html").ends(73, "/nowhere/report.html")
    }

    @Test("an open hold makes the report unhealthy, and a decision is listed with who took it")
    func holds() throws {
        for isReleased in [false, true] {
            let stage = try SweepStage(.sqlite, dead: 30)
            stage.lines.limits = "guard: {floor: 7}"
            try stage.swept().ends(3)
            let report = try Self.audit(stage)
            #expect(!report.healthy && report.headline.hasPrefix("Not healthy: chat/production: "))
            let held = try #require(report.holds.first)
            #expect(held.state == "open" && held.tuples == 30)
            if isReleased {
                let digest = try stage.shown()["digest"] as? String ?? ""
                try stage.released(digest, because: "a mistake").ends(0)
            } else {
                try stage.discarded(try stage.shown()["hold"] as? String ?? "")
            }
            let decided = try #require(try Self.audit(stage).holds.first)
            #expect(decided.state == (isReleased ? "released" : "discarded"))
            #expect(decided.reason == "a mistake" && decided.decision?.contains(", 20") == true)
            #expect(decided.held == held.held && decided.cause == held.cause)
        }
    }
}
