import APNsProtocol
import Database
import Encodings
import Findings
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Looks
@testable import Operations

@Suite("What preflight says about tokens")
struct PreflightTokenTests {
    @Test(
        "every token of a list is in one count, duplicates beside it",
        arguments: TestEngine.available)
    func counts(_ engine: TestEngine) throws {
        let stage = try PreflightStage(engine)
        try stage.sender.database.register(
            .numbered(200), at: 1_600_000_000_000, mark: 1_700_000_000_000)
        try stage.sender.database.register(
            .numbered(201), at: 1_800_000_000_000, mark: 1_700_000_000_000)
        try stage.registerElsewhere(300..<303)
        let upper = DeviceToken.numbered(5).hex.uppercased()
        let report = try stage.look(
            lines: spelled(0..<10) + [upper, "", "  "] + spelled([200, 201]) + spelled(300..<303)
                + spelled([900]) + ["no token", "{length = 32, bytes = 0xc9d4 ... f715 }"])
        let tokens = try #require(report.tokens)
        #expect(tokens.read == 19)
        #expect(tokens.living == 12)
        #expect(tokens.stale == 1)
        #expect(tokens.otherEnvironment == 3)
        #expect(tokens.unknown == 1)
        #expect(tokens.malformed == 2)
        #expect(tokens.duplicate == 1)
        #expect(report.severity("other-environment-tokens") == .high)
        #expect(report.severity("duplicate-tokens") == .medium)
        #expect(report.severity("malformed-tokens") == .medium)
        #expect(report.subject == "tokens")
    }

    @Test("the queue gives the same tokens as a list", arguments: TestEngine.available)
    func subjects(_ engine: TestEngine) throws {
        let stage = try PreflightStage(engine)
        try stage.sender.queue(0..<20)
        try stage.sender.queue([7, 500])
        let queued = try stage.look()
        #expect(queued.subject == "queue")
        let listed = try stage.look(lines: spelled(Array(0..<20) + [7, 500]))
        let expected = try #require(listed.tokens)
        #expect(expected.living == 21 && expected.unknown == 1 && expected.duplicate == 1)
        #expect(queued.tokens == expected)
    }

    @Test("a share of stale tokens above the limit is high, below it a note")
    func staleShare() throws {
        let stage = try PreflightStage()
        for number in 200..<206 {
            try stage.sender.database.register(
                .numbered(number), at: 1_600_000_000_000, mark: 1_700_000_000_000)
        }
        let lines = spelled(0..<94) + spelled(200..<206)
        let report = try stage.look(lines: lines)
        #expect(report.severity("stale-tokens") == .high)
        #expect(report.gate == "shut" && report.exit == 2)
        let tolerant = try stage.look(lines: lines) { $0.mostStale = 0.06 }
        #expect(tolerant.severity("stale-tokens") == .note)
        #expect(tolerant.gate == "open" && tolerant.exit == 0)
    }

    @Test(
        "shares of tokens decide the severity",
        arguments: [
            (spelled(0..<99) + spelled([900]), "unknown-tokens", .note),
            (spelled(0..<90) + spelled(900..<910), "unknown-tokens", .medium),
            (spelled(0..<10) + spelled(900..<911), "unknown-tokens", .high),
            (spelled(0..<100) + ["x"], "malformed-tokens", .low),
            (["x", "y"] + spelled([1]), "malformed-tokens", .high), ([""], "no-tokens", .note),
            (spelled(0..<100) + spelled([300]), "other-environment-tokens", .medium),
        ] as [([String], String, Severity)])
    func shares(_ lines: [String], _ rule: String, _ severity: Severity) throws {
        let stage = try PreflightStage()
        try stage.registerElsewhere(300..<301)
        let report = try stage.look(lines: lines)
        #expect(report.severity(rule) == severity)
        #expect((report.gate == "shut") == (severity == .high))
    }

    @Test(
        "nothing living shuts the gate, whatever the single shares",
        arguments: [(5, 45, 50, 0), (0, 50, 50, 0), (0, 1, 0, 0), (50, 0, 0, 50), (1, 0, 0, 0)])
    func nothingLiving(_ stale: Int, _ unknown: Int, _ malformed: Int, _ elsewhere: Int) {
        var tokens = TokenCounts()
        tokens.read = stale + unknown + malformed + elsewhere
        (tokens.stale, tokens.unknown) = (stale, unknown)
        (tokens.malformed, tokens.otherEnvironment) = (malformed, elsewhere)
        func isShut() -> Bool {
            var facts = Facts(.preflight, now: .current)
            facts.send = SendFacts(object: "chat/production", tokens: tokens)
            return RuleBook.findings(facts).contains {
                $0.rule == "no-living-tokens" && $0.severity == .high
            }
        }
        #expect(isShut())
        (tokens.read, tokens.living) = (tokens.read + 1, 1)
        #expect(!isShut())
    }

    @Test("where memory does not suffice to find duplicates, that is said")
    func uncounted() throws {
        let stage = try PreflightStage()
        let report = try stage.look(lines: spelled(0..<5)) { $0.memory = 0 }
        #expect(report.severity("uncounted-duplicates") == .note)
        #expect(report.tokens?.duplicate == 0)
    }

    @Test("a line longer than any token is one malformed value, and the others are read")
    func overlong() throws {
        let stage = try PreflightStage()
        let report = try stage.look(
            lines: spelled([1]) + [String(repeating: "a", count: 5_000_000)] + spelled([2]))
        #expect(report.tokens?.read == 3)
        #expect(report.tokens?.living == 2)
        #expect(report.tokens?.malformed == 1)
    }
}
