import Database
import Encodings
@testable import Looks
@testable import Operations
import Findings
import TestSupport

/// Reports for the tests and for looking at: what a company sees, and the ends of what is possible.
enum SampleReport: String, CaseIterable {
    /// Three apps, some of them in trouble.
    case troubled
    /// One app in good order.
    case healthy
    /// No app, no run, no row.
    case empty
    /// Forty apps, 400 days, counts of 0 and of 100 million, long names.
    case extreme
    /// Each field has markup, quotes, templates, formulas and characters that change the line.
    case hostile

    var report: AuditReport {
        switch self {
        case .troubled: Self.troubledReport
        case .healthy: Self.healthyReport
        case .empty: Self.head("2026-11-16", "2026-11-23")
        case .extreme: Self.extremeReport
        case .hostile: Self.filled(with: Self.hostileText)
        }
    }

    static let ages = [
        "under 1 day", "1 to 7 days", "7 to 30 days", "30 to 90 days", "90 days to 1 year",
        "1 to 2 years", "over 2 years",
    ]

    static func head(_ since: String, _ until: String) -> AuditReport {
        var report = AuditReport()
        report.version = "0.4.0-dev"
        report.host = "push-1.example.net"
        report.operator = "pushsweep (service)"
        report.generated = "\(until)T10:05:12Z"
        report.since = "\(since)T10:00:00Z"
        report.until = "\(until)T10:00:00Z"
        report.settings = "9f2c41d07be85a63"
        report.table = "mysql://db.example.net/push, table active_users"
        return report
    }

    static func counts(_ names: [String], _ counts: [Int]) -> [NamedCount] {
        zip(names, counts).map { NamedCount($0, $1) }
    }

    static func day(_ number: Int) -> String {
        let date = CivilDate(daysSince1970: number)
        func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
        return "\(date.year)-\(two(date.month))-\(two(date.day))"
    }

    /// The number of the day 2026-11-23 from 1970-01-01.
    static let lastDay = CivilDate(year: 2026, month: 11, day: 23).daysSince1970

    static func evidence(
        days: Int, _ sources: [(name: String, size: Int)], seed: UInt64
    ) -> [EvidenceDay] {
        var generator = SeededGenerator(seed)
        func some(_ most: Int) -> Int { Int(generator.next() % UInt64(most + 1)) }
        return (0..<days).reversed().flatMap { back in
            sources.map { source in
                var entry = EvidenceDay(day: day(lastDay - back), source: source.name)
                entry.applied = source.size / 2 + some(source.size / 2)
                entry.already = some(source.size / 8)
                entry.newer = some(source.size / 10)
                entry.unknown = some(source.size / 20)
                return entry
            }
        }
    }
}

extension SampleReport {
    private static var chat: AuditedApp {
        var app = AuditedApp(app: "chat", environment: "production")
        app.tokens.rows = 1_284_310
        app.tokens.living = 1_102_877
        app.tokens.stale = 180_912
        app.tokens.revived = 12_004
        app.tokens.neverRegistered = 318
        app.tokens.empty = 402
        app.tokens.malformed = 119
        app.tokens.truncated = 104
        app.tokens.forms = counts(
            ["32 bytes", "80 bytes", "upper-case hex"], [1_280_001, 3_788, 311])
        app.staleAges = counts(ages, [1_204, 9_310, 31_877, 52_410, 61_902, 21_000, 3_209])
        app.staleReasons = counts(
            ["Unregistered", "feedback", "BadDeviceToken"], [150_112, 29_000, 1_800])
        app.registrationAges = counts(
            ages, [18_310, 101_210, 240_876, 301_554, 288_120, 110_700, 42_107])
        app.evidence = evidence(
            days: 30, [("Unregistered", 900), ("feedback", 240), ("BadDeviceToken", 12)], seed: 1)
        var queue = AuditedQueue()
        queue.open = 40_210
        queue.toStale = 3_911
        queue.toUnknown = 17
        queue.results = counts(["sent", "skipped (stale)", "gone"], [2_400_112, 88_102, 19_877])
        app.queue = queue
        var certificate = AuditedCredential(kind: "certificate", file: "chat.pem")
        certificate.ends = "2026-11-20T08:00:00Z"
        certificate.daysLeft = -3
        certificate.problem = "expired"
        app.credentials = [
            certificate, AuditedCredential(kind: "token key", file: "AuthKey_K1.p8"),
        ]
        app.forecast.waiting = 48_120
        app.forecast.applied = 46_880
        app.forecast.newer = 811
        app.forecast.unknown = 429
        app.forecast.held = true
        app.forecast.judged = true
        return app
    }

    private static func small(_ name: String, _ environment: String) -> AuditedApp {
        var app = AuditedApp(app: name, environment: environment)
        app.tokens.rows = 8_412
        app.tokens.living = 8_101
        app.tokens.stale = 311
        app.tokens.revived = 12
        app.tokens.forms = counts(["32 bytes"], [8_412])
        app.staleAges = counts(ages, [3, 21, 80, 144, 63, 0, 0])
        app.staleReasons = counts(["Unregistered"], [311])
        app.registrationAges = counts(ages, [410, 1_288, 2_190, 2_611, 1_400, 202, 0])
        app.evidence = evidence(days: 30, [("Unregistered", 14)], seed: 2)
        return app
    }

    private static var troubledReport: AuditReport {
        var report = head("2026-10-25", "2026-11-23")
        report.healthy = false
        report.headline =
            "The certificate of chat/production ended 3 days ago, and a removal of 48,120 tokens waits for a decision."
        report.apps = [chat, small("desk", "production"), small("desk", "sandbox")]
        report.findings = troubledFindings
        report.gaps = [
            "The account may not read performance_schema, so the age of the replica is unknown."
        ]
        report.runs.lastGoodSweep = "2026-11-20T07:12:40Z"
        report.runs.hoursSince = 74.8
        report.runs.longestGap = 74.8
        report.runs.endings = counts(
            ["sweep 0", "sweep 75", "send 0", "undo 0"], [612, 74, 210, 1])
        report.runs.changing = (0..<8).map { index in
            var run = AuditedRun(
                run: "3f0c6c1e-8b1d-4a52-9d0e-7f6a1b2c3d4\(index)",
                kind: index == 3 ? "undo" : "sweep",
                started: "2026-11-20T0\(7 - min(index, 7)):12:01Z", rows: 1_204 / (index + 1),
                by: "push-1 pushsweep")
            run.undone = index == 4
            return run
        }
        var released = AuditedHold(
            app: "desk", environment: "production", state: "released", held: "2026-11-02T03:12:00Z",
            cause: "share", tuples: 912)
        released.decision = "ann on push-1, 2026-11-02 08:30 UTC"
        released.reason = "The old build was withdrawn."
        report.holds = [
            AuditedHold(
                app: "chat", environment: "production", state: "open", held: "2026-11-22T23:12:00Z",
                cause: "registered-later", tuples: 48_120), released,
        ]
        report.quarantine.batches = 1
        report.quarantine.bytes = 37
        report.quarantine.reasons = [NamedCount("tuple cut off", 1)]
        report.changes = [
            AuditChange(
                object: "chat/production", figure: "living", before: 1_120_450, after: 1_102_877),
            AuditChange(
                object: "chat/production", figure: "stale", before: 161_008, after: 180_912),
            AuditChange(object: "desk/sandbox", figure: "rows", before: 8_400, after: 8_412),
        ]
        return report
    }

    private static var troubledFindings: [Finding] {
        [
            Finding(
                "settings-agree", .ok, "settings", "Apps, topics and environments agree."),
            Finding(
                "malformed-tokens", .low, "chat/production",
                "119 rows hold a value that is no token.",
                cause: "104 of them are shortened descriptions, as iOS 13 and later print them.",
                cure:
                    "Correct the place that stores tokens; `pushsweep audit --deep` lists the users."
            ),
            Finding(
                "certificate-expired", .high, "chat/production",
                "The certificate chat.pem ended on 2026-11-20.",
                cause:
                    "APNs refuses every connection with it, so nothing is sent and no evidence comes in.",
                cure: "Put a new certificate at /etc/pushsweep/chat.pem, then run pushsweep check."),
            Finding(
                "open-hold", .high, "chat/production",
                "A removal of 48,120 tokens waits for a decision since 2026-11-22 23:12 UTC.",
                cause:
                    "811 of its tokens registered again after the report, which is more than a list of "
                    + "dead tokens should have.",
                cure:
                    "Run pushsweep holds show chat/production, then pushsweep holds release or discard."
            ),
            Finding(
                "sweep-late", .medium, "push-1", "No sweep ended well for 74.8 hours.",
                cause: "74 runs ended with 75: the gateway refused the certificate.",
                cure: "Replace the certificate; the next sweep continues where the last one ended."),
            Finding(
                "queued-to-stale", .note, "chat/production",
                "3,911 queued notifications are addressed to stale tokens; send skips them."),
            Finding(
                "key-usable", .ok, "chat/production", "The token key AuthKey_K1.p8 can sign."),
        ]
    }

    private static var healthyReport: AuditReport {
        var report = head("2026-11-17", "2026-11-23")
        report.headline =
            "All sweeps ran, nothing waits, and every credential is valid for 90 days or more."
        var app = small("desk", "production")
        app.evidence = Array(app.evidence.suffix(7))
        var certificate = AuditedCredential(kind: "certificate", file: "desk.pem")
        certificate.ends = "2027-08-01T00:00:00Z"
        certificate.daysLeft = 251
        app.credentials = [certificate]
        report.apps = [app]
        report.findings = [
            Finding("sweep-recent", .ok, "push-1", "The last sweep ended well 0.4 hours ago."),
            Finding(
                "certificate-valid", .ok, "desk/production", "desk.pem is valid for 251 days."),
        ]
        report.runs.lastGoodSweep = "2026-11-23T09:41:00Z"
        report.runs.hoursSince = 0.4
        report.runs.longestGap = 1.1
        report.runs.endings = counts(["sweep 0"], [168])
        return report
    }
}

extension Finding {
    init(
        _ rule: String, _ severity: Severity, _ object: String, _ sentence: String,
        cause: String = "", cure: String = ""
    ) {
        self = Finding(severity, object, sentence, cause: cause, cure: cure, rule: rule).audited
    }
}
