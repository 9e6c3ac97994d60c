import APNsProtocol
import APNsSimulator
import Foundation
import Glibc
import SecureTransport
import TestSupport
import Testing

private let registered: Int64 = 1_690_000_000_000
private let gone: Int64 = 1_700_000_000_123

@Suite("The command send")
struct SendTests {
    private static func evidence(_ result: ToolResult) -> [String: Int] {
        (result.app()["evidence"] as? [String: Int]) ?? [:]
    }

    @Test(
        "send delivers once, skips stale tokens, and marks after 410 unless the device came back",
        arguments: TestEngine.available)
    func story(_ engine: TestEngine) throws {
        var script = ProviderScript()
        script.tokens[.numbered(1)] = .reply(ScriptedReply(.unregistered, timestamp: gone))
        script.tokens[.numbered(2)] = .reply(ScriptedReply(.unregistered, timestamp: gone))
        let stage = try SendStage(engine, script: script)
        try stage.database.register(0..<100, at: registered)
        try stage.database.register(.numbered(100), at: registered, mark: registered + 5_000)
        try stage.database.register(.numbered(101), at: gone + 60_000, mark: gone)
        try stage.database.execute(
            "UPDATE active_users SET registered_at = ? WHERE device_token = ?",
            [stage.database.time(gone + 60_000), .bytes(DeviceToken.numbered(2).bytes)])
        // 102 is in no row of the token table.
        try stage.queue(0...102)

        let result = try stage.send().ends(0)
        let app = result.app()
        #expect(app["claimed"] as? Int == 103)
        #expect(app["sent"] as? Int == 99)
        #expect(app["gone"] as? Int == 2)
        #expect(app["skipped"] as? [String: Int] == ["stale": 1, "unknown": 1])
        let evidence = Self.evidence(result)
        #expect(evidence["tuples"] == 2)
        #expect(evidence["applied"] == 1)
        #expect(evidence["newer"] == 1)
        #expect(try stage.states() == ["sent": 99, "gone": 2, "skipped": 2])

        let seen = stage.gateway.log.requestsByToken
        #expect(seen[.numbered(100)] == nil, "a stale token was on the wire")
        #expect(seen[.numbered(101)] == 1, "a token that came back was not sent to")
        #expect(seen[.numbered(102)] == nil, "a removed token was on the wire")
        #expect(stage.gateway.log.acceptedTwice.isEmpty)
        let marked = try stage.database.texts(
            "SELECT device_token FROM active_users WHERE invalid_reason = 'Unregistered'")
        #expect(marked == [[DeviceToken.numbered(1).hex]])

        try stage.send().ends(0).app(has: ["claimed": 0])
    }

    @Test(
        "send notes tokens that APNs calls bad with their final result, and clears those that it accepts later",
        arguments: TestEngine.available)
    func badTokens(_ engine: TestEngine) throws {
        var script = ProviderScript()
        for number in [1, 2] {
            script.tokens[.numbered(number)] = .reply(ScriptedReply(.badDeviceToken))
        }
        let stage = try SendStage(engine, rows: 100, script: script)
        let app = try stage.send().ends(0).app(has: ["sent": 98])
        #expect(Self.evidence(app)["tuples"] == 0, "\(app.output)")
        func suspects() throws -> [[String]] {
            try stage.database.texts(
                "SELECT COUNT(*), COUNT(accepted_at), SUM(times) FROM pushsweep_suspect")
        }
        #expect(try suspects() == [["2", "0", "2"]])
        #expect(try stage.database.rows(of: "pushsweep_report") == 0)
        #expect(try stage.database.marked == 0)
        try stage.run("explain", DeviceToken.numbered(1).hex).ends(
            0, "APNs called it bad, 1 time", "no answer is known that accepted it")
        let other = try ProviderGateway(
            certificates: SweepStage.certificates.get(),
            rules: ProviderRules(authentication: .certificate, script: ProviderScript()),
            scenario: ProviderScenario())
        stage.port = other.port
        try stage.queue([1, 3, 4])
        try stage.send().ends(0).app(has: ["sent": 3])
        #expect(try suspects() == [["2", "1", "2"]])
        #expect(try stage.database.rows(of: "pushsweep_report") == 0)
        try stage.run("explain", DeviceToken.numbered(1).hex).ends(0, "it accepted it later")
    }

    @Test(
        "send stops within 50 answers where nearly all tokens are bad, and changes no table")
    func wrongEnvironment() throws {
        var script = ProviderScript()
        script.shares = [.init(millionths: 950_000, action: .reply(ScriptedReply(.badDeviceToken)))]
        let stage = try SendStage(rows: 1_000, script: script)
        let before = try stage.database.marks()

        try stage.send().ends(78, "environment mismatch suspected", "code=78 stage=send")
        #expect(stage.gateway.log.totals.requests <= 50)
        #expect(try stage.database.marks() == before)
        let accepted = stage.gateway.log.totals.answered[200] ?? 0
        #expect(try stage.states() == ["pending": 1_000 - accepted, "sent": accepted])
    }

    @Test(
        "send stops at the first answer that blames credential or topic, and gives each row back",
        arguments: [
            ProviderReason.badCertificateEnvironment, .invalidProviderToken, .topicDisallowed,
            .badTopic,
        ])
    func batchFault(_ reason: ProviderReason) throws {
        var script = ProviderScript()
        script.usual = .reply(ScriptedReply(reason))
        let stage = try SendStage(rows: 200, script: script)
        try stage.send().ends(78, "\(reason)")
        #expect(stage.gateway.log.totals.requests <= 50)
        #expect(try stage.states() == ["pending": 200])
    }

    @Test("send repeats what GOAWAY left unprocessed, and counts the unanswered rest")
    func goAway() throws {
        let faulty = ProviderScenario.Connection(
            goAway: .init(atRequest: 300, unprocessed: 10, unanswered: 3))
        let stage = try SendStage(
            rows: 3_000, scenario: ProviderScenario(Array(repeating: faulty, count: 4) + [.init()]))
        let result = try stage.send().ends(0)
        let totals = stage.gateway.log.totals
        #expect(totals.unprocessed > 0 && totals.unanswered > 0)
        // The gateway closes with requests unread, so answers that it counts can be lost on their way.
        let unknown = try #require(result.app()["unknown"] as? Int)
        #expect((totals.unanswered..<300).contains(unknown))
        #expect(try stage.states() == ["sent": 3_000 - unknown, "unknown": unknown])
        #expect(stage.gateway.log.acceptedTwice.isEmpty)
    }

    @Test("send repeats an unanswered notification only if configured, under the same apns-id")
    func resendsUnknown() throws {
        var faulty = ProviderScenario.Connection()
        faulty.set(.resetConnection, at: 20)
        let stage = try SendStage(
            rows: 200, scenario: ProviderScenario([faulty, faulty, .init()]),
            lines: "send: {resend-unknown: true}")
        let result = try stage.send().ends(0)
        let retried = result.app()["retry"] as? Int ?? 0
        #expect(retried > 0)
        #expect(try stage.states() == ["sent": 200 - retried, "retry": retried])
        let first = Set(stage.gateway.log.records.map(\.id))
        try stage.database.execute("UPDATE push_queue SET not_before = NULL")
        try stage.send().app(has: ["sent": retried])
        #expect(Set(stage.gateway.log.records.map(\.id)) == first, "a new name for an old message")
    }

    @Test("send waits and tries again after 429 and 5xx, and closes rows that APNs refuses")
    func retries() throws {
        var script = ProviderScript()
        script.tokens[.numbered(0)] = .reply(ScriptedReply(.tooManyRequests))
        script.tokens[.numbered(1)] = .reply(ScriptedReply(.internalServerError))
        script.tokens[.numbered(2)] = .reply(ScriptedReply(.badCollapseID))
        script.tokens[.numbered(3)] = .reply(ScriptedReply(.badDeviceToken))
        let stage = try SendStage(rows: 100, script: script)
        let result = try stage.send().ends(0)
        #expect(result.app()["retry"] as? Int == 2)
        result.app(has: ["rejected": ["BadCollapseId": 1, "BadDeviceToken": 1]])
        #expect(try stage.states() == ["sent": 96, "retry": 2, "failed": 2])
        #expect(try stage.database.marked == 0)
    }

    @Test("a dry run says what would be sent, connects nowhere and changes nothing")
    func dryRun() throws {
        let stage = try SendStage()
        try stage.database.register(0..<10, at: registered)
        try stage.database.register(.numbered(10), at: registered, mark: registered + 5_000)
        try stage.queue(0...10)
        try stage.send("--dry-run").ends(0).app(has: ["sent": 10, "skipped": ["stale": 1]])
        #expect(stage.gateway.log.totals.requests == 0)
        #expect(try stage.states() == ["pending": 11])
    }

    @Test(
        "a following sender takes new rows, and gives unsent ones back when it stops"
    )
    func follow() throws {
        var script = ProviderScript()
        script.tokens[.numbered(7)] = .stall
        let stage = try SendStage(script: script)
        try stage.database.register(0..<20, at: registered)
        try stage.queue(0..<5)
        let running = try stage.start(["send", "--follow", "--format", "json"])
        wait(stage) { $0.log.totals.answered[200] == 5 }
        try stage.queue(5..<10)
        wait(stage) { $0.log.totals.answered[200] == 9 && $0.log.totals.requests == 10 }
        running.signal(SIGTERM)
        running.wait().ends(75)
        #expect(try stage.states() == ["sent": 9, "unknown": 1])
    }

    @Test("a missing gateway loses nothing, and the exit code is 69")
    func unreachable() throws {
        let stage = try SendStage()
        // A port without a listener.
        stage.port = try TLSListener().port
        try stage.database.register(0..<5, at: registered)
        try stage.queue(0..<5)
        try stage.send().ends(69)
        #expect(try stage.states() == ["pending": 5])
    }

    @Test(
        "a following sender that removes rows keeps the values of columns that were added meanwhile",
        arguments: TestEngine.available)
    func addedColumn(_ engine: TestEngine) throws {
        var script = ProviderScript()
        for number in 0..<2 {
            script.tokens[.numbered(number)] = .reply(
                ScriptedReply(.unregistered, timestamp: gone))
        }
        let stage = try SendStage(engine, script: script)
        stage.lines = "policy: {action: delete}"
        try stage.database.register(0..<20, at: registered)
        let running = try stage.start(["send", "--follow"])
        defer { running.signal(SIGKILL) }
        func remove(_ number: Int, leaving count: Int) throws {
            try stage.queue(number...number)
            try #require(
                try eventually { try stage.database.rows(of: "active_users") == count })
        }
        try remove(0, leaving: 19)
        try stage.database.execute("ALTER TABLE active_users ADD COLUMN nickname VARCHAR(20)")
        try stage.database.execute("UPDATE active_users SET nickname = 'Anna'")
        try remove(1, leaving: 18)
        running.signal(SIGTERM)
        running.wait().ends(0)
        try stage.run("undo", "--since", "2020-01-01T00:00:00Z").ends(0)
        let named = try stage.database.texts(
            "SELECT device_token, nickname FROM active_users WHERE device_token IN (?, ?) "
                + "ORDER BY 1", (0..<2).map { .bytes(DeviceToken.numbered($0).bytes) })
        // The image of the first row is older than the column.
        #expect(named.map { $0[1] } == ["NULL", "Anna"], "\(named)")
    }

    private func wait(_ stage: SendStage, _ condition: (ProviderGateway) -> Bool) {
        #expect(eventually { condition(stage.gateway) }, "\(stage.gateway.log.totals)")
    }
}
