// Judges the facts of an audit: each rule looks at one kind of fact and names what is the matter, why
// it matters and what to do. A rule that finds nothing wrong says that too, so that a reader sees
// what was examined. The rules are pure, and their names never change.

import Encodings

extension AuditReport {
    /// Hours without a good sweep after which a person should look: a day, and two hourly runs.
    static let mostHours = 26.0
    /// Days before the end of a certificate at which it should be renewed.
    static let renewalDays = 30

    /// Adds the findings that follow from the facts, sorts them and writes the headline. `seesHost` is
    /// false where a state folder or a journal is there and could not be read: what is not seen in it
    /// is not called absent.
    mutating func judge(seesHost: Bool) {
        judgeHolds(seesHost)
        judgeSweeps()
        for app in apps {
            judgeCredentials(of: app)
            judgeTokens(of: app)
            judgeForecast(of: app)
            judgeQueue(of: app)
            judgeDeep(of: app)
        }
        judgeQuarantine(seesHost)
        judgeGaps()
        let order = Dictionary(
            uniqueKeysWithValues: AuditSeverity.allCases.enumerated().map { ($1, $0) })
        // Rules found first stay first within a severity.
        findings = findings.enumerated().sorted {
            (order[$1.element.severity] ?? 0, $0.offset)
                < (order[$0.element.severity] ?? 0, $1.offset)
        }.map(\.element)
        healthy = !findings.contains { $0.severity == .high }
        writeHeadline()
    }

    private mutating func add(_ finding: AuditFinding) { findings.append(finding) }

    private mutating func writeHeadline() {
        let high = findings.filter { $0.severity == .high }
        if let first = high.first {
            let more = high.count - 1
            headline = "Not healthy: \(first.object): \(first.summary)"
            if more > 0 { headline += ", and \(more.counting("more grave finding"))" }
            return
        }
        let living = apps.reduce(0) { $0 + $1.tokens.living }
        let stale = apps.reduce(0) { $0 + $1.tokens.stale }
        headline =
            "Healthy: \(living.counting("living token")), \(stale) stale"
            + (runs.hoursSince.map { ", last good sweep \(Self.hours($0)) ago" } ?? "")
    }

    private static func hours(_ hours: Double) -> String {
        hours < 1
            ? "under an hour" : hours < 48 ? "\(Int(hours)) hours" : "\(Int(hours / 24)) days"
    }

    // MARK: Rules

    private mutating func judgeHolds(_ seesHost: Bool) {
        let open = holds.filter { $0.state == "open" }
        for hold in open {
            add(
                AuditFinding(
                    "hold-open", .high, "\(hold.app)/\(hold.environment)",
                    "a removal of \(hold.tuples.counting("tuple")) waits for a decision since \(hold.held)"
                        + (hold.candidates.map {
                            ": \($0) of \(hold.living ?? 0) living rows would become invalid now"
                        } ?? ""),
                    cause: hold.judgement ?? hold.cause,
                    cure: "look at it with: pushsweep holds list; then release or discard it"))
        }
        if !seesHost {
            add(
                AuditFinding(
                    "hold-open", .high, "holds", "whether a removal waits is not known",
                    cause: "the state folder of this host, or a journal in it, could not be read",
                    cure: "run the audit as the user who sweeps"))
        } else if open.isEmpty {
            add(AuditFinding("hold-open", .ok, "holds", "nothing waits for a decision"))
        }
    }

    private mutating func judgeSweeps() {
        guard let hours = runs.hoursSince else {
            add(
                AuditFinding(
                    "no-good-sweep", .medium, "this host",
                    "no sweep of this host is known that ended with 0",
                    cause: "dead tokens stay until a sweep applies what is known about them",
                    cure: "run pushsweep sweep here, or the audit on the host that sweeps"))
            return
        }
        if hours > Self.mostHours {
            add(
                AuditFinding(
                    "no-good-sweep", .high, "this host",
                    "the last sweep that ended with 0 was \(Self.hours(hours)) ago",
                    cause: "the hourly job does not run, or each run fails",
                    cure: "see the output of the cron job or service, and run pushsweep check"))
        } else {
            add(
                AuditFinding(
                    "no-good-sweep", .ok, "this host",
                    "the last good sweep was \(Self.hours(hours)) ago"))
        }
        if let gap = runs.longestGap, gap > Self.mostHours {
            add(
                AuditFinding(
                    "sweep-gap", .low, "this host",
                    "the longest time between two sweeps of the period was \(Self.hours(gap))",
                    cure: "see why the job paused: host down, timer off, another host's turn"))
        }
    }

    private mutating func judgeCredentials(of app: AuditedApp) {
        for credential in app.credentials {
            let object = "\(app.app)/\(app.environment) \(credential.file)"
            if let problem = credential.problem {
                add(
                    AuditFinding(
                        "credential-unusable", .high, object,
                        "the \(credential.kind) cannot be used", cause: problem,
                        cure: "correct the file or the settings; pushsweep check examines them"))
            } else if let days = credential.daysLeft, let ends = credential.ends {
                if days < 0 {
                    add(
                        AuditFinding(
                            "certificate-expired", .high, object, "it ended at \(ends)",
                            cause: "gateways refuse it", cure: "renew it at Apple or your authority"
                        ))
                } else if days < Self.renewalDays {
                    add(
                        AuditFinding(
                            "certificate-ends", .medium, object,
                            "it ends in \(days.counting("day")), at \(ends)", cure: "renew it"))
                } else {
                    add(
                        AuditFinding(
                            "certificate-ends", .ok, object, "it is valid to \(ends)"))
                }
            }
        }
    }

    private mutating func judgeTokens(of app: AuditedApp) {
        let (object, tokens) = ("\(app.app)/\(app.environment)", app.tokens)
        if tokens.rows == 0 {
            add(
                AuditFinding(
                    "no-rows", .medium, object, "no row of the token table belongs to it",
                    cause: "the app is new, or its name or environment in the table is another",
                    cure: "compare apps[].value and store.active-users with the rows"))
            return
        }
        if tokens.fromTheFuture > 0 {
            add(
                AuditFinding(
                    "registered-in-future", .medium, object,
                    "\(tokens.fromTheFuture.counting("row")) registered after the present",
                    cause: "a wrong clock or zone; no evidence can make such a row invalid",
                    cure: "correct the application's clock, or the zone in the settings"))
        }
        if tokens.malformed > 0 {
            add(
                AuditFinding(
                    "malformed-tokens", .low, object,
                    "\(tokens.malformed.counting("row")) hold no token that can be found"
                        + (tokens.truncated > 0
                            ? ", \(tokens.truncated) of them a shortened description" : ""),
                    cause: "no evidence matches them, and a send to them fails",
                    cure: "pushsweep check prints the statement that rewrites other spellings"))
        } else {
            add(AuditFinding("malformed-tokens", .ok, object, "every token is well formed"))
        }
        if tokens.neverRegistered > 0 {
            add(
                AuditFinding(
                    "never-registered", .low, object,
                    "\(tokens.neverRegistered.counting("row")) have no time of registration",
                    cause: "a device that comes back under the same token is not seen there",
                    cure: "let the application write the time; see docs/tables.md"))
        }
    }

    private mutating func judgeForecast(of app: AuditedApp) {
        // Without rows nothing is due.
        guard app.tokens.rows > 0 else { return }
        let object = "\(app.app)/\(app.environment)"
        if app.forecast.waiting > 0 {
            add(
                AuditFinding(
                    "evidence-waits", .medium, object,
                    "\(app.forecast.waiting.counting("report")) wait for the next sweep",
                    cure: "run pushsweep sweep"))
        }
        if app.forecast.removals > 0 {
            add(
                AuditFinding(
                    "removals-due", .note, object,
                    "\(app.forecast.removals.counting("row")) have been stale for the time of "
                        + "policy.delete-after; the next sweep removes them"))
        }
        if app.forecast.held {
            add(
                AuditFinding(
                    "sweep-would-hold", .medium, object,
                    "the guard would hold what waits, or the removals that are due",
                    cause: "it is more than the limits under guard permit",
                    cure: "look at it after the next sweep with: pushsweep holds list"))
        }
    }

    private mutating func judgeQueue(of app: AuditedApp) {
        guard let queue = app.queue else { return }
        let saved = queue.results.first { $0.name == "skipped (stale)" }?.count ?? 0
        if saved > 0 {
            add(
                AuditFinding(
                    "sends-saved", .note, "\(app.app)/\(app.environment)",
                    "\(saved.counting("notification")) of the period were not sent, because their "
                        + "token was stale",
                    cause: "each would have cost a request and an answer 410"))
        }
        let lost = queue.results.filter { $0.name.hasPrefix("unknown") }.reduce(0) { $0 + $1.count }
        if lost > 0 {
            add(
                AuditFinding(
                    "outcome-unknown", .low, "\(app.app)/\(app.environment)",
                    "\(lost.counting("notification")) of the period got no answer, and are not sent "
                        + "again",
                    cure: "see docs/sending.md"))
        }
        guard queue.toStale > 0 else { return }
        add(
            AuditFinding(
                "queued-to-stale", .note, "\(app.app)/\(app.environment)",
                "\(queue.toStale) of \(queue.open.counting("open row")) of the queue are for stale "
                    + "tokens; send skips them"))
    }

    private mutating func judgeDeep(of app: AuditedApp) {
        guard let deep = app.deep else { return }
        let object = "\(app.app)/\(app.environment)"
        if deep.tokensInBothEnvironments > 0 {
            add(
                AuditFinding(
                    "both-environments", .medium, object,
                    "\(deep.tokensInBothEnvironments.counting("token")) are in both environments",
                    cause: "a token is valid in one environment only",
                    cure: "let the application store the environment of the build"))
        }
        if let shared = deep.tokensOfSeveralUsers, shared > 0 {
            add(
                AuditFinding(
                    "shared-tokens", .low, object,
                    "\(shared.counting("token")) belong to several users",
                    cause: "a device that changed its user gets the messages of both",
                    cure: "remove the token of the former user at registration"))
        }
        if deep.duplicateRows > 0 {
            add(
                AuditFinding(
                    "duplicate-tokens", .low, object,
                    "\(deep.duplicateRows.counting("row")) repeat a token",
                    cure: "make the token unique in the table"))
        }
        if let without = deep.usersWithoutLivingToken, let users = deep.users, without > 0 {
            add(
                AuditFinding(
                    "users-without-token", .note, object,
                    "\(without) of \(users.counting("user")) have no living token",
                    cure: "list them with --users-without-token FILE"))
        }
    }

    private mutating func judgeQuarantine(_ seesHost: Bool) {
        if quarantine.feeds > 0 {
            add(
                AuditFinding(
                    "quarantine", .medium, "quarantine",
                    "\(quarantine.feeds.counting("feed")) have parts that could not be used",
                    cause: quarantine.reasons.first?.name ?? "",
                    cure: "look at them with: pushsweep quarantine list"))
        } else if seesHost {
            add(AuditFinding("quarantine", .ok, "quarantine", "nothing is quarantined"))
        }
    }

    private mutating func judgeGaps() {
        for gap in gaps {
            add(
                AuditFinding(
                    "not-examined", .medium, "this audit", "a part could not be examined",
                    cause: gap, cure: "pushsweep check names rights and tables that are missing"))
        }
    }
}
