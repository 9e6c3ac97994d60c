import APNsProtocol
import Database
import Findings
import Testing
import TokenHygiene
import TokenTable

@testable import Looks
@testable import Operations

@Suite("The rules of an audit")
struct AuditRuleTests {
    /// A report in which every rule about numbers finds something.
    private var troubled: AuditReport {
        var app = AuditedApp(app: "chat", environment: "production")
        app.tokens.rows = 9
        app.tokens.fromTheFuture = 1
        (app.tokens.malformed, app.tokens.truncated) = (4, 2)
        app.tokens.neverRegistered = 2
        (app.forecast.waiting, app.forecast.removals, app.forecast.held) = (3, 2, true)
        var queue = AuditedQueue()
        (queue.open, queue.toStale) = (5, 3)
        queue.results = [
            NamedCount("skipped (stale)", 6), NamedCount("sent", 9), NamedCount("unknown", 1),
            NamedCount("unknown (lease ended)", 1),
        ]
        app.queue = queue
        var deep = DeepTokens()
        (deep.tokensInBothEnvironments, deep.tokensOfSeveralUsers, deep.duplicateRows) = (1, 2, 3)
        (deep.users, deep.usersWithoutLivingToken) = (8, 4)
        app.deep = deep
        var report = AuditReport()
        report.table = "active_users"
        report.apps = [app, AuditedApp(app: "desk", environment: "sandbox")]
        return report
    }

    @Test("a baseline tells what fell and what grew since, app by app, and nothing of what stayed")
    func changes() {
        let earlier = troubled
        var later = troubled
        later.apps[0].tokens.malformed = 1
        later.apps[0].forecast.waiting = 5
        later.apps[0].queue = nil
        later.apps.append(AuditedApp(app: "shop", environment: "production"))
        later.apps[2].tokens.living = 7
        let chat = "chat/production"
        #expect(
            later.changes(since: earlier) == [
                AuditChange(object: chat, figure: "malformed", before: 4, after: 1),
                AuditChange(object: chat, figure: "waiting", before: 3, after: 5),
                AuditChange(object: chat, figure: "queued", before: 5, after: 0),
                AuditChange(object: chat, figure: "queued to stale tokens", before: 3, after: 0),
                AuditChange(object: "shop/production", figure: "living", before: 0, after: 7),
            ])
        #expect(later.changes(since: later) == [])
    }

    @Test("each names its object, its weight and what it counted")
    func findings() {
        var report = troubled
        let now = EpochMilliseconds(1_800_000_000_000)
        var facts = Facts(.audit, now: now)
        (facts.report, facts.otherRows) = (report, 7)
        facts.host = HostFacts()
        facts.sweeps = SweepFacts([now.advanced(by: -30 * 3_600_000)], now)
        facts.sweeps?.longestGap = 50
        facts.gaps = ["a part: no right"]
        report.enter(RuleBook.findings(facts), hoursSinceSweep: 30)
        let chat = "chat/production"
        for (rule, severity, object, sentence): (String, Severity, String, String) in [
            (
                "rows-of-no-app", .low, "active_users",
                "7 rows of the token table belong to no app and environment of the settings"
            ),
            (
                "no-recent-sweep", .high, "sweeps",
                "the last sweep that succeeded ended at 2027-01-14T02:00:00.000Z, 30 hours ago"
            ),
            (
                "sweep-gap", .low, "this host",
                "the longest time between two sweeps of the period was 2 days"
            ),
            ("no-rows", .medium, "desk/sandbox", "no row of the token table belongs to it"),
            ("registered-in-future", .medium, chat, "1 row registered after the present"),
            (
                "malformed-tokens", .low, chat,
                "4 rows hold no token that can be found, 2 of them a shortened description"
            ),
            ("never-registered", .low, chat, "2 rows have no time of registration"),
            ("waiting-evidence", .medium, chat, "3 reports wait for the next sweep"),
            (
                "removals-due", .note, chat,
                "2 rows have been stale for the time of policy.delete-after; the next sweep removes "
                    + "them"
            ),
            (
                "sweep-would-hold", .medium, chat,
                "the guard would hold what waits, or the removals that are due"
            ),
            (
                "sends-saved", .note, chat,
                "6 notifications of the period were not sent, because their token was stale"
            ),
            (
                "outcome-unknown", .low, chat,
                "2 notifications of the period got no answer, and are not sent again"
            ),
            (
                "queued-to-stale", .note, chat,
                "3 of 5 open rows of the queue are for stale tokens; send skips them"
            ),
            ("both-environments", .medium, chat, "1 token is in both environments"),
            ("shared-tokens", .low, chat, "2 tokens belong to several users"),
            ("duplicate-tokens", .low, chat, "3 rows repeat a token"),
            ("users-without-token", .note, chat, "4 of 8 users have no living token"),
            ("not-examined", .medium, "this audit", "a part could not be examined"),
        ] {
            let found = report.findings.first { $0.rule == rule && $0.severity != .ok }
            #expect(found?.severity == severity, "\(rule)")
            #expect(found?.object == object, "\(rule)")
            #expect(found?.sentence == sentence, "\(rule)")
        }
        #expect(report.headline.hasPrefix("Not healthy: ") && !report.healthy)
        #expect(report.headline.hasSuffix("30 hours ago"), "\(report.headline)")
    }
}
