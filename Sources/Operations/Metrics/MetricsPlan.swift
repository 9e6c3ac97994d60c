import APNsProtocol
import EvidenceJournal
import Foundation
import Glibc
import SecureTransport
import Settings
import TokenHygiene

/// The path of the metrics file, and the facts for metrics that are not in the journals.
package struct MetricsPlan: JournalPage {
    /// The kinds of runs that a journal records.
    private static let kinds = [
        "sweep", "replay", "import", "release", "discard", "undo", "send", "preflight",
    ]

    /// The path of the state folder.
    let state: String
    /// The path of the metrics file.
    let path: String
    /// The apps of the settings.
    let partitions: [Partition]
    /// Our own certificates. Their ends are read for every page, because a sender may outlive them.
    private let certificates: [(partition: Partition, file: Settings.Certificate)]

    /// Takes the plan from the settings; nil when they name no file, and for dry runs.
    package init?(_ settings: Settings, dryRun: Bool = false) {
        guard !dryRun, let path = settings.metricsFile else { return nil }
        self.path = path
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
            let identity = try? TLSIdentity.load(
                file: certificate.file, key: certificate.key,
                passphraseFile: certificate.passphraseFile)
            expiries[partition] = identity.map { EpochMilliseconds($0.notAfter * 1_000) }
        }
        return expiries
    }

    /// Replaces the file by the present content of the journals: the one of this run and those beside
    /// it.
    ///
    /// - Throws: exit 73 when the file cannot be written, and failures to read this run's journal.
    package func write(
        from own: EvidenceJournal, at now: EpochMilliseconds
    ) throws(RunFailure) {
        do {
            // Runs may end at the same moment. The page with the older facts must not be written
            // last.
            try Turn(in: state).hold {
                let facts = try facts(from: own, until: RunContext.latestEnd(now))
                try ReplacedFile.metrics(path).replace(with: facts.text)
            }
        } catch {
            throw .wrapping(error, at: .report)
        }
    }

    /// A lock that lets one run of this host write at a time.
    private struct Turn {
        /// Milliseconds between two tries, and the number of tries: two seconds in all. A run that
        /// gets a stop signal has five seconds to end, and a stopped process must not use them up.
        private static let pause: UInt32 = 50
        private static let tries = 40

        private static let name = "metrics.lock"

        private let state: String
        private var path: String { "\(state)/\(Self.name)" }

        init(in state: String) { self.state = state }

        func hold(_ body: () throws -> Void) throws {
            let descriptor = try StateFolder.open(Self.name, in: state)
            defer { close(descriptor) }
            var tries = 1
            while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
                guard errno == EWOULDBLOCK, tries < Self.tries else { throw failure(errno) }
                tries += 1
                usleep(Self.pause * 1_000)
            }
            try body()
        }

        private func failure(_ cause: Int32) -> RunFailure {
            RunFailure(
                .cannotCreate, .report,
                "locking \(path) for the metrics: \(String(cString: strerror(cause)).lowercased()); "
                    + "the run's changes stay, look for a stuck run with: fuser \(path)")
        }
    }

    private func facts(
        from own: EvidenceJournal, until limit: EpochMilliseconds
    ) throws(JournalFailure) -> MetricsFacts {
        var facts = MetricsFacts(certificates: expiries)
        for partition in partitions { facts.waiting[partition] = MetricsFacts.Waiting() }
        try enter(own, SenderFolders.number(of: own.folder, in: state), limit, into: &facts)
        facts.damagedJournals += try own.damagedFiles.count
        let (folders, unreadable) = SenderFolders.neighbours(of: own.folder, in: state)
        facts.unreadableJournals = unreadable.count
        for (folder, sender) in folders {
            let before = facts
            do throws(JournalFailure) {
                // A folder whose journal was set aside has no journal until its next run.
                facts.damagedJournals += try folder.damagedFiles.count
                guard folder.hasJournal else { continue }
                try enter(try EvidenceJournal(reading: folder), sender, limit, into: &facts)
            } catch {
                facts = before
                facts.unreadableJournals += 1
            }
        }
        facts.runs.sort { ($0.kind, $0.sender ?? 0) < ($1.kind, $1.sender ?? 0) }
        return facts
    }

    private func enter(
        _ journal: EvidenceJournal, _ sender: Int?, _ limit: EpochMilliseconds,
        into facts: inout MetricsFacts
    ) throws(JournalFailure) {
        for kind in Self.kinds {
            guard let (last, succeeded) = try journal.lastRun(kind, successUntil: limit),
                let summary = last.summary
            else { continue }
            facts.runs.append(
                MetricsFacts.Run(
                    kind: kind, sender: sender, started: last.started, ended: last.ended,
                    exit: last.exit, succeeded: succeeded, summary: summary))
        }
        for feed in try journal.feeds(.pending, .held) {
            facts.waiting[feed.partition, default: .init()].count(feed)
        }
        for hold in try Holds.holds(in: journal) {
            facts.waiting[hold.partition, default: .init()].holds += 1
        }
        facts.quarantinedFeeds += try journal.quarantinedFeeds().count
    }
}

extension MetricsFacts.Waiting {
    fileprivate mutating func count(_ feed: CapturedFeed) {
        if feed.state == .held {
            held += 1
            heldBytes += feed.bytes
        } else {
            pending += 1
            pendingBytes += feed.bytes
        }
    }
}
