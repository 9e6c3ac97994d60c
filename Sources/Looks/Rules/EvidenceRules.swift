import Findings
import Operations
import TokenHygiene

extension RuleBook {
    /// Holds, sweeps, and what waits.
    static let evidence: [Rule] = [
        .each(
            "open-hold", .evidence, in: [.check, .audit, .preflight], "high",
            """
            The guard stopped a removal, and a person has not decided about it. Where the batches cannot be read, the \
            finding says that this is not known.
            A held report changes no row. Later reports about the same app that come the same way are held too, so \
            dead tokens stay in use.
            `pushsweep holds list` names the holds. `pushsweep holds show ID` compares each token of one with its row \
            and changes nothing.
            Apply the set with `pushsweep holds release DIGEST`, or drop it with `pushsweep holds discard ID --all \
            --reason TEXT`. See docs/holds.md.
            """, needs: \.batches
        ) { batches, facts in
            if let unseen = batches.unseen {
                return [
                    Finding(
                        .high, "holds", "whether a removal waits for a decision is not known",
                        cause: "\(unseen)",
                        cure: "give the account its rights: pushsweep check --grants")
                ]
            }
            let open = batches.holds.filter { hold in
                facts.look != .preflight || facts.apps.contains { $0.partition == hold.partition }
            }
            guard !open.isEmpty else {
                return [Finding(.ok, "holds", "nothing waits for a decision")]
            }
            return open.map { hold in
                let known = facts.report?.holds.first { $0.hold == hold.id }
                let effect = known?.candidates.map {
                    ": \($0) of \(known?.living ?? 0) living rows would become invalid now"
                }
                var finding = Finding(
                    .high, "\(hold.partition)",
                    "a removal of \(hold.reports.counting("report")) waits for a decision since "
                        + hold.since.rfc3339 + (effect ?? ""),
                    cause: known?.judgement ?? hold.cause,
                    cure:
                        "look at it with: pushsweep holds show \(hold.id); then release or discard it"
                )
                // A decision to live with one hold is none about the next.
                finding.names = ["hold \(hold.id)"]
                finding.exit = ExitStatus.held.rawValue
                return finding
            }
        },
        .one(
            "no-recent-sweep", .evidence,
            in: [.check, .audit, .preflight.atMost(.medium)],
            "high, where none is known medium; medium in preflight, which has its own --max-hours",
            """
            No sweep ended well within 26 hours, or within `--max-hours` of preflight. Perhaps none is known at all.
            Dead tokens stay living in the table until a sweep applies the reports. Every send to them is wasted.
            SELECT host, started, ended FROM pushsweep_run WHERE kind = 'sweep' ORDER BY started DESC LIMIT 10; lists \
            the sweeps that changed something.
            Run `pushsweep sweep` by hand and read its message. Then start the job again: `systemctl enable --now \
            pushsweep-sweep.timer`, or the crontab.
            """, needs: \.sweeps
        ) { sweeps, facts in
            guard let last = sweeps.last, let hours = sweeps.hours else {
                let future = sweeps.successes.max()
                // Before the first sweep a check has nothing to tell.
                if facts.look == .check, future == nil, !sweeps.isBegun { return nil }
                return Finding(
                    .medium, facts.subject,
                    future.map {
                        "the only sweep known to have succeeded ended at \($0.rfc3339), which is in the future, so a "
                            + "clock was or is wrong and it counts as none"
                    } ?? "neither this host nor the database knows a sweep that succeeded",
                    cause: "dead tokens stay until a sweep applies what is known about them",
                    cure: "run a sweep, or check that its timer runs")
            }
            guard hours > sweeps.mostHours else {
                return Finding(
                    .ok, facts.subject, "the last good sweep was \(hours.spanOfHours) ago")
            }
            return Finding(
                .high, facts.subject,
                "the last sweep that succeeded ended at \(last.rfc3339), \(hours.spanOfHours) ago",
                cause: facts.batches?.holds.isEmpty == false
                    ? "a removal waits for a decision, so each run ends with 3"
                    : "the hourly job does not run, or each run fails",
                cure: facts.batches?.holds.isEmpty == false
                    ? "decide about it: pushsweep holds list"
                    : "see the output of the cron job or service, and run pushsweep check")
        },
        .one(
            "stop-file", .evidence, in: [.check, .audit, .preflight], "medium",
            """
            The file of `throttle.stop-file` stands on this host, so somebody stopped the runs that change rows.
            While it stands each sweep, replay, release and undo of this host ends with 75. What is heard waits. `send` goes on.
            `ls -l` says who made it and when. `pushsweep check --settings` shows the path.
            Remove the file when the reason is over. The next run goes on where the last one stopped.
            """, needs: \.stop
        ) { stop, _ in
            Finding(
                .medium, stop.file,
                "it stops sweeps and whatever else changes rows, since \(stop.since.rfc3339)",
                cure: "remove it when the reason is over")
        },
        .one(
            "first-look", .evidence, in: [.audit], "low; high where most rows are dead",
            """
            The report is of `pushsweep init --report`, which reads the token table alone.
            What became of evidence, what is held and which runs there were stands in Pushsweep's tables. They are not there \
            yet, or were not read.
            `pushsweep init` prints the settings under which the rows were counted, with a reason for each.
            Go on with docs/first-day.md. Then `pushsweep audit` reports on everything.
            """, needs: \.firstLook
        ) { table, facts in
            let tokens = facts.report?.apps.map(\.tokens) ?? []
            let (living, stale) = (
                tokens.reduce(0) { $0 + $1.living }, tokens.reduce(0) { $0 + $1.stale }
            )
            if stale > living {
                return Finding(
                    .high, table,
                    "\(stale) of \(living + stale) rows are dead by these settings: living and dead may be exchanged",
                    cause: "a sweep would take the others for living, and send nothing to these",
                    cure: "look at rows of devices that you know, then correct --mark")
            }
            return Finding(
                .low, table,
                "this is a first look at the table alone: how healthy it is shows once Pushsweep has its tables and "
                    + "hears what APNs says",
                cure:
                    "answer the questions in the settings that pushsweep init prints, and go on with its commands"
            )
        },
        missing(
            "no-recent-import", "import",
            """
            This host imported the log or export of a sender regularly. Now no import has run for twice the longest pause that \
            was usual.
            Reports that stand only in that file are not judged. Dead tokens stay in use, and nothing fails.
            `pushsweep audit --format json` counts the runs of this host by kind under `runs`. Without a finding on another \
            host, look whether it imports now.
            Start the job again that imports the file. If the sender inserts its reports now, nothing is to be done: the \
            finding ends by itself after eight weeks.
            """),
        missing(
            "no-recent-send", "send",
            """
            This host sent from the queue regularly. Now no `pushsweep send` has run for twice the longest pause that was usual.
            Rows of the queue wait or expire, and the answers of APNs, the main source of evidence, do not come.
            `pushsweep send --dry-run` says what waits. `systemctl status` or the crontab says whether the job still runs.
            Start the sender again. If another host sends now, nothing is to be done: the finding ends by itself after eight \
            weeks.
            """),
        .one(
            "sweep-gap", .evidence, in: [.audit], "low",
            """
            The longest pause between two sweeps in the period of the audit was longer than 26 hours. The last sweep \
            may be recent.
            During the pause no report was applied. Devices that were gone got sends that were wasted.
            `pushsweep audit --format json` has `longestGap` in hours under `runs`. `--since TIME` and `--until TIME` \
            choose the period.
            Find out whether the host was down, the timer was off, or another host had the turn. See \
            docs/operating.md, Several hosts.
            """, needs: \.sweeps?.longestGap
        ) { gap, facts in
            guard facts.sweeps?.last != nil, gap > SweepFacts.usualHours else { return nil }
            return Finding(
                .low, "this host",
                "the longest time between two sweeps of the period was \(gap.spanOfHours)",
                cure: "see why the job paused: host down, timer off, another host's turn")
        },
        .each(
            "waiting-evidence", .evidence,
            in: [.check, .audit, .preflight], "medium",
            """
            Reports wait that no sweep has judged: lists in a journal, batches in the database, rows of \
            pushsweep_evidence, or answers that a sender left.
            The devices in these reports still count as living. Sends to those that are gone are wasted.
            `pushsweep check` names waiting lists and batches. SELECT app, environment, COUNT(*) FROM \
            pushsweep_evidence GROUP BY app, environment; counts rows.
            Run `pushsweep sweep` on each host that has such reports. If rows stay, see docs/troubleshooting.md.
            """, needs: \.host
        ) { host, facts in
            var findings = facts.refusals.map {
                Finding(
                    .medium, facts.subject, "what waits could not be applied", cause: "\($0)",
                    cure: "wait for the other run or run again; --read-only looks without applying")
            }
            switch facts.look {
            // An examination names each batch, and an audit has judged them.
            case .check: break
            case .audit:
                findings += (facts.report?.apps ?? []).compactMap { app in
                    let reports = app.forecast.waiting
                    guard app.tokens.rows > 0, reports > 0 else { return nil }
                    return Finding(
                        .medium, app.object,
                        "\(reports.counting("report", "waits", "wait")) for the next sweep",
                        cure: "run pushsweep sweep")
                }
            case .preflight: findings += facts.unapplied(host).map { [$0] } ?? []
            }
            return findings
        },
        .each(
            "sweep-would-hold", .evidence, in: [.audit], "medium",
            """
            The guard would stop what waits, or the removals that are due. They are more than the limits under `guard` \
            permit.
            The next sweep would change none of these rows. It would end with 3 and wait for a person.
            `pushsweep sweep --dry-run` says what a sweep would do and holds nothing. After a real sweep use \
            `pushsweep holds show ID`.
            Look for a wrong gateway, app, environment or clock first. If the removals are right, release the hold: \
            docs/holds.md.
            """, needs: \.report
        ) { report, _ in
            report.apps.filter { $0.tokens.rows > 0 && $0.forecast.held }.map {
                Finding(
                    .medium, $0.object,
                    "the guard would hold what waits, or the removals that are due",
                    cause: "it is more than the limits under guard permit",
                    cure: "look at it after the next sweep with: pushsweep holds list")
            }
        },
        .each(
            "removals-due", .evidence, in: [.audit], "note",
            """
            Rows have kept their mark for the time of `policy.delete-after`. The next sweep removes them.
            A removed row comes back only by an undo, and only while the ledger has its entry.
            `pushsweep sweep --dry-run` counts the rows that would be removed. `pushsweep explain TOKEN` tells about \
            one of them.
            Nothing is wrong. To keep the rows longer raise `policy.delete-after`. To keep them for good write \
            `policy.action: mark` and leave it out.
            """, needs: \.report
        ) { report, _ in
            report.apps.filter { $0.tokens.rows > 0 && $0.forecast.removals > 0 }.map {
                let rows = $0.forecast.removals
                return Finding(
                    .note, $0.object,
                    "\(rows.counting("row", "has", "have")) been stale for the time of policy.delete-after; the "
                        + "next sweep removes \(rows == 1 ? "it" : "them")")
            }
        },
        .one(
            "quarantined-evidence", .evidence,
            in: [.check, .audit, .preflight.atMost(.low)], "medium; low in preflight",
            """
            Parts of batches could not be used: lines of a file, rows of pushsweep_evidence, or bytes of a list. They \
            wait for a person.
            No sweep judges these parts. A dead token that stands only there stays in use.
            `pushsweep quarantine list` prints the parts with the reason. `pushsweep quarantine export BATCH FILE` \
            writes them whole into a file.
            Correct the exported parts and import them as docs/evidence.md says, or drop them with `pushsweep \
            quarantine discard BATCH`.
            """, needs: \.batches
        ) { batches, facts in
            guard batches.unseen == nil else { return nil }
            guard !batches.quarantined.isEmpty else {
                return Finding(.ok, "quarantine", "nothing is quarantined")
            }
            return Finding(
                .medium, "quarantine",
                "\(batches.quarantined.count.counting("batch", "has", "have")) parts that could not be used",
                cause: facts.report?.quarantine.reasons.first?.name,
                cure: "look at them with: pushsweep quarantine list")
        },
        .examined(
            "stored-in-part", .evidence, in: [.check], "medium",
            """
            The database has a batch only in part. Its host is still storing it, or ended before it was whole.
            No sweep judges a batch before it is whole. If its host is gone for good, the rest of its reports is lost.
            `pushsweep check` names the batch, the host and the time since it is stored.
            Run `pushsweep sweep` on that host, or import the file again. If the host is gone: `pushsweep holds \
            discard BATCH --reason TEXT`.
            """),
        .each(
            "unbalanced-batch", .evidence, in: [.audit], "high",
            """
            A batch says how many reports it has taken in, and pushsweep_report has another number. Another program \
            changed that table, or a backup was restored in part.
            Nobody judges a report that is missing. The device may be gone and get sends for ever.
            `pushsweep audit --deep` names the batches. SELECT COUNT(*) FROM pushsweep_report WHERE batch = 'BATCH'; \
            counts what is there.
            Find out which accounts may write pushsweep_report, and take the right from all others. Import the source \
            once more with `--again` if you have it.
            """, needs: \.unbalanced
        ) { batches, _ in
            batches.map {
                Finding(
                    .high, "batch \($0.batch)",
                    "it has taken in \($0.said.counting("report")) that should be there, and "
                        + "\($0.found) \($0.found == 1 ? "is" : "are")",
                    cause:
                        "another program changed pushsweep_report, or a part of a backup was restored",
                    cure: "look who may write there; what is missing nobody judges any more")
            }
        },
        .each(
            "unreadable-state", .evidence, in: [.preflight],
            "high where a hold may be in what could not be read; medium where a damaged file was set aside",
            """
            The state folder or a journal cannot be read, or a damaged file was set aside there.
            Lists in a journal exist nowhere else until the database has them. What cannot be read is not judged, and \
            may be lost.
            `sudo -u pushsweep pushsweep check` examines the folder as the user of the job and names each file.
            Give the folder to the user who sweeps, with mode 0700. Keep a file named `damaged` until you have looked: \
            docs/operating.md.
            """, needs: \.host
        ) { host, facts in
            let unreadable = host.unreadable.map { (Severity.high, "\($0.failure)") }
            return (unreadable + host.damage.map { (.medium, $0) }).map {
                Finding(
                    $0, facts.state, $1,
                    cure: "run as the user who sweeps, or: pushsweep check")
            }
        },
        .each(
            "not-examined", .evidence, in: [.audit], "medium",
            """
            The audit could not read a part of what it reports. A right or a table is missing, or reading took too \
            long.
            The report says nothing about that part. A fault there stays hidden.
            `pushsweep audit --format json` lists each part with its reason under `gaps`. `pushsweep check` names \
            rights and tables that are missing.
            Run the statements of `pushsweep check --grants` as an administrator. For a large table raise \
            `store.read-timeout`.
            """, needs: \.gaps
        ) { gaps, _ in
            gaps.map {
                Finding(
                    .medium, "this audit", "a part could not be examined", cause: $0,
                    cure: "pushsweep check names rights and tables that are missing")
            }
        },
    ]
}

extension RuleBook {
    /// A rule about runs of a kind that this host makes no more.
    private static func missing(_ name: String, _ kind: String, _ text: String) -> Rule {
        .one(
            name, .evidence, in: [.check, .audit, .preflight], "medium", text,
            needs: { $0.runs?.missing[kind] }
        ) { missing, _ in
            Finding(
                .medium, "this host",
                "no \(kind) for \(missing.days.counting("whole day")), where "
                    + (missing.usual > 0
                        ? "it never paused longer than \(missing.usual.counting("day"))"
                        : "there was one each day"),
                cause: "a job that was dropped fails nowhere",
                cure: "start the job again, unless another host has it now")
        }
    }
}

extension Facts {
    /// The app of a gate; for a look at all apps their sweeps.
    fileprivate var subject: String {
        look == .preflight ? apps.map { "\($0.partition)" }.joined(separator: ", ") : "sweeps"
    }

    /// What is not applied of the apps; nil where all is.
    fileprivate func unapplied(_ host: HostFacts) -> Finding? {
        let own = Set(apps.map(\.partition))
        let feeds = host.journals.flatMap { $0.feeds(in: .pending, .reading) }
            .count { own.contains($0.partition) }
        let waiting = own.reduce(0) { $0 + (batches?.waiting(of: $1).count ?? 0) }
        let left = own.reduce(0) { $0 + (host.leftReports[$1] ?? 0) }
        guard feeds + waiting + waitingRows + left > 0 else { return nil }
        return Finding(
            .medium, subject,
            "not applied yet: \(feeds.counting("feed")) of the journals, "
                + "\(waiting.counting("batch")) of reports, \(waitingRows.counting("row")) of pushsweep_evidence"
                + (left > 0 ? ", \(left.counting("answer")) that a sender left" : ""),
            cure: "run preflight without --read-only, or a sweep")
    }
}
