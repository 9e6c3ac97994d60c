// The parts of an audit about this host: its journals, its runs, its certificates and keys.

import APNsProtocol
import Database
import EvidenceJournal
import Operations
import PushQueue
import SecureTransport
import Settings
import TokenHygiene
import TokenTable

extension Audit {
    // MARK: Journals

    /// Reads the journals of this host: those of sweeps and of its senders.
    mutating func examineJournals(_ now: EpochMilliseconds) {
        guard host.hasState else {
            report.gaps.append(
                "this host: no state folder \(settings.state), so no run of this host is known")
            return
        }
        for (place, failure) in host.unreadable { skip(place, failure) }
        var runs: [RunEntry] = []
        for journal in host.journals {
            do {
                let entries = try journal.journal.runs(limit: 100_000)
                runs += entries.filter { $0.started <= now }
            } catch {
                skip("journal in \(journal.journal.folder.path)", error)
            }
        }
        summarize(runs, now)
    }

    // MARK: Holds

    /// Lists the open holds with their numbers of today, and those that were decided in the period.
    mutating func examineHolds(_ store: TokenTable) {
        let batches = BatchFacts(store)
        facts.batches = batches
        if let unseen = batches.unseen { return skip("holds", unseen) }
        do {
            try examineQuarantine(batches, store)
        } catch {
            skip("quarantine", error)
        }
        // What this host has of them is counted among what waits.
        let own = Set(host.journals.flatMap(\.lists).map(\.id))
        for batch in batches.open where batch.isUnstored && !own.contains(batch.id) {
            report.gaps.append(batch.unstoredWords)
        }
        for hold in batches.holds {
            let now = HoldEntry(hold, settings, context, in: store)
            var entry = AuditedHold(
                app: now.app, environment: now.environment, state: "open", held: now.since,
                cause: now.cause, tuples: now.tuples)
            (entry.hold, entry.candidates, entry.living) = (hold.id, now.candidates, now.living)
            entry.judgement = now.judgement
            if let gap = now.gap { report.gaps.append("hold \(hold.id): \(gap)") }
            report.holds.append(entry)
        }
        do {
            for run in try store.decisions(from: period.since, to: period.until) { decide(run) }
        } catch {
            skip("decisions about holds", error)
        }
        report.holds.sort {
            ($0.state != "open" ? 1 : 0, $1.held) < ($1.state != "open" ? 1 : 0, $0.held)
        }
    }

    private mutating func examineQuarantine(_ facts: BatchFacts, _ store: TokenTable) throws {
        for found in facts.quarantined {
            report.quarantine.batches += 1
            report.quarantine.bytes += found.bytes
            for (reason, parts, _) in try Quarantine(store).reasons(in: found.batch, limit: 100) {
                report.quarantine.add(reason, parts)
            }
        }
    }

    /// Enters what APNs called bad.
    mutating func examineSuspects(_ store: TokenTable) {
        do {
            let suspects = Suspects(store)
            guard try suspects.visibility() == .readable else { return }
            try facts.readMisplaced(store)
            for count in try suspects.counts() {
                for (place, app) in settings.apps.enumerated()
                where app.storedPartition == count.partition {
                    report.apps[place].suspects =
                        (report.apps[place].suspects ?? []) + [AuditedSuspects(count)]
                }
            }
        } catch {
            skip("suspects", error)
        }
    }

    /// Writes the rows whose tokens APNs called bad, a line each: what the table has, and what APNs said.
    ///
    /// - Throws: where they cannot be read, or the file not be written.
    mutating func listSuspects(
        _ store: TokenTable, _ stored: [Partition], in path: String
    ) throws {
        let suspects = Suspects(store)
        guard try suspects.visibility() == .readable else {
            report.gaps.append(
                "suspects: \(path) is not written, because the account may not read pushsweep_suspect, or the table lacks "
                    + "a column; run pushsweep check")
            return
        }
        let history = try TokenHistory(store)
        let user = try store.userColumn()
        try ReplacedFile(path, of: "the list of suspects", mode: 0o600).replace { append in
            try append(
                "app,environment,row,user,registered,token,reason,first,last,times,known\n")
            for (app, partition) in zip(settings.apps, stored) {
                var last: DeviceToken?
                while case let page = try suspects.page(of: partition, after: last), !page.isEmpty {
                    if context.interrupt.isTripped { throw stopped() }
                    let rows = try history.rows(
                        of: page.map(\.token), in: [partition], marks: [:], user: user)
                    for suspect in page where !suspect.isCleared {
                        for row in rows[suspect.token] ?? [] where row.partition == partition {
                            try append(line(app, row, suspect))
                        }
                    }
                    last = page.last?.token
                }
            }
        }
    }

    private func line(_ app: Settings.App, _ row: TokenRow, _ suspect: Suspect) -> String {
        let cells = [
            app.name, app.environment.rawValue, row.key.text(wholeTokens: false), row.user ?? "",
            row.registeredAt?.rfc3339 ?? "", suspect.token.redacted, suspect.reason,
            suspect.first.rfc3339, suspect.last.rfc3339, "\(suspect.times)",
            suspect.accepted?.rfc3339 ?? "",
        ]
        return CSVRecord.line(cells.map(\.inert))
    }

    /// Lists the holds that a run released or discarded.
    private mutating func decide(_ entry: RunRecord) {
        let by = entry.operator ?? "unknown"
        let decision = "\(by), \(entry.started.rfc3339)"
        if entry.kind == "discard" {
            guard let discarded = DiscardReport(line: entry.counts) else { return }
            var hold = AuditedHold(
                app: discarded.app, environment: discarded.environment, state: "discarded",
                held: discarded.heldSince, cause: discarded.heldCause,
                tuples: discarded.reports)
            (hold.decision, hold.reason) = (decision, discarded.reason)
            report.holds.append(hold)
        } else if let released = SweepReport(line: entry.counts) {
            for list in released.apps {
                var hold = AuditedHold(
                    app: list.app, environment: list.environment, state: "released",
                    held: list.heldSince ?? entry.started.rfc3339,
                    cause: list.heldCause ?? list.gate ?? "", tuples: list.tuples)
                (hold.decision, hold.reason) = (decision, released.reason)
                report.holds.append(hold)
            }
        }
    }

    /// Sums up the runs of this host.
    private mutating func summarize(_ runs: [RunEntry], _ now: EpochMilliseconds) {
        let sweeps = runs.filter { $0.kind == "sweep" && !$0.isTrial }.sorted {
            $0.started < $1.started
        }
        let inPeriod = sweeps.map(\.started).filter { $0 >= period.since && $0 <= period.until }
        report.runs.longestGap = zip(inPeriod, inPeriod.dropFirst() + [min(now, period.until)])
            .map { Self.hours(from: $0, to: $1) }.max()
        var endings: [String: Int] = [:]
        for run in runs where run.started >= period.since && run.started <= period.until {
            endings["\(run.kind) \(run.exit.map { "\($0)" } ?? "without end")", default: 0] += 1
        }
        report.runs.endings = endings.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map {
            NamedCount($0.key, $0.value)
        }
    }

    private static func hours(from: EpochMilliseconds, to: EpochMilliseconds) -> Double {
        (Double(to.rawValue - from.rawValue) / 360_000).rounded() / 10
    }

    // MARK: Queue

    /// The most rows of the queue that are looked at for each app.
    static let mostQueueRows = 1_000_000

    /// Counts the open rows of the queue and what a sender would do with them.
    mutating func examineQueue(_ store: TokenTable) {
        if settings.apps.contains(where: \.sends) {
            do {
                facts.unowned = try store.unownedRows(settings.apps.map(\.storedPartition))
            } catch {
                skip("rows of the queue that belong to no app", error)
            }
        }
        for (place, app) in settings.apps.enumerated() where app.sends {
            do {
                let partition = app.storedPartition
                try store.requireQueue(.preview, partitions: [partition])
                var queue = AuditedQueue()
                let interrupt = context.interrupt
                try store.previewClaims(
                    partition, limit: Self.mostQueueRows, shouldStop: { interrupt.isTripped }
                ) { batch in
                    queue.open += batch.claimed
                    queue.toStale += batch.settled.count { $0.outcome == .skipped(.stale) }
                    queue.toUnknown += batch.settled.count { $0.outcome == .skipped(.unknown) }
                }
                queue.results = try store.queueResults(
                    of: partition, from: period.since, to: period.until
                ).map { result in
                    NamedCount(
                        result.state + (result.reason.map { " (\($0))" } ?? ""), result.rows)
                }
                report.apps[place].queue = queue
            } catch {
                skip("queue of \(app.partition)", error)
            }
        }
    }
}

extension AuditedCredential {
    init(_ facts: CredentialFacts, at now: EpochMilliseconds) {
        self.init(kind: facts.kind, file: String(facts.file.split(separator: "/").last ?? ""))
        ends = facts.identity?.ends.rfc3339
        daysLeft = facts.identity.map { Self.days(from: now, to: $0.notAfter) }
        problem = facts.problem?.description
    }
}

extension AuditedQuarantine {
    /// Counts parts by their reason.
    fileprivate mutating func add(_ reason: String, _ parts: Int) {
        let name = String(reason.prefix(120))
        if let place = reasons.firstIndex(where: { $0.name == name }) {
            reasons[place].count += parts
        } else if reasons.count < 100 {
            reasons.append(NamedCount(name, parts))
        }
        reasons.sort { ($1.count, $0.name) < ($0.count, $1.name) }
    }
}

extension RunEntry {
    /// Whether it was a dry run.
    fileprivate var isTrial: Bool { summary?.contains("\"dryRun\":true") == true }
}
