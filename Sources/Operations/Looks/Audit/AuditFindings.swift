// The rules of an audit. A rule that finds nothing wrong says that too, so that a reader sees what was
// examined. Their names never change.

import Database
import Encodings
import Findings
import PushQueue
import TokenHygiene
import TokenTable

/// What an audit judges.
struct AuditFacts {
    let report: AuditReport
    /// False where a state folder or a journal is there and could not be read: what is not seen in it is
    /// not called absent.
    let seesHost: Bool
    /// Whether the account sees batches, and so what is held.
    var seesHolds = true
    /// Rows of the table that no app of the settings has.
    let otherRows: Int
    /// Waiting rows of the queue that no app of the settings has; nil for none.
    let unowned: UnownedRows?
    /// Marks beside the table of apps that the settings do not name; nil where there are others, or none.
    let stranded: StrandedMarks?
    /// Batches that say of their reports something else than is there, with `--deep`.
    var unbalanced: [UnbalancedBatch] = []
    /// What is not as usual in the evidence.
    var pulse = PulseLook()
}

extension AuditReport {
    /// Adds the findings that follow from the facts, gravest first, and writes the headline.
    mutating func judge(
        seesHost: Bool, seesHolds: Bool = true, otherRows: Int, unowned: UnownedRows? = nil,
        stranded: StrandedMarks? = nil, unbalanced: [UnbalancedBatch] = [],
        pulse: PulseLook = PulseLook()
    ) {
        let facts = AuditFacts(
            report: self, seesHost: seesHost, seesHolds: seesHolds, otherRows: otherRows,
            unowned: unowned, stranded: stranded, unbalanced: unbalanced, pulse: pulse)
        findings = AuditRules.all.flatMap { $0.findings(facts) }.map(\.audited).worstFirst
        let high = findings.filter { $0.severity == .high }
        healthy = high.isEmpty
        if let first = high.first {
            let more = high.count - 1
            headline = "Not healthy: \(first.object): \(first.sentence)"
            if more > 0 { headline += ", and \(more.counting("more grave finding"))" }
            return
        }
        let living = apps.reduce(0) { $0 + $1.tokens.living }
        let stale = apps.reduce(0) { $0 + $1.tokens.stale }
        headline =
            "Healthy: \(living.counting("living token")), \(stale) stale"
            + (runs.hoursSince.map { ", last good sweep \(AuditRules.hours($0)) ago" } ?? "")
    }
}

enum AuditRules {
    static let all = host + credentials + tokens + forecast + queue + deep + pulse + rest

    /// Hours without a good sweep after which a person should look: a day, and two hourly runs.
    private static let mostHours = 26.0
    /// Days before the end of a certificate at which it should be renewed.
    private static let renewalDays = 30

    fileprivate static func hours(_ hours: Double) -> String {
        hours < 1
            ? "under an hour" : hours < 48 ? "\(Int(hours)) hours" : "\(Int(hours / 24)) days"
    }

    /// A rule about each app.
    private static func app(
        _ name: String, _ judge: @escaping @Sendable (AuditedApp) -> Finding?
    ) -> Rule<AuditFacts> {
        Rule.each(name) { $0.report.apps.compactMap(judge) }
    }

    /// A rule about a number of each app, which finds nothing where the number is 0 or not known.
    private static func app(
        _ name: String, _ severity: Severity, _ number: @escaping @Sendable (AuditedApp) -> Int?,
        _ sentence: @escaping @Sendable (Int, AuditedApp) -> String, cause: String? = nil,
        cure: String = ""
    ) -> Rule<AuditFacts> {
        app(name) { app in
            guard let number = number(app), number > 0 else { return nil }
            return Finding(severity, app.object, sentence(number, app), cause: cause, cure: cure)
        }
    }

    // MARK: Holds and sweeps

    private static let host: [Rule<AuditFacts>] = [
        Rule("rows-of-no-app") { facts in
            guard facts.otherRows > 0 else { return nil }
            return Finding(
                .low, facts.report.table,
                "\(facts.otherRows.counting("row")) of the token table "
                    + "\(facts.otherRows == 1 ? "belongs" : "belong") to no app and "
                    + "environment of the settings",
                cause: "nothing sweeps them, so their dead tokens stay",
                cure: "name their app under apps, or correct store.active-users.app and "
                    + "environment")
        },
        Rule("marks-of-no-app") { facts in
            facts.stranded.map {
                Finding($0.severity, facts.report.table, $0.sentence, cure: $0.cure)
            }
        },
        .each("hold-open") { facts in
            let open = facts.report.holds.filter { $0.state == "open" }
            let findings = open.map { hold in
                let effect = hold.candidates.map {
                    ": \($0) of \(hold.living ?? 0) living rows would become invalid now"
                }
                return Finding(
                    .high, hold.object,
                    "a removal of \(hold.tuples.counting("report")) waits for a decision since "
                        + hold.held + (effect ?? ""),
                    cause: hold.judgement ?? hold.cause,
                    cure: "look at it with: pushsweep holds list; then release or discard it")
            }
            guard facts.seesHolds else {
                return findings + [
                    Finding(
                        .high, "holds", "whether a removal waits is not known",
                        cause: "the account may not read pushsweep_feed and pushsweep_report",
                        cure: "give it the rights that pushsweep check --grants prints")
                ]
            }
            return open.isEmpty
                ? [Finding(.ok, "holds", "nothing waits for a decision")] : findings
        },
        Rule("no-good-sweep") { facts in
            guard let hours = facts.report.runs.hoursSince else {
                return Finding(
                    .medium, "this host", "no sweep of this host is known that ended with 0",
                    cause: "dead tokens stay until a sweep applies what is known about them",
                    cure: "run pushsweep sweep here, or the audit on the host that sweeps")
            }
            guard hours > mostHours else {
                return Finding(.ok, "this host", "the last good sweep was \(Self.hours(hours)) ago")
            }
            return Finding(
                .high, "this host",
                "the last sweep that ended with 0 was \(Self.hours(hours)) ago",
                cause: "the hourly job does not run, or each run fails",
                cure: "see the output of the cron job or service, and run pushsweep check")
        },
        Rule("sweep-gap") { facts in
            let runs = facts.report.runs
            guard runs.hoursSince != nil, let gap = runs.longestGap, gap > mostHours else {
                return nil
            }
            return Finding(
                .low, "this host",
                "the longest time between two sweeps of the period was \(hours(gap))",
                cure: "see why the job paused: host down, timer off, another host's turn")
        },
    ]

    // MARK: Credentials

    /// A rule about each certificate and key.
    private static func credential(
        _ name: String,
        _ judge: @escaping @Sendable (AuditedCredential, _ object: String) -> Finding?
    ) -> Rule<AuditFacts> {
        Rule.each(name) { facts in
            facts.report.apps.flatMap { app in
                app.credentials.compactMap { judge($0, "\(app.object) \($0.file)") }
            }
        }
    }

    private static let credentials: [Rule<AuditFacts>] = [
        credential("credential-unusable") { credential, object in
            guard let problem = credential.problem else { return nil }
            return Finding(
                .high, object, "the \(credential.kind) cannot be used", cause: problem,
                cure: "correct the file or the settings; pushsweep check examines them")
        },
        credential("certificate-expired") { credential, object in
            guard credential.problem == nil, let days = credential.daysLeft, days < 0 else {
                return nil
            }
            return Finding(
                .high, object, "it ended at \(credential.ends ?? "")", cause: "gateways refuse it",
                cure: "renew it at Apple or your authority")
        },
        credential("certificate-ends") { credential, object in
            guard credential.problem == nil, let ends = credential.ends,
                let days = credential.daysLeft, days >= 0
            else { return nil }
            return days < renewalDays
                ? Finding(
                    .medium, object, "it ends in \(days.counting("day")), at \(ends)",
                    cure: "renew it")
                : Finding(.ok, object, "it is valid to \(ends)")
        },
    ]

    // MARK: Tokens

    private static let tokens: [Rule<AuditFacts>] = [
        app("no-rows") { app in
            guard app.tokens.rows == 0 else { return nil }
            return Finding(
                .medium, app.object, "no row of the token table belongs to it",
                cause: "the app is new, or its name or environment in the table is another",
                cure: "compare apps[].value and store.active-users with the rows")
        },
        app(
            "registered-in-future", .medium, \.tokens.fromTheFuture,
            { rows, _ in "\(rows.counting("row")) registered after the present" },
            cause: "a wrong clock or zone; no evidence can make such a row invalid",
            cure: "correct the application's clock, or the zone in the settings"),
        app("malformed-tokens") { app in
            let tokens = app.tokens
            guard tokens.rows > 0 else { return nil }
            guard tokens.malformed > 0 else {
                return Finding(.ok, app.object, "every token is well formed")
            }
            return Finding(
                .low, app.object,
                "\(tokens.malformed.counting("row", "holds", "hold")) no token that can be found"
                    + (tokens.truncated > 0
                        ? ", \(tokens.truncated) of them a shortened description" : ""),
                cause: "no evidence matches them, and a send to them fails",
                cure: "pushsweep check prints the statement that rewrites other spellings")
        },
        app(
            "never-registered", .low, \.tokens.neverRegistered,
            { rows, _ in "\(rows.counting("row", "has", "have")) no time of registration" },
            cause: "a device that comes back under the same token is not seen there",
            cure: "let the application write the time; see docs/tables.md"),
        app("idle-tokens") { app in
            guard let idle = app.idle, idle.rows > 0 else { return nil }
            return Finding(
                .note, app.object,
                "\(idle.rows) of \(app.tokens.living.counting("living row")) "
                    + "\(idle.rows == 1 ? "has" : "have") not registered for \(idle.days) days"
                    + (idle.leftOut ? ", and sends leave them out" : ""),
                cause: "APNs may answer 200 for long where the app is gone, and so nothing tells",
                cure: idle.leftOut
                    ? ""
                    : "where each registration moves the time, policy.idle-after leaves them out")
        },
    ]

    // MARK: What a sweep would do

    // Without rows nothing is due.
    private static let forecast: [Rule<AuditFacts>] = [
        app(
            "evidence-waits", .medium, { $0.tokens.rows > 0 ? $0.forecast.waiting : 0 },
            { reports, _ in "\(reports.counting("report", "waits", "wait")) for the next sweep" },
            cure: "run pushsweep sweep"),
        app(
            "removals-due", .note, { $0.tokens.rows > 0 ? $0.forecast.removals : 0 },
            { rows, _ in
                "\(rows.counting("row", "has", "have")) been stale for the time of policy.delete-after; the "
                    + "next sweep removes \(rows == 1 ? "it" : "them")"
            }),
        app(
            "sweep-would-hold", .medium, { $0.tokens.rows > 0 && $0.forecast.held ? 1 : 0 },
            { _, _ in "the guard would hold what waits, or the removals that are due" },
            cause: "it is more than the limits under guard permit",
            cure: "look at it after the next sweep with: pushsweep holds list"),
    ]

    // MARK: Queue

    private static let queue: [Rule<AuditFacts>] = [
        Rule("queue-rows-of-no-app") { facts in
            facts.unowned.map { Finding(.high, $0.table, $0.sentence, cure: $0.cure) }
        },
        app(
            "sends-saved", .note, { $0.results { $0 == "skipped (stale)" } },
            { saved, _ in
                "\(saved.counting("notification")) of the period were not sent, because their token "
                    + "was stale"
            }, cause: "each would have cost a request and an answer 410"),
        app(
            "outcome-unknown", .low, { $0.results { $0.hasPrefix("unknown") } },
            { lost, _ in
                "\(lost.counting("notification")) of the period got no answer, and are not sent again"
            }, cure: "see docs/sending.md"),
        app(
            "queued-to-stale", .note, \.queue?.toStale,
            { stale, app in
                "\(stale) of \((app.queue?.open ?? 0).counting("open row")) of the queue are for stale "
                    + "tokens; send skips them"
            }),
    ]

    // MARK: What sorting shows

    private static let deep: [Rule<AuditFacts>] = [
        .each("unbalanced-batch") { facts in
            facts.unbalanced.map {
                Finding(
                    .high, "batch \($0.batch)",
                    "it has taken in \($0.said.counting("report")) that should be there, and "
                        + "\($0.found) \($0.found == 1 ? "is" : "are")",
                    cause:
                        "another program changed pushsweep_report, or a part of a backup was restored",
                    cure: "look who may write there; what is missing nobody judges any more")
            }
        },
        app(
            "both-environments", .medium, \.deep?.tokensInBothEnvironments,
            { both, _ in "\(both.counting("token", "is", "are")) in both environments" },
            cause: "a token is valid in one environment only",
            cure: "let the application store the environment of the build"),
        app(
            "shared-tokens", .low, \.deep?.tokensOfSeveralUsers,
            { shared, _ in "\(shared.counting("token", "belongs", "belong")) to several users" },
            cause: "a device that changed its user gets the messages of both",
            cure: "remove the token of the former user at registration"),
        app(
            "duplicate-tokens", .low, \.deep?.duplicateRows,
            { rows, _ in "\(rows.counting("row", "repeats", "repeat")) a token" },
            cure: "make the token unique in the table"),
        app(
            "users-without-token", .note, \.deep?.usersWithoutLivingToken,
            { without, app in
                "\(without) of \((app.deep?.users ?? 0).counting("user")) "
                    + "\(without == 1 ? "has" : "have") no living token"
            }, cure: "list them with --users-without-token FILE"),
    ]

    // MARK: The rhythm of the evidence

    private static let pulse = PulseFinding.rules.map { rule in
        Rule<AuditFacts>.each(rule) { $0.pulse.findings(rule) }
    }

    // MARK: Quarantine and gaps

    private static let rest: [Rule<AuditFacts>] = [
        app("suspect-tokens") {
            SuspectShare(suspects: $0.suspects ?? [], tokens: $0.tokens.living, object: $0.object)
                .finding
        },
        Rule("quarantine") { facts in
            let quarantine = facts.report.quarantine
            guard quarantine.feeds > 0 else {
                return facts.seesHolds
                    ? Finding(.ok, "quarantine", "nothing is quarantined") : nil
            }
            return Finding(
                .medium, "quarantine",
                "\(quarantine.feeds.counting("batch", "has", "have")) parts that could not be used",
                cause: quarantine.reasons.first?.name ?? "",
                cure: "look at them with: pushsweep quarantine list")
        },
        .each("not-examined") { facts in
            facts.report.gaps.map {
                Finding(
                    .medium, "this audit", "a part could not be examined", cause: $0,
                    cure: "pushsweep check names rights and tables that are missing")
            }
        },
    ]
}

extension AuditedApp {
    /// The rows of the queue with some results.
    fileprivate func results(_ isCounted: (String) -> Bool) -> Int {
        (queue?.results ?? []).reduce(0) { $0 + (isCounted($1.name) ? $1.count : 0) }
    }
}
