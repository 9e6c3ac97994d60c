import Database
import Findings
import Testing

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
        app.credentials = [(nil, -1), (nil, 29), ("damaged", 29)].map { problem, days in
            var credential = AuditedCredential(kind: "certificate", file: "chat.pem")
            (credential.problem, credential.daysLeft) = (problem, days)
            credential.ends = "2026-11-20T08:00:00Z"
            return credential
        }
        var report = AuditReport()
        report.table = "active_users"
        report.apps = [app, AuditedApp(app: "desk", environment: "sandbox")]
        (report.runs.hoursSince, report.runs.longestGap) = (30, 50)
        report.quarantine.feeds = 1
        return report
    }

    @Test("each names its object, its weight and what it counted")
    func findings() {
        var report = troubled
        report.judge(seesHost: true, otherRows: 7)
        let chat = "chat/production"
        for (rule, severity, object, sentence): (String, Severity, String, String) in [
            (
                "rows-of-no-app", .low, "active_users",
                "7 rows of the token table belong to no app and environment of the settings"
            ),
            (
                "no-good-sweep", .high, "this host",
                "the last sweep that ended with 0 was 30 hours ago"
            ),
            (
                "sweep-gap", .low, "this host",
                "the longest time between two sweeps of the period was 2 days"
            ),
            (
                "credential-unusable", .high, "\(chat) chat.pem",
                "the certificate cannot be used"
            ),
            (
                "certificate-expired", .high, "\(chat) chat.pem",
                "it ended at 2026-11-20T08:00:00Z"
            ),
            (
                "certificate-ends", .medium, "\(chat) chat.pem",
                "it ends in 29 days, at 2026-11-20T08:00:00Z"
            ),
            ("no-rows", .medium, "desk/sandbox", "no row of the token table belongs to it"),
            ("registered-in-future", .medium, chat, "1 row registered after the present"),
            (
                "malformed-tokens", .low, chat,
                "4 rows hold no token that can be found, 2 of them a shortened description"
            ),
            ("never-registered", .low, chat, "2 rows have no time of registration"),
            ("evidence-waits", .medium, chat, "3 reports wait for the next sweep"),
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
            ("quarantine", .medium, "quarantine", "1 batch has parts that could not be used"),
        ] {
            let found = report.findings.first { $0.rule == rule && $0.severity != .ok }
            #expect(found?.severity == severity, "\(rule)")
            #expect(found?.object == object, "\(rule)")
            #expect(found?.sentence == sentence, "\(rule)")
        }
        #expect(report.headline.hasPrefix("Not healthy: ") && !report.healthy)
        #expect(report.headline.hasSuffix(", and 2 more grave findings"))
    }
}
