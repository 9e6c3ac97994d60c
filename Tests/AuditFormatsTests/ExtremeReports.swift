import Database
import Findings

@testable import Looks
@testable import Operations

extension SampleReport {
    /// Forty apps of all sizes over 400 days.
    static var extremeReport: AuditReport {
        var report = head("2025-10-20", "2026-11-23")
        report.healthy = false
        report.headline =
            "40 certificates end within 7 days, 12 removals wait for a decision, and 3 hosts have not swept."
        let sources = [
            "Unregistered", "feedback", "BadDeviceToken", "ExpiredToken", "DeviceTokenNotForTopic",
            "delete-after", "undo", "TopicDisallowed", "an export of another sender",
        ]
        report.apps = (0..<40).map { index in
            var app = AuditedApp(
                app: index == 7
                    ? String(repeating: "a-very-long-name-of-an-app-", count: 30) : "app-\(index)",
                environment: index % 2 == 0 ? "production" : "sandbox")
            // Empty apps, apps of one row, apps of 100 million rows.
            let size = [0, 1, 1_000, 100_000_000][index % 4]
            app.tokens.rows = size
            app.tokens.stale = size / 3
            app.tokens.living = size - size / 3
            app.tokens.forms = counts(
                (0..<30).map { "\($0) bytes" }, Array(repeating: size / 30, count: 30))
            app.staleAges = counts(ages, (0..<7).map { $0 == 6 ? size / 3 : 0 })
            app.staleReasons = counts(sources, sources.indices.map { size / 3 / ($0 + 1) })
            app.registrationAges = counts(ages, (0..<7).map { $0 * size / 32 })
            app.evidence =
                size == 0
                ? [] : evidence(days: 400, sources.map { ($0, size / 100) }, seed: UInt64(index))
            var certificate = AuditedCredential(kind: "certificate", file: "app-\(index).pem")
            certificate.ends = "2026-11-29T00:00:00Z"
            certificate.daysLeft = 6
            app.credentials = [certificate]
            var queue = AuditedQueue()
            queue.open = size
            queue.results = counts(["sent", "gone"], [size, 0])
            app.queue = queue
            var deep = DeepTokens()
            deep.duplicateTokens = size / 10
            deep.users = size
            deep.usersWithoutLivingToken = size / 5
            deep.tokensPerUser = counts(
                ["0", "1", "2", "3 to 5", "over 5"], Array(repeating: size / 5, count: 5))
            app.deep = deep
            app.forecast.waiting = size
            return app
        }
        report.findings = report.apps.flatMap { app in
            [
                Finding(
                    "certificate-ends", .high, "\(app.app)/\(app.environment)",
                    "The certificate ends in 6 days.", cause: "It was issued for a year.",
                    cure: "Renew it at developer.apple.com, then run pushsweep check."),
                Finding(
                    "malformed-tokens", .low, "\(app.app)/\(app.environment)",
                    "Some rows hold no token.",
                    cure: "Correct the place that stores tokens."),
                Finding(
                    "key-usable", .ok, "\(app.app)/\(app.environment)", "The key can sign."),
                Finding(
                    "queue-long", .note, "\(app.app)/\(app.environment)", "The queue is long."),
            ]
        }
        report.runs.hoursSince = 123_456.7
        report.runs.endings = counts(["sweep 0", "sweep 75"], [100_000_000, 1])
        report.holds = (0..<100).map { index in
            AuditedHold(
                app: "app-\(index % 40)", environment: "production",
                state: index < 12 ? "open" : "discarded",
                held: "2026-11-2\(index % 4)T00:00:00Z", cause: "share", tuples: 100_000_000)
        }
        return report
    }

    /// What an attacker could write into a name, a file, a gateway's answer.
    static let hostileText =
        "=<script>alert(1)</script>\"'&lt;{{verdict}}{{{x}}}]]>--></style></title>|`*_[a](https://evil.example)"
        + "\u{202E}\u{200F}\u{1B}[31m\n\r\t\u{0}\u{FFFE}\"\u{301}<\u{301}img src=x onerror=y>"

    /// A report in which every text field is one text.
    static func filled(with text: String, lists: Int = 2) -> AuditReport {
        var report = AuditReport()
        report.version = text
        report.host = text
        report.operator = text
        report.generated = text
        report.since = text
        report.until = text
        report.settings = text
        report.table = text
        report.headline = text
        report.healthy = false
        report.findings = (0..<lists).flatMap { _ in
            Severity.allCases.map {
                Finding(text, $0, text, text, cause: text, cure: text)
            }
        }
        report.apps = (0..<lists).map { _ in filledApp(with: text, lists: lists) }
        report.runs.lastGoodSweep = text
        report.runs.hoursSince = 1
        report.runs.endings = names(text, lists)
        report.runs.changing = (0..<lists).map { _ in
            AuditedRun(run: text, kind: text, started: text, rows: 1, by: text)
        }
        report.holds = (0..<lists).map { _ in
            var hold = AuditedHold(
                app: text, environment: text, state: text, held: text, cause: text, tuples: 1)
            hold.decision = text
            hold.reason = text
            return hold
        }
        report.quarantine.reasons = names(text, lists)
        report.changes = (0..<lists).map { _ in
            AuditChange(object: text, figure: text, before: .min, after: .max)
        }
        report.gaps = (0..<lists).map { _ in text }
        return report
    }

    /// Counts whose names begin with the text and differ.
    private static func names(_ text: String, _ count: Int) -> [NamedCount] {
        (0..<count).map { NamedCount(text + "\($0)", .max) }
    }

    private static func filledApp(with text: String, lists: Int) -> AuditedApp {
        var app = AuditedApp(app: text, environment: text)
        app.tokens.rows = .max
        app.tokens.stale = .max
        app.tokens.living = .max
        app.tokens.forms = names(text, lists)
        app.staleAges = names(text, lists)
        app.staleReasons = names(text, lists)
        app.registrationAges = names(text, lists)
        app.evidence = (0..<lists).map { index in
            var entry = EvidenceDay(
                day: index % 2 == 0 ? text : day(lastDay - index), source: text + "\(index)")
            entry.applied = .max
            entry.refused = .max
            return entry
        }
        var queue = AuditedQueue()
        queue.results = names(text, lists)
        app.queue = queue
        app.credentials = (0..<lists).map { _ in
            var credential = AuditedCredential(kind: text, file: text)
            credential.ends = text
            credential.daysLeft = -3
            credential.problem = text
            return credential
        }
        var deep = DeepTokens()
        deep.tokensPerUser = names(text, lists)
        app.deep = deep
        app.forecast.waiting = 1
        return app
    }
}
