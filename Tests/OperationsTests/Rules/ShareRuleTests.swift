import APNsProtocol
import Findings
import Testing
import TokenHygiene
import TokenTable

@testable import Looks

@Suite("What a share of bad, stale or unknown tokens is worth")
struct ShareRuleTests {
    private static func suspects(
        _ tokens: Int, known: Int = 0, elsewhere: Int? = nil, reason: String = "BadDeviceToken",
        last: String = "2026-11-02T00:00:00.000Z"
    ) -> AuditedSuspects {
        AuditedSuspects(
            reason: reason, tokens: tokens, known: known, elsewhere: elsewhere,
            first: "2026-11-01T00:00:00.000Z", last: last)
    }

    @Test(
        "suspects are grave above the limit, medium above a fifth of it, and else a note",
        arguments: [
            (51, 1_000, .high), (50, 1_000, .medium), (11, 1_000, .medium), (10, 1_000, .note),
            (1, 1_000, .note), (0, 1_000, nil), (5, 0, nil),
        ] as [(Int, Int, Severity?)])
    func weights(bad: Int, tokens: Int, severity: Severity?) {
        let share = SuspectShare(
            suspects: [Self.suspects(bad)], tokens: tokens, object: "chat/production", limit: 0.05)
        #expect(share.finding?.severity == severity)
    }

    @Test("suspects are told with their number, the last of them, the reasons and where to look")
    func words() throws {
        let share = SuspectShare(
            suspects: [
                Self.suspects(2, known: 1, last: "2026-11-03T00:00:00.000Z"),
                Self.suspects(1, reason: "DeviceTokenNotForTopic"),
            ], tokens: 100, object: "chat/production")
        let finding = try #require(share.finding)
        #expect(finding.object == "chat/production" && finding.severity == .medium)
        #expect(
            finding.sentence
                == "APNs called 3 of 100 living tokens bad, the last at 2026-11-03T00:00:00.000Z")
        #expect(
            finding.cause
                == "2 BadDeviceToken (1 of them it had known before), 1 DeviceTokenNotForTopic")
        #expect(
            finding.cure
                == "either they are of another environment or app, or the credentials are; audit "
                + "--suspects FILE lists the rows, preflight --filter --without-suspects leaves recent "
                + "ones out that it never knew")
    }

    @Test("of a send only its own tokens count, and one token is one")
    func ofSend() throws {
        let share = SuspectShare(
            suspects: [Self.suspects(7, elsewhere: 2)], tokens: 1, among: 1, object: "chat/sandbox")
        let finding = try #require(share.finding)
        #expect(finding.severity == .high)
        #expect(finding.sentence.hasPrefix("APNs called 1 of 1 living token of the send bad, "))
        #expect(
            finding.cause
                == "of all of the app: 7 BadDeviceToken (2 of them it knows in the other environment)"
        )
        #expect(
            finding.cure
                == "look at those of the other environment first: pushsweep environments")
        var none = share
        none.among = 0
        #expect(none.finding == nil)
    }

    @Test(
        "what APNs had known before says whether the sender or the token is to blame",
        arguments: [
            (0, "it knew none of them"), (1, "either they are"), (5, "either they are"),
            (6, "it had known most of them before"),
        ])
    func blame(known: Int, words: String) {
        let share = SuspectShare(
            suspects: [Self.suspects(10, known: known)], tokens: 100, object: "chat/production")
        #expect(share.finding?.cure.hasPrefix(words) == true)
    }

    @Test(
        "tokens that the other environment knows are told, and nearly all of ten may be exchanged")
    func misplaced() throws {
        func finding(_ elsewhere: Int, _ neither: Int, _ environment: String) -> Finding? {
            MisplacedShare(
                Partition(app: "chat", environment: environment), elsewhere: elsewhere,
                neither: neither
            ).finding(of: "Chat")
        }
        #expect(finding(0, 9, "production") == nil && finding(3, 0, "test") == nil)
        let some = try #require(finding(1, 0, "sandbox"))
        #expect(some.severity == .medium && some.object == "Chat" && some.cause == nil)
        #expect(
            some.sentence
                == "APNs calls 1 token bad here that were asked about in the production, and knows 1 of "
                + "them there, so their rows are under the wrong environment")
        #expect(some.cure == "look at them with: pushsweep environments")
        let most = try #require(finding(9, 1, "production"))
        #expect(most.severity == .high && most.cure == MisplacedShare.cureOfExchange)
        #expect(
            most.sentence
                == "APNs calls 10 tokens bad here that were asked about in the sandbox, and knows 9 of "
                + "them there, so values or gateways may be exchanged")
        #expect(
            most.cause
                == "nearly all are of the other environment, where rows go wrong one by one")
        for (elsewhere, neither) in [(9, 0), (8, 1), (8, 2), (17, 2)] {
            #expect(finding(elsewhere, neither, "production")?.severity == .medium)
        }
    }

    /// The findings of a look before a send, each as one text.
    private func told(_ fill: (inout SendFacts) -> Void) -> [String] {
        var facts = Facts(.preflight, now: EpochMilliseconds(0))
        var send = SendFacts(object: "chat/production")
        fill(&send)
        facts.send = send
        return RuleBook.findings(facts).map { "\($0.rule) \($0.severity.rawValue): \($0.sentence)" }
    }

    @Test(
        "a share of the tokens of a send is grave, medium or little from its border on",
        arguments: [
            (\.stale, 50, "stale-tokens note: 50 of 1000 tokens (5.0 %) are stale"),
            (\.stale, 51, "stale-tokens high: 51 of 1000 tokens (5.1 %) are stale"),
            (
                \.unknown, 50,
                "unknown-tokens note: 50 of 1000 tokens (5.0 %) have no row in the token table"
            ),
            (
                \.unknown, 51,
                "unknown-tokens medium: 51 of 1000 tokens (5.1 %) have no row in the token table"
            ),
            (
                \.unknown, 500,
                "unknown-tokens medium: 500 of 1000 tokens (50.0 %) have no row in the token table"
            ),
            (
                \.unknown, 501,
                "unknown-tokens high: 501 of 1000 tokens (50.1 %) have no row in the token table"
            ),
            (
                \.otherEnvironment, 10,
                "other-environment-tokens medium: 10 of 1000 tokens (1.0 %) are registered in the other "
                    + "environment only"
            ),
            (
                \.otherEnvironment, 11,
                "other-environment-tokens high: 11 of 1000 tokens (1.1 %) are registered in the other "
                    + "environment only"
            ),
            (
                \.malformed, 10,
                "malformed-tokens low: 10 of 1000 tokens (1.0 %) are not device tokens"
            ),
            (
                \.malformed, 11,
                "malformed-tokens medium: 11 of 1000 tokens (1.1 %) are not device tokens"
            ),
            (
                \.malformed, 500,
                "malformed-tokens medium: 500 of 1000 tokens (50.0 %) are not device tokens"
            ),
            (
                \.malformed, 501,
                "malformed-tokens high: 501 of 1000 tokens (50.1 %) are not device tokens"
            ),
            (
                \.duplicate, 10,
                "duplicate-tokens low: 10 of 1000 tokens (1.0 %) occur more than once"
            ),
            (
                \.duplicate, 11,
                "duplicate-tokens medium: 11 of 1000 tokens (1.1 %) occur more than once"
            ),
        ] as [(any WritableKeyPath<TokenCounts, Int> & Sendable, Int, String)])
    func shares(part: any WritableKeyPath<TokenCounts, Int> & Sendable, count: Int, words: String) {
        let found = told {
            var counts = TokenCounts()
            (counts.read, counts.living) = (1_000, 1)
            counts[keyPath: part] = count
            $0.tokens = counts
        }
        #expect(found == [words])
    }

    @Test("a share that is no whole tenth of a percent is rounded up, so that none is nothing")
    func rounding() {
        let found = told {
            var counts = TokenCounts()
            (counts.read, counts.living, counts.stale) = (3_000, 2_999, 1)
            $0.tokens = counts
        }
        #expect(found == ["stale-tokens note: 1 of 3000 tokens (0.1 %) are stale"])
    }

    @Test("a send without tokens, without a living one, or with more than fits into memory is told")
    func ends() {
        #expect(told { $0.tokens = nil } == [])
        #expect(
            told { $0.tokens = TokenCounts() } == ["no-tokens note: there is no token to send to"])
        let dead = told {
            var counts = TokenCounts()
            (counts.read, counts.duplicate) = (2, 0)
            $0.tokens = counts
        }
        #expect(
            dead == [
                "no-living-tokens high: 2 of 2 tokens (100.0 %) lead to no living row, so nothing would "
                    + "arrive"
            ])
        #expect(
            told { $0.missesDuplicates = true } == [
                "uncounted-duplicates note: the memory for finding duplicates was used up, so some are "
                    + "not counted"
            ])
    }
}
