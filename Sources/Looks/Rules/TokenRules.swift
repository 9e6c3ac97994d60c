import Findings

extension RuleBook {
    /// The rows of the token table, counted by an audit.
    static let tokens: [Rule] = [
        app(
            "no-rows", .medium, { $0.tokens.rows == 0 ? 1 : 0 }, in: [.check, .audit],
            """
            No row of the token table belongs to the app, or the table is empty.
            Every report about the app is then about an unknown token and changes nothing. A wrong name has this \
            effect too.
            SELECT app_id, environment, COUNT(*) FROM active_users GROUP BY app_id, environment; shows what rows have.
            If devices have registered, correct `store.url`, `store.active-users.table`, `apps[].value` or the \
            environment's `values`.
            """,
            { _, _ in "no row of the token table belongs to it" },
            cause: "the app is new, or its name or environment in the table is another",
            cure: "compare apps[].value and store.active-users with the rows"),
        .one(
            "rows-of-no-app", .tokens, in: [.audit], "low",
            """
            Rows of the token table have an app or an environment that the settings do not name.
            No sweep looks at these rows. Their dead tokens stay, and sends to them are wasted.
            SELECT app_id, environment, COUNT(*) FROM active_users GROUP BY app_id, environment; shows the values that \
            rows have.
            Name the missing app under `apps`, or correct `apps[].value` and the environment's `values` under \
            `store.active-users`.
            """, needs: \.report
        ) { report, facts in
            guard facts.otherRows > 0 else { return nil }
            return Finding(
                .low, report.table,
                "\(facts.otherRows.counting("row")) of the token table "
                    + "\(facts.otherRows == 1 ? "belongs" : "belong") to no app and "
                    + "environment of the settings",
                cause: "nothing sweeps them, so their dead tokens stay",
                cure: "name their app under apps, or correct store.active-users.app and "
                    + "environment")
        },
        .one(
            "marks-of-no-app", .tokens, in: [.check, .audit, .preflight],
            "high, medium beside marks of apps of the settings",
            """
            Marks in pushsweep_invalid stand under an app or environment that the settings do not name. The token \
            table has no column of apps.
            These marks do not count. Dead tokens look living again, and sends to them are wasted.
            SELECT app, environment, COUNT(*) FROM pushsweep_invalid GROUP BY app, environment; compare it with `apps` \
            in `pushsweep check --settings`.
            Give the app the name and environment that it had before. See docs/tables.md, After a wrong setting.
            """, needs: \.stranded
        ) { stranded, facts in
            var finding = Finding(
                stranded.severity, facts.location, stranded.sentence, cure: stranded.cure)
            finding.names = [facts.location] + facts.apps.map { "\($0.partition)" }
            return finding
        },
        .each(
            "registered-in-future", .tokens,
            in: [.audit, .preflight],
            "medium; high where most of the newest rows are",
            """
            Rows have a time of registration that lies in the future. A clock, a zone or the column is wrong.
            No report is later than such a time. The row stays living though its device is gone, and sends to it are \
            wasted.
            SELECT MAX(registered_at) FROM active_users; and compare it with the time in UTC.
            Correct `store.active-users.registered-at.zone`, or the clock of the program that writes the time. See \
            docs/registrations.md.
            """, needs: { $0 }
        ) { facts, _ in
            if let (clock, table) = facts.registrations, clock.ahead > 0 {
                return [
                    Finding(
                        clock.ahead * 2 > clock.rows ? .high : .medium, table,
                        "\(clock.ahead) of the newest \(clock.rows) registrations lie in the future, up to "
                            + "\(clock.farthest / 60_000) minutes: such a row is never stale",
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
        },
        app(
            "never-registered", .low, \.tokens.neverRegistered,
            """
            Rows of the token table have no time of registration, though the table has a column for it.
            A device that comes back under the same token is not seen in such a row. Older reports mark it, and it \
            gets nothing.
            SELECT COUNT(*) FROM active_users WHERE registered_at IS NULL; counts them.
            Let the application write the time with each token. See docs/registrations.md and docs/tables.md.
            """,
            { rows, _ in "\(rows.counting("row", "has", "have")) no time of registration" },
            cause: "a device that comes back under the same token is not seen there",
            cure: "let the application write the time; see docs/tables.md"),
        app(
            "both-environments", .medium, \.deep?.tokensInBothEnvironments,
            """
            One token stands in rows of both environments, production and sandbox.
            A token is valid in one environment only. Sends to the other are refused, and many of them can stop \
            sending.
            SELECT device_token FROM active_users GROUP BY device_token HAVING COUNT(DISTINCT environment) > 1;
            Let the application store the environment of the build that registered, and remove the wrong rows.
            """,
            { both, _ in "\(both.counting("token", "is", "are")) in both environments" },
            cause: "a token is valid in one environment only",
            cure: "let the application store the environment of the build"),
        app(
            "shared-tokens", .low, \.deep?.tokensOfSeveralUsers,
            """
            One token of an app stands in rows of several users.
            A device that changed its user gets the messages of both. Private text can reach the wrong person.
            SELECT device_token, COUNT(DISTINCT user_id) FROM active_users GROUP BY device_token HAVING COUNT(DISTINCT \
            user_id) > 1;
            Let the application remove the row of the former user when a token registers under another one.
            """,
            { shared, _ in "\(shared.counting("token", "belongs", "belong")) to several users" },
            cause: "a device that changed its user gets the messages of both",
            cure: "remove the token of the former user at registration"),
        app(
            "users-without-token", .note, \.deep?.usersWithoutLivingToken,
            """
            Users of the token table have no living token: all of theirs are marked or unusable.
            Such a user gets no notification on any device until one registers again.
            `pushsweep audit --deep --users-without-token FILE` writes them into a CSV file.
            Reach them another way, such as by mail, or ask them to open the app. If there are too many, look for \
            wrong marks: docs/undo.md.
            """,
            { without, app in
                "\(without) of \((app.deep?.users ?? 0).counting("user")) "
                    + "\(without == 1 ? "has" : "have") no living token"
            }, cure: "list them with --users-without-token FILE"),
    ]

    /// A rule about a number of each app, which finds nothing where the number is 0 or not known.
    static func app(
        _ name: String, area: RuleArea = .tokens, _ severity: Severity,
        _ number: @escaping @Sendable (AuditedApp) -> Int?, in askers: [Rule.Asker] = [.audit],
        _ text: String, _ sentence: @escaping @Sendable (Int, AuditedApp) -> String,
        cause: String? = nil, cure: String = ""
    ) -> Rule {
        .each(name, area, in: askers, severity.rawValue, text, needs: \.report) { report, _ in
            report.apps.compactMap { app in
                guard let number = number(app), number > 0 else { return nil }
                return Finding(
                    severity, app.object, sentence(number, app), cause: cause, cure: cure)
            }
        }
    }

    // MARK: The queue

    static let queue: [Rule] = [
        .one(
            "queue-rows-of-no-app", .queue, in: [.check, .audit, .preflight], "high",
            """
            Waiting rows of the queue have an app or an environment that no app of the settings has.
            No sender takes these rows. Their devices get nothing, and no error shows it.
            SELECT app_id, environment, COUNT(*) FROM push_queue WHERE answered_at IS NULL GROUP BY app_id, \
            environment; shows what they have.
            Write the values that the settings look for into the rows and into the program that inserts them. See \
            docs/queue.md.
            """, needs: \.unowned
        ) { unowned, _ in
            Finding(.high, unowned.table, unowned.sentence, cure: unowned.cure)
        },
        app(
            "sends-saved", area: .queue, .note, { $0.results { $0 == "skipped (stale)" } },
            """
            Notifications of the period were not sent, because their tokens were marked.
            Each would have cost a request and an answer 410, and no device would have got it.
            SELECT state, reason, COUNT(*) FROM push_queue GROUP BY state, reason; shows them as `skipped` with \
            `stale`.
            Nothing is wrong. To save the rows too, let the application queue for living devices only: docs/queue.md.
            """,
            { saved, _ in
                "\(saved.counting("notification")) of the period were not sent, because their token "
                    + "was stale"
            }, cause: "each would have cost a request and an answer 410"),
        app(
            "outcome-unknown", area: .queue, .low, { $0.results { $0.hasPrefix("unknown") } },
            """
            Notifications of the period were handed over and got no answer. They are not sent again.
            The device may have got the notification or not. A second copy cannot be taken back.
            SELECT id, reason, answered_at FROM push_queue WHERE state = 'unknown'; lists them.
            Look for network faults and killed senders. `send.resend-unknown: true` sends them again, perhaps twice: \
            docs/sending.md.
            """,
            { lost, _ in
                "\(lost.counting("notification")) of the period got no answer, and are not sent again"
            }, cure: "see docs/sending.md"),
        app(
            "queued-to-stale", area: .queue, .note, \.queue?.toStale,
            """
            Rows that wait in the queue are for marked tokens. `pushsweep send` skips them.
            They cost room and no request. A user whose only token is stale gets nothing.
            `pushsweep send --dry-run` says what would be sent and skipped.
            Let the application queue for living devices only: docs/queue.md has the INSERT.
            """,
            { stale, app in
                "\(stale) of \((app.queue?.open ?? 0).counting("open row")) of the queue are for stale "
                    + "tokens; send skips them"
            }),
        .examined(
            "queue-claims-not-seen", .queue, in: [.check], "medium",
            """
            The account of the database may not read pushsweep_claim or pushsweep_delivery, where senders note their \
            rows.
            Rows that a sender holds or has finished may be counted as due. Numbers of waiting notifications are then \
            too large.
            `pushsweep check --grants` prints the rights, those of the queue apart. `pushsweep send --dry-run` counts \
            what is due.
            If the table exists, run these statements as an administrator. See docs/operating.md, Rights.
            """),
        .examined(
            "queue-default-state", .queue, in: [.check], "medium",
            """
            A row that is inserted into the queue without a state or an environment gets a value that no sender looks \
            for.
            Nothing sends such a row. Its device gets nothing, and no error shows it.
            SHOW CREATE TABLE push_queue; shows the defaults. SELECT state, COUNT(*) FROM push_queue GROUP BY state; \
            shows what rows have.
            Run the ALTER TABLE that `pushsweep check` prints, or name the value in each INSERT. See docs/queue.md.
            """),
    ]
}

extension AuditedApp {
    /// The rows of the queue with some results.
    fileprivate func results(_ isCounted: (String) -> Bool) -> Int {
        (queue?.results ?? []).reduce(0) { $0 + (isCounted($1.name) ? $1.count : 0) }
    }
}
