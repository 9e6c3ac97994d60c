import APNsProtocol
import Database
import EvidenceJournal
import Glibc
import Operations
import SecureTransport
import Settings
import TokenHygiene
import TokenTable

/// The path of the metrics file, and the facts for metrics that are not in the journals.
package struct MetricsPlan: JournalPage {
    /// The kinds of runs that a journal records.
    private static let kinds = [
        "sweep", "replay", "import", "release", "discard", "undo", "send", "preflight",
    ]

    let state: String
    let path: String
    let partitions: [Partition]
    private let settings: Settings
    /// Our own certificates. Their ends are read for every page, because a sender may outlive them.
    private let certificates: [(partition: Partition, file: Settings.Certificate)]

    /// Takes the plan from the settings; nil when they name no file, and for dry runs.
    package init?(_ settings: Settings, dryRun: Bool = false) {
        guard !dryRun, let path = settings.metricsFile else { return nil }
        self.path = path
        self.settings = settings
        state = settings.state
        partitions = settings.apps.map(\.partition)
        certificates = settings.apps.compactMap { app in
            app.certificate.map { (app.partition, $0) }
        }
    }

    /// The ends of our certificates. A certificate that cannot be read is left out; the runs that
    /// need it report that.
    private var expiries: [Partition: EpochMilliseconds] {
        var expiries: [Partition: EpochMilliseconds] = [:]
        for (partition, certificate) in certificates {
            expiries[partition] = (try? certificate.identity())?.ends
        }
        return expiries
    }

    /// Replaces the file by the present content of the journals, the one of this run and those beside it, and
    /// by the batches of the database.
    ///
    /// - Throws: exit 73 when the file cannot be written, and failures to read this run's journal.
    package func write(
        from own: EvidenceJournal?, at now: EpochMilliseconds
    ) throws(RunFailure) {
        try RunFailure.at(.report) {
            // Runs may end at the same moment. The page with the older facts must not be written
            // last.
            try inTurn {
                let facts = try facts(from: own, until: RunContext.latestEnd(now))
                // The program that collects them runs as another user.
                try ReplacedFile(path, of: "metrics (report.metrics-file; the run's changes stay)")
                    .replace(with: facts.text)
            }
        }
    }

    /// The number of tries to take the lock, 50 milliseconds apart: two seconds in all. A run that gets a
    /// stop signal has five seconds to end, and a stopped process must not use them up.
    private static let tries = 40

    /// Lets one run of this host write at a time.
    private func inTurn(_ body: () throws -> Void) throws {
        let name = "metrics.lock"
        let descriptor = try StateFolder.open(name, in: state)
        defer { close(descriptor) }
        var tries = 1
        while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            let cause = errno
            guard cause == EWOULDBLOCK, tries < Self.tries else {
                throw RunFailure(
                    .cannotCreate, .report,
                    "locking \(state)/\(name) for the metrics: "
                        + "\(String(cString: strerror(cause)).lowercased()); the run's changes stay, "
                        + "look for a stuck run with: fuser \(state)/\(name)")
            }
            tries += 1
            usleep(50_000)
        }
        try body()
    }

    private func facts(
        from own: EvidenceJournal?, until limit: EpochMilliseconds
    ) throws(JournalFailure) -> MetricsFacts {
        var facts = MetricsFacts(certificates: expiries)
        for partition in partitions { facts.waiting[partition] = MetricsFacts.Waiting() }
        if let own {
            let number = SenderFolders.number(of: own.folder, in: state)
            try enter(HostFacts.Journal(own, sender: number), limit, into: &facts)
            facts.damagedJournals = try own.folder.damagedFiles.count
        }
        let host = HostFacts(in: state, besides: own?.folder)
        facts.damagedJournals += host.damage.count
        facts.unreadableJournals = host.unreadable.count
        for journal in host.journals {
            let before = facts
            do throws(JournalFailure) {
                try enter(journal, limit, into: &facts)
            } catch {
                facts = before
                facts.unreadableJournals += 1
            }
        }
        enterBatches(into: &facts)
        facts.runs.sort { ($0.kind, $0.sender ?? 0) < ($1.kind, $1.sender ?? 0) }
        return facts
    }

    /// Enters what waits in the database. A page tells where it could not be asked: nothing is held only for
    /// somebody who could have seen it.
    private func enterBatches(into facts: inout MetricsFacts) {
        let pacing = Pacing().with(patience: Pacing.shortPatience)
        guard
            let (seen, suspects, pulse) = try? settings.reading(
                pacing: pacing,
                { (BatchFacts($0), try Self.suspects(in: $0), PulseLook(settings, $0)) }),
            seen.unseen == nil
        else {
            facts.seesBatches = false
            return
        }
        let names = Dictionary(
            settings.apps.map { ($0.storedPartition, $0.partition) },
            uniquingKeysWith: { first, _ in first })
        facts.quarantinedBatches = seen.quarantined.count
        for (app, finding) in pulse.found {
            facts.waiting[app, default: .init()].pulse.insert(finding.rule)
        }
        for count in suspects {
            guard let name = names[count.partition] else { continue }
            facts.waiting[name, default: .init()].suspects += count.tokens
            facts.waiting[name, default: .init()].suspectsKnown += count.accepted
        }
        for batch in seen.open {
            let isJudged = batch.state == .applying
            let name = isJudged ? names[batch.partition] ?? batch.partition : batch.partition
            if batch.state == .held {
                facts.waiting[name, default: .init()].held += 1
                facts.waiting[name, default: .init()].heldReports += batch.reports
            } else {
                facts.waiting[name, default: .init()].pending += 1
                facts.waiting[name, default: .init()].pendingReports += batch.reports
            }
        }
        for hold in seen.holds {
            facts.waiting[hold.partition, default: .init()].holds += 1
        }
    }

    /// What APNs called bad lately.
    ///
    /// - Throws: `permission` where the account may not read it; any failure of a query.
    private static func suspects(in store: TokenTable) throws -> [SuspectCount] {
        let suspects = Suspects(store)
        guard try suspects.decides() else { return [] }
        let now = try store.session.databaseTime()
        return try suspects.counts(since: now.advanced(by: -Suspects.recentDays * 86_400_000))
    }

    private func enter(
        _ host: HostFacts.Journal, _ limit: EpochMilliseconds, into facts: inout MetricsFacts
    ) throws(JournalFailure) {
        for kind in Self.kinds {
            guard let (last, succeeded) = try host.journal.lastRun(kind, successUntil: limit),
                let summary = last.summary
            else { continue }
            facts.runs.append(
                MetricsFacts.Run(
                    kind: kind, sender: host.sender, started: last.started, ended: last.ended,
                    exit: last.exit, succeeded: succeeded, summary: summary))
        }
        for list in host.lists(in: .pending) {
            facts.waiting[list.partition, default: .init()].pending += 1
            facts.waiting[list.partition, default: .init()].pendingBytes += list.bytes
        }
    }
}
