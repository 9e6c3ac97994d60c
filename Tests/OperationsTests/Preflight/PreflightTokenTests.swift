import APNsProtocol
import Database
import Encodings
import Foundation
import TestSupport
import Testing
import TokenHygiene

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

    @Test("the queue and a query give the same tokens as a list", arguments: TestEngine.available)
    func subjects(_ engine: TestEngine) throws {
        let stage = try PreflightStage(engine)
        try stage.sender.queue(0..<20)
        try stage.sender.queue([7, 500])
        let queued = try stage.look()
        #expect(queued.subject == "queue")
        let asked = try stage.look(
            .query(
                try SelectStatement(
                    "SELECT device_token, user_id FROM push_queue q, (SELECT 1 AS user_id) u;"),
                seconds: 20))
        let listed = try stage.look(lines: spelled(Array(0..<20) + [7, 500]))
        let expected = try #require(listed.tokens)
        #expect(expected.living == 21 && expected.unknown == 1 && expected.duplicate == 1)
        #expect(queued.tokens == expected)
        #expect(asked.tokens == expected)
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
    func nothingLiving(_ stale: Int, _ unknown: Int, _ malformed: Int, _ elsewhere: Int) throws {
        var tokens = TokenCounts()
        tokens.read = stale + unknown + malformed + elsewhere
        (tokens.stale, tokens.unknown) = (stale, unknown)
        (tokens.malformed, tokens.otherEnvironment) = (malformed, elsewhere)
        let stage = try PreflightStage(living: 0..<0)
        func isShut() throws -> Bool {
            var facts = PreflightFacts(plan: try stage.plan(), now: .current)
            facts.tokens = tokens
            return PreflightRules.findings(facts).contains {
                $0.rule == "no-living-tokens" && $0.severity == .high
            }
        }
        #expect(try isShut())
        (tokens.read, tokens.living) = (tokens.read + 1, 1)
        #expect(try !isShut())
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

    @Test(
        "a query that changes something, is wrong or takes too long ends with its reason",
        arguments: TestEngine.available)
    func queries(_ engine: TestEngine) throws {
        let stage = try PreflightStage(engine)
        let before = try stage.sender.database.marks()
        func failure(_ sql: String) throws -> String {
            let statement = try SelectStatement(sql)
            let error = try #require(throws: RunFailure.self) {
                try stage.look(.query(statement, seconds: 1))
            }
            #expect(error.exit == .configuration, "\(error)")
            return error.description
        }
        #expect(try failure("SELECT nothing FROM active_users").contains("correct the query"))
        let endless =
            "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 900000000) "
            + "SELECT COUNT(*) FROM n a, n b"
        if engine == .sqlite {
            #expect(try failure(endless).contains("took longer than 1 s"))
            #expect(
                try failure("WITH x AS (SELECT 1) DELETE FROM active_users").contains("only reads"))
        } else {
            #expect(try failure("SELECT SLEEP(20)").contains("took longer than 1 s"))
            try stage.sender.database.sql.run(
                "CREATE FUNCTION spoil() RETURNS INT MODIFIES SQL DATA "
                    + "BEGIN DELETE FROM active_users; RETURN 1; END")
            #expect(try failure("SELECT spoil()").contains("only reads"))
        }
        #expect(try stage.sender.database.marks() == before)
    }
}

@Suite("A SELECT that a person gives")
struct SelectStatementTests {
    @Test(
        "one query is taken, without the semicolon at its end",
        arguments: [
            ("SELECT a FROM b", "SELECT a FROM b"), ("select 1;", "select 1"),
            (
                "/* hint */ SELECT ';' AS a -- the end;\n",
                "/* hint */ SELECT ';' AS a -- the end;\n"
            ),
            ("WITH x AS (SELECT 1) SELECT * FROM x", "WITH x AS (SELECT 1) SELECT * FROM x"),
            (
                "SELECT `into` FROM t WHERE a = 'it''s into'",
                "SELECT `into` FROM t WHERE a = 'it''s into'"
            ),
            ("SELECT 5--1", "SELECT 5--1"), ("SELECT 1 # into", "SELECT 1 # into"),
        ])
    func taken(_ text: String, _ statement: String) throws {
        #expect(try SelectStatement(text).text == statement)
    }

    @Test(
        "anything else is refused with its reason",
        arguments: [
            ("", "it is empty"), ("  -- nothing\n", "it is empty"),
            ("SELECT 1; SELECT 2", "several statements"),
            ("SELECT 1;;", "several statements"), ("DELETE FROM t", "does not begin"),
            ("; SELECT 1", "several statements"),
            ("(SELECT 1)", "does not begin"), ("SELECT a FROM b INTO OUTFILE '/tmp/x'", "has INTO"),
            ("SELECT 1 INTO @a", "has INTO"), ("SELECT 5--1 INTO OUTFILE '/tmp/x'", "has INTO"),
            ("SELECT 1 /*! INTO OUTFILE '/tmp/x' */", "a comment that a server"),
            ("SELECT 1 /*M! , 2 */", "a comment that a server"), ("SELECT 'a", "does not end"),
            ("SELECT 1 /* a", "does not end"),
            (#"SELECT 'a\'; DELETE FROM t -- '"#, "does not end"),
            (#"SELECT "a\" INTO OUTFILE '/tmp/x' -- ""#, "does not end"),
        ])
    func refused(_ text: String, _ reason: String) {
        let refusal = #expect(throws: Refusal.self) { try SelectStatement(text) }
        #expect(refusal?.description.contains(reason) == true, "\(refusal as Any)")
    }
}
