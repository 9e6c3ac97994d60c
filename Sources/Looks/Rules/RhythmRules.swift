import Findings
import TokenHygiene
import TokenTable

extension RuleBook {
    /// What is not as usual, by app. A sender may go on without evidence, so no gate shuts for it.
    static let rhythm: [Rule] = [
        pulse(
            "evidence-stopped",
            "medium, in an audit high after four times as long",
            """
            No report about the app came for twice its longest usual pause, or for longer.
            A sender that reports nothing looks like one that hears of no dead token. Dead tokens stay, and sends to \
            them are wasted.
            `pushsweep audit` prints the evidence by day and source. SELECT app, source, MAX(opened_at) FROM \
            pushsweep_feed GROUP BY app, source;
            See whether the sender still reports, the import still runs, and the gateway still answers. See \
            docs/evidence.md.
            """),
        pulse(
            "evidence-fits-no-row",
            "medium, in an audit high from nine tenths on",
            """
            Most reports of the last 7 days name tokens that no row has, and it was not so before.
            These reports change nothing. The dead tokens that they should find stay in use.
            `pushsweep explain TOKEN` with a token from the reports says what the table has. SELECT app_id, COUNT(*) \
            FROM active_users GROUP BY app_id;
            Correct `store.active-users.table`, `apps[].value` or the environment. The next sweep judges such reports \
            of 30 days again: docs/tables.md.
            """),
        pulse(
            "evidence-of-returned", "medium",
            """
            Most reports of the last 7 days are about devices that registered later than the report, and it was not so \
            before.
            Such a report keeps its row living. If something else than a registration writes the time, dead tokens \
            stay in use.
            `pushsweep explain TOKEN` shows the times of the report and the registration of one device.
            Find what writes the column under `registered-at`, or whether an old log was read. See \
            docs/registrations.md.
            """),
        pulse(
            "evidence-surge", "note",
            """
            Yesterday had at least four times the reports of a large day, and a hundred more.
            Many devices may be gone at once. A wrong credential or an old log can also cause such a day, and then \
            marks are wrong.
            `pushsweep audit --since DATE` shows evidence by day and source. `pushsweep undo --list` shows the runs \
            that changed rows.
            Look at `pushsweep holds list` and at the credentials of the sender. If marks are wrong, take them back: \
            docs/undo.md.
            """),
        pulse(
            "bad-tokens-rise", "medium",
            """
            APNs called tokens bad at least three times as often in the last 7 days as in the largest week before.
            With a wrong certificate, topic or environment every token looks bad. Then the devices get nothing.
            `pushsweep audit --suspects FILE` lists the rows with the reason. It says whether APNs had known each \
            token before.
            Correct certificate, topic and environment of the senders. See docs/evidence.md, Bad tokens.
            """),
        .each(
            "suspect-tokens", .evidence, in: [.audit, .preflight],
            "high above 5 % (in preflight above --max-suspect), medium above a fifth of that, else note",
            """
            APNs answered 400 BadDeviceToken or DeviceTokenNotForTopic about living tokens. Such an answer makes a \
            token suspect and marks nothing.
            A send to such a token is refused, and the device gets nothing. Most are of another environment or another \
            app.
            `pushsweep audit --suspects FILE` lists their rows. `pushsweep explain TOKEN` tells the history of one.
            If APNs had known most of them before, correct the sender's credentials. Else correct environment or app \
            of the rows: docs/evidence.md.
            """, needs: \.suspects
        ) { suspects, _ in suspects.compactMap(\.finding) },
        .each(
            "wrong-environment", .evidence, in: [.check, .audit, .preflight],
            "high where nine of ten answers from the other environment know the token, else medium",
            """
            APNs calls tokens bad in the environment that their rows name, and knows them in the other one. Nine of ten \
            answers from there, among ten or more, show rather that two values of the settings are exchanged, or two gateways.
            Each send to such a row is refused, and the device gets nothing. Under exchanged values each report is about \
            the wrong rows too.
            `pushsweep environments` counts them, and `--list FILE` names the proven rows. It changes nothing.
            Compare `store.active-users.environment.values`, `apps[].environment` and `provider.host` first. Were they \
            exchanged, correct them and forget what was heard: DELETE FROM pushsweep_suspect; else let the application move \
            the rows: `pushsweep environments --sql FILE`. See docs/environments.md.
            """, needs: \.misplaced
        ) { misplaced, facts in
            facts.apps.compactMap { app in
                misplaced.first { $0.partition == app.storedPartition }?
                    .finding(of: "\(app.partition)")
            }
        },
    ]

    /// A rule of `Pulse` about each app that is looked at.
    private static func pulse(_ name: String, _ weight: String, _ text: String) -> Rule {
        .each(
            name, .evidence, in: [.check, .audit, .preflight.atMost(.medium)], weight, text,
            needs: \.pulse
        ) { pulse, facts in
            pulse.found.filter { found in
                found.finding.rule == name && facts.apps.contains { $0.partition == found.app }
            }.map {
                Finding(
                    $0.finding.severity, "\($0.app)", $0.finding.sentence,
                    cause: $0.finding.cause, cure: $0.finding.cure)
            }
        }
    }
}
