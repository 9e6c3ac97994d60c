import Findings
import Operations
import PushQueue
import TokenTable

extension RuleBook {
    /// The rows of the token table, counted by an audit.
    static let tokens: [Rule] = [
        .app("no-rows", .tokens, in: [.check, .audit], judge: noRows),
        .one("rows-of-no-app", .tokens, in: [.audit], needs: \.report, judge: rowsOfNoApp),
        .one(
            "marks-of-no-app", .tokens, in: [.check, .audit, .preflight],
            needs: \.stranded, judge: marksOfNoApp),
        .each(
            "registered-in-future", .tokens, in: [.audit, .preflight],
            needs: \.self, judge: registeredInFuture),
        .app("never-registered", .tokens, in: [.audit], judge: neverRegistered),
        .app("both-environments", .tokens, in: [.audit], judge: bothEnvironments),
        .app("shared-tokens", .tokens, in: [.audit], judge: sharedTokens),
        .app("users-without-token", .tokens, in: [.audit], judge: usersWithoutToken),
    ]

    private static func noRows(_ app: AuditedApp) -> Finding? {
        guard app.tokens.rows == 0 else { return nil }
        return Finding(
            .medium, app.object, "no row of the token table belongs to it",
            cause: "the app is new, or its name or environment in the table is another",
            cure: "compare apps[].value and store.active-users with the rows")
    }

    private static func rowsOfNoApp(_ report: AuditReport, _ facts: Facts) -> Finding? {
        guard facts.otherRows > 0 else { return nil }
        return Finding(
            .low, report.table,
            "\(facts.otherRows.counting("row")) of the token table "
                + "\(facts.otherRows == 1 ? "belongs" : "belong") to no app and "
                + "environment of the settings",
            cause: "nothing sweeps them, so their dead tokens stay",
            cure: "name their app under apps, or correct store.active-users.app and environment")
    }

    private static func marksOfNoApp(_ stranded: StrandedMarks, _ facts: Facts) -> Finding? {
        var finding = Finding(
            stranded.severity, facts.location, stranded.sentence, cure: stranded.cure)
        finding.names = [facts.location] + facts.apps.map { "\($0.partition)" }
        return finding
    }

    /// The newest rows, where a look has read them; else the rows of an audit.
    private static func registeredInFuture(_ facts: Facts, _: Facts) -> [Finding] {
        if let (clock, table) = facts.registrations, clock.ahead > 0 {
            return [
                Finding(
                    clock.ahead * 2 > clock.rows ? .high : .medium, table,
                    "\(clock.ahead) of the newest \(clock.rows) registrations lie in the future, "
                        + "up to \(clock.farthest / 60_000) minutes: such a row is never stale",
                    cure: "correct store.active-users.registered-at.zone, or the clock of the "
                        + "program that writes it")
            ]
        }
        return (facts.report?.apps ?? []).filter { $0.tokens.fromTheFuture > 0 }.map {
            Finding(
                .medium, $0.object,
                "\($0.tokens.fromTheFuture.counting("row")) registered after the present",
                cause: "a wrong clock or zone; no evidence can make such a row invalid",
                cure: "correct the application's clock, or the zone in the settings")
        }
    }

    private static func neverRegistered(_ app: AuditedApp) -> Finding? {
        let rows = app.tokens.neverRegistered
        guard rows > 0 else { return nil }
        return Finding(
            .low, app.object, "\(rows.counting("row", "has", "have")) no time of registration",
            cause: "a device that comes back under the same token is not seen there",
            cure: "let the application write the time; see docs/tables.md")
    }

    private static func bothEnvironments(_ app: AuditedApp) -> Finding? {
        guard let both = app.deep?.tokensInBothEnvironments, both > 0 else { return nil }
        return Finding(
            .medium, app.object, "\(both.counting("token", "is", "are")) in both environments",
            cause: "a token is valid in one environment only",
            cure: "let the application store the environment of the build")
    }

    private static func sharedTokens(_ app: AuditedApp) -> Finding? {
        guard let shared = app.deep?.tokensOfSeveralUsers, shared > 0 else { return nil }
        return Finding(
            .low, app.object,
            "\(shared.counting("token", "belongs", "belong")) to several users",
            cause: "a device that changed its user gets the messages of both",
            cure: "remove the token of the former user at registration")
    }

    private static func usersWithoutToken(_ app: AuditedApp) -> Finding? {
        guard let deep = app.deep, let without = deep.usersWithoutLivingToken, without > 0 else {
            return nil
        }
        return Finding(
            .note, app.object,
            "\(without) of \((deep.users ?? 0).counting("user")) "
                + "\(without == 1 ? "has" : "have") no living token",
            cure: "list them with --users-without-token FILE")
    }

    // MARK: The queue

    static let queue: [Rule] = [
        .one(
            "queue-rows-of-no-app", .queue, in: [.check, .audit, .preflight],
            needs: \.unowned, judge: queueRowsOfNoApp),
        .app("sends-saved", .queue, in: [.audit], judge: sendsSaved),
        .app("outcome-unknown", .queue, in: [.audit], judge: outcomeUnknown),
        .app("queued-to-stale", .queue, in: [.audit], judge: queuedToStale),
        .examined("queue-claims-not-seen", .queue, in: [.check]),
        .examined("queue-default-state", .queue, in: [.check]),
    ]

    private static func queueRowsOfNoApp(_ unowned: UnownedRows, _: Facts) -> Finding? {
        Finding(.high, unowned.table, unowned.sentence, cure: unowned.cure)
    }

    private static func sendsSaved(_ app: AuditedApp) -> Finding? {
        let saved = app.results { $0 == "skipped (stale)" }
        guard saved > 0 else { return nil }
        return Finding(
            .note, app.object,
            "\(saved.counting("notification")) of the period were not sent, because their token "
                + "was stale",
            cause: "each would have cost a request and an answer 410")
    }

    private static func outcomeUnknown(_ app: AuditedApp) -> Finding? {
        let lost = app.results { $0.hasPrefix("unknown") }
        guard lost > 0 else { return nil }
        return Finding(
            .low, app.object,
            "\(lost.counting("notification")) of the period got no answer, and are not sent again",
            cure: "see docs/sending.md")
    }

    private static func queuedToStale(_ app: AuditedApp) -> Finding? {
        guard let queue = app.queue, queue.toStale > 0 else { return nil }
        return Finding(
            .note, app.object,
            "\(queue.toStale) of \(queue.open.counting("open row")) of the queue are for stale "
                + "tokens; send skips them")
    }
}

extension AuditedApp {
    /// The rows of the queue with some results.
    fileprivate func results(_ isCounted: (String) -> Bool) -> Int {
        (queue?.results ?? []).reduce(0) { $0 + (isCounted($1.name) ? $1.count : 0) }
    }
}
