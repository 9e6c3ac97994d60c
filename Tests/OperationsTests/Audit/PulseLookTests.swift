import APNsProtocol
import Foundation
import TestSupport
import Testing
import TokenHygiene

@Suite("When the evidence is not as usual")
struct PulseLookTests {
    private static let now = EpochMilliseconds(Int64(Date().timeIntervalSince1970 * 1_000))

    /// Enters what a purge keeps of days, so many days ago.
    private static func enter(
        _ stage: SweepStage, _ daysAgo: ClosedRange<Int>, applied: Int = 0, unknown: Int = 0,
        source: String = "Unregistered"
    ) throws {
        for days in daysAgo {
            let day = String(now.advanced(by: -Int64(days) * 86_400_000).rfc3339.prefix(10))
            try stage.database.execute(
                "INSERT INTO pushsweep_day (day, app, environment, source, applied, unknown_tokens) "
                    + "VALUES (?, 'chat', 'production', ?, ?, ?)",
                [
                    .text(day), .text(source), .integer(Int64(applied)), .integer(Int64(unknown)),
                ])
        }
    }

    @Test(
        "evidence that stopped is told by audit, check, gate and metrics, and as grave by an audit once it is long",
        arguments: TestEngine.available)
    func stopped(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, feeds: [.tuples([])])
        try stage.database.register(0..<10, at: 1_600_000_000_000)
        stage.lines.limits = "report: {metrics-file: \(stage.folder.file("page.prom"))}"
        try Self.enter(stage, 16...50, applied: 20)
        try stage.swept().ends(0)
        let words = "no evidence for 15 whole days, where it"
        try stage.run("audit").ends(0, "Not healthy: chat/production: \(words)")
        try stage.run("check").says("no evidence for 15 whole days, where it came each day")
        try stage.run("preflight", "--read-only", "--app", "chat").says("medium: evidence-stopped")
        let page = try String(contentsOfFile: stage.folder.file("page.prom"), encoding: .utf8)
        func metric(_ rule: String) -> String {
            "pushsweep_unusual_evidence{app=\"chat\",environment=\"production\",rule=\"\(rule)\"}"
        }
        #expect(page.contains(metric("evidence-stopped") + " 1\n"))
        #expect(page.contains(metric("evidence-surge") + " 0\n"))
        // What is held was heard as well.
        for days in [1, 2] {
            let time = stage.database.time(Self.now.rawValue - Int64(days) * 86_400_000)
            try stage.database.execute(
                "INSERT INTO pushsweep_batch (name, run, app, environment, source, state, inlet, "
                    + "reports, opened_at, changed_at) VALUES (?, 'r', 'chat', 'production', 'Unregistered', "
                    + "'held', 'table', 9, ?, ?)", [.text("h\(days)"), time, time])
        }
        try stage.run("audit").ends(0).lacks("no evidence for")
        try stage.database.execute("DELETE FROM pushsweep_batch WHERE state = 'held'")
        try stage.run("audit").ends(0, words)
        // With evidence of today all is well.
        try stage.database.report(DeviceToken.numbered(1).hex)
        try stage.swept().ends(0)
        try stage.run("audit").ends(0, "Healthy").lacks("no evidence for")
    }

    @Test(
        "evidence of an app that fits no row is told from its first day on",
        arguments: TestEngine.available)
    func unknown(_ engine: TestEngine) throws {
        let stage = try SweepStage(engine, feeds: [.tuples([])])
        try stage.database.register(0..<10, at: 1_600_000_000_000)
        for number in 100..<125 { try stage.database.report(DeviceToken.numbered(number).hex) }
        try stage.swept().ends(0)
        let words = "25 of the 25 reports of the last 7 days name a"
        try stage.run("audit").ends(0, "Not healthy", words)
        try stage.run("check").says(words)
        try stage.run("preflight", "--read-only", "--app", "chat").says(
            "evidence-fits-no-row", words)
    }

    @Test("a rise of bad tokens is told")
    func bad() throws {
        let stage = try SweepStage(.sqlite, feeds: [.tuples([])])
        try stage.database.register(0..<10, at: 1_600_000_000_000)
        try Self.enter(stage, 1...50, applied: 20)
        try Self.enter(stage, 20...20, applied: 2, source: "BadDeviceToken")
        try Self.enter(stage, 1...1, applied: 90, source: "BadDeviceToken")
        try stage.run("audit").ends(
            0,
            "APNs called tokens bad 90 times in the last 7 days,"
        )
    }
}
