import EvidenceJournal
import Foundation
import Glibc
import SecureTransport
import TokenHygiene

/// Where metrics go, and what of them the journals do not know.
package struct MetricsPlan: Sendable {
    /// The kinds of runs that a journal knows.
    private static let kinds = ["sweep", "replay", "release", "discard", "undo", "send"]

    /// The state folder.
    let state: String
    /// The file.
    let path: String
    /// The apps of the settings.
    let partitions: [Partition]
    /// Ends of our own certificates.
    let certificates: [Partition: EpochMilliseconds]

    /// What the settings want; nil where they name no file. Certificates that cannot be read are left
    /// out here: the runs that need them say so.
    package init?(_ settings: Settings) {
        guard let path = settings.report.metricsFile else { return nil }
        self.path = path
        state = settings.state
        partitions = settings.apps.map(\.partition)
        var certificates: [Partition: EpochMilliseconds] = [:]
        for app in settings.apps {
            guard let certificate = app.certificate,
                let identity = try? TLSIdentity.load(
                    file: certificate.file, key: certificate.key,
                    passphraseFile: certificate.passphraseFile)
            else { continue }
            certificates[app.partition] = EpochMilliseconds(identity.notAfter * 1_000)
        }
        self.certificates = certificates
    }

    /// Replaces the file by what the journals say now: that of the run in hand, and those beside it.
    ///
    /// - Throws: exit 73 where the file cannot be written, and what stands in the way of reading the
    ///   own journal.
    func write(from own: EvidenceJournal) throws(RunFailure) {
        do {
            // Runs end at the same moment; what was read first must not be written last.
            try Turn(in: state).hold {
                try MetricsFile(path: path).replace(with: facts(from: own).text)
            }
        } catch {
            throw .wrapping(error, at: .report)
        }
    }

    /// One run at a time, on this host.
    private struct Turn {
        /// Milliseconds between two tries, and how many there are: writing takes some of them, and a
        /// stopped process must not keep the others from their end.
        private static let pause: UInt32 = 50
        private static let tries = 200

        private let path: String

        init(in state: String) { path = state + "/metrics.lock" }

        func hold(_ body: () throws -> Void) throws {
            let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
            guard descriptor >= 0 else { throw failure(errno) }
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
                    + "what the run did stands, look for a stuck run with: fuser \(path)")
        }
    }

    private func facts(from own: EvidenceJournal) throws(JournalFailure) -> MetricsFacts {
        var facts = MetricsFacts(certificates: certificates)
        for partition in partitions { facts.waiting[partition] = MetricsFacts.Waiting() }
        try enter(own, SenderFolders.number(of: own.folder, in: state), into: &facts)
        let (folders, unreadable) = SenderFolders.neighbours(of: own.folder, in: state)
        facts.unreadableJournals = unreadable
        for (folder, sender) in folders {
            let before = facts
            do throws(JournalFailure) {
                try enter(try EvidenceJournal(in: folder), sender, into: &facts)
            } catch {
                facts = before
                facts.unreadableJournals += 1
            }
        }
        facts.runs.sort { ($0.kind, $0.sender ?? 0) < ($1.kind, $1.sender ?? 0) }
        return facts
    }

    private func enter(
        _ journal: EvidenceJournal, _ sender: Int?, into facts: inout MetricsFacts
    ) throws(JournalFailure) {
        for kind in Self.kinds {
            guard let (last, succeeded) = try journal.lastRun(kind), let summary = last.summary
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
        facts.damagedJournals += try journal.damagedFiles.count
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
