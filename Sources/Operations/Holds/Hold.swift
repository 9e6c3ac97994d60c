// The feeds that the guard stopped, grouped for a person. All held feeds of one app and environment
// in one journal are one hold, and one decision is made about them. A hold has the name of the feed
// that the guard stopped first. Later feeds wait behind that feed and belong to the hold as well.
//
// A decision is about a set that a person has seen, while sweeps add feeds to it. So a set has a
// digest, taken feed by feed in the order in which the feeds were held. The digest of the first n
// feeds does not change when others join. Releasing a digest applies exactly the feeds that the
// person saw; the guard judges the later ones again. The person also sees what a release would do:
// the digest begins with the policy and with the table, columns and values by which rows are found.
//
// A feed that is held for another reason, such as reaching feedback.max-bytes, holds no other feed
// and is a hold of its own.

import APNsProtocol
import Encodings
import EvidenceJournal
import Foundation
import SecureTransport
import Settings
import TokenHygiene

/// Held feeds with one common decision.
package struct Hold {
    /// The journal of the feeds.
    let journal: EvidenceJournal
    /// The app and environment of the feeds.
    package let partition: Partition
    /// The feeds in the order in which they were held, at least one.
    let feeds: [CapturedFeed]

    /// The name of the feed that was held first.
    package var id: String { feeds[0].id }
    /// The guard's gate; nil when the guard did not hold the feeds.
    package var gate: GuardGate? { feeds[0].gate }
    /// The reason for the hold, in one sentence.
    package var cause: String { feeds[0].cause ?? "no cause was noted" }
    /// The time at which the first feed was held.
    package var since: EpochMilliseconds { feeds[0].closedAt ?? feeds[0].opened }
}

/// The holds of this host: those of sweeps and of its senders, whether or not the senders are alive.
package struct Holds {
    /// The journal of the state folder, then those of its senders.
    package let journals: [EvidenceJournal]
    /// The journal of the state folder. This process holds the folder's lock.
    package let main: EvidenceJournal

    /// Takes the lock of the state folder.
    ///
    /// - Throws: `RunFailure` with exit 4 when another run holds it.
    package init(state: String) throws {
        try self.init(beside: EvidenceJournal(in: StateFolder(state)))
    }

    /// Uses a journal that is open already, and the senders' folders below its folder.
    init(beside main: EvidenceJournal) throws {
        self.main = main
        journals =
            try [main]
            + SenderFolders.visited(in: main.folder.path).map { folder in
                try EvidenceJournal(in: folder)
            }
    }

    /// The journal that has a feed; that of the state folder where none has it.
    package func journal(of feed: String) -> EvidenceJournal {
        journals.first { (try? $0.feed(feed)) != nil } ?? main
    }

    /// All holds, oldest first.
    package func all() throws -> [Hold] {
        try journals.flatMap(Self.holds).sorted { ($0.since, $0.id) < ($1.since, $1.id) }
    }

    /// The holds of one journal, unordered.
    static func holds(in journal: EvidenceJournal) throws(JournalFailure) -> [Hold] {
        let held = try journal.feeds(.held)
        let alone = held.filter { $0.gate == nil }
            .map { Hold(journal: journal, partition: $0.partition, feeds: [$0]) }
        let together = Dictionary(grouping: held.filter { $0.gate != nil }, by: \.partition)
            .map { partition, feeds in
                Hold(
                    journal: journal, partition: partition,
                    feeds: feeds.sorted { $0.holdOrder < $1.holdOrder })
            }
        return alone + together
    }

    /// The hold of a feed, by the feed's name or its beginning; without one the only hold.
    ///
    /// - Throws: `RunFailure` with exit 64 when no hold matches, or more than one.
    package func hold(of feed: String?) throws -> Hold { try feed.map(found)?.hold ?? only() }

    /// The only hold.
    ///
    /// - Throws: `RunFailure` with exit 64 when nothing is held; when there are several, which it lists.
    private func only() throws -> Hold {
        let holds = try all()
        if let hold = holds.first, holds.count == 1 { return hold }
        let names = holds.prefix(20).map {
            "  \($0.id)  \($0.partition), since \($0.since.rfc3339)"
        }
        throw RunFailure(
            .usage, .state,
            "looking for the hold: "
                + (holds.isEmpty
                    ? "nothing is held" : "\(holds.count) are open, name one of them:"),
            listing: names)
    }

    /// A held feed with its hold, by the feed's name or its beginning, as `holds show` prints it.
    ///
    /// - Throws: `RunFailure` with exit 64 when no held feed matches, or more than one.
    private func found(_ feed: String) throws -> (hold: Hold, feeds: [CapturedFeed]) {
        guard let beginning = NameBeginning(feed) else {
            throw RunFailure(
                .usage, .state,
                "looking for the hold \(SettingText.quoted(feed)): \(NameBeginning.refusal); see: "
                    + "pushsweep holds list")
        }
        let matching = try all().compactMap { hold in
            let feeds = hold.feeds.filter { beginning.begins($0.id) }
            return feeds.isEmpty ? nil : (hold, feeds)
        }
        guard let only = matching.first, matching.count == 1 else {
            throw RunFailure(
                .usage, .state,
                "looking for the hold \(feed.prefix(40)): "
                    + (matching.isEmpty ? "nothing of this name is held" : "several begin so")
                    + "; see: pushsweep holds list")
        }
        return only
    }

    /// Discards a held feed, by default that of the only hold, or with `whole` all feeds of its hold, and
    /// stores the reason. What is discarded stays in the journal for 30 days and can be replayed until
    /// then. The other feeds stay held; where the feed that the guard stopped is discarded they become
    /// pending, and the guard judges them in the next sweep.
    ///
    /// - Throws: `RunFailure` with exit 64 when no held feed has the name, or several begin so.
    package func discard(
        _ feed: String?, whole: Bool, because reason: String, _ context: RunContext
    ) throws -> DiscardReport {
        let (hold, named) = try feed.map(found) ?? { ($0, $0.feeds) }(try only())
        guard whole || named.count == 1 else {
            throw RunFailure(
                .usage, .state,
                (feed.map {
                    "discarding the held feed \($0.prefix(40)): several begin so; name one whole: "
                } ?? "discarding the hold: it has \(named.count) feeds; name one, or add --all: ")
                    + "pushsweep holds show \(hold.id)")
        }
        let feeds = whole ? hold.feeds : named
        let run = UUID().uuidString.lowercased()
        try main.beginRun(run, kind: "discard", by: context.operator, at: context.now())
        for feed in feeds {
            try hold.journal.close(feed.id, as: .discarded, cause: reason, at: context.now())
        }
        var report = DiscardReport(
            run: run, hold: hold.id, app: hold.partition.app,
            environment: hold.partition.environment, feeds: feeds.map(\.id), reason: reason,
            heldSince: hold.since.rfc3339, heldCause: hold.cause)
        try hold.journal.releaseFollowers()
        let others = Set(hold.feeds.map(\.id)).subtracting(report.feeds)
        report.held = try hold.journal.feeds(.held).count { others.contains($0.id) }
        report.pending = others.count - report.held
        try main.endRun(run, exit: 0, summary: report.jsonLine, at: context.now())
        return report
    }
}

extension CapturedFeed {
    /// The sort key of feeds in a hold. The feed that holds its partition comes first, even if the
    /// clock was set back.
    fileprivate var holdOrder: (Int, EpochMilliseconds, EpochMilliseconds, String) {
        (gate == .behind ? 1 : 0, closedAt ?? opened, opened, id)
    }
}

/// Computes the digest of a hold: what a release would do, then for each feed every token in order,
/// with the latest time at which it was reported dead.
struct HoldDigest {
    private static let tokensPerBatch = 1_000

    private let digest: SHA256Digest

    /// Begins with app, environment, policy, and the store's `terms` for them.
    init(_ partition: Partition, _ policy: RemovalPolicy, terms: [String]) throws {
        let heading =
            [
                "pushsweep hold 2", partition.app, partition.environment, policy.action.rawValue,
                policy.deletesAfter.map { "\($0)" } ?? "at once",
                "\(policy.deletesWithoutRegistrationTime)", "\(policy.skew)",
            ] + terms
        digest = try SHA256Digest()
        // Each part has its length in front, so that different headings never give the same bytes.
        let text = heading.map { "\($0.utf8.count):\($0)\n" }.joined() + "\n"
        try digest.update(Array(text.utf8))
    }

    /// Adds a feed. Returns the digest of all feeds so far, in hex.
    func take(
        _ feed: FeedEvidence, _ body: (TokenEvidence) throws -> Void = { _ in }
    ) throws -> String {
        var stream = feed.tokens.stream()
        while case let batch = try stream.next(Self.tokensPerBatch), !batch.isEmpty {
            var bytes: [UInt8] = []
            for item in batch {
                AnswerRecord(token: item.token, time: item.time).encode(into: &bytes)
                try body(item)
            }
            try digest.update(bytes)
        }
        // Times are positive, so no record begins with a byte of ones.
        try digest.update([0xFF])
        return try digest.hex()
    }
}

/// The result of discarding: one JSON object for scripts. Fields may be added, never renamed.
package struct DiscardReport: PrintedLines, Codable, Hashable, Sendable {
    package let run: String
    package let hold: String
    /// The app's name in the settings.
    package let app: String
    /// `production` or `sandbox`.
    package let environment: String
    /// The discarded feeds.
    package let feeds: [String]
    /// The reason, in the words of the person who discarded the hold.
    package let reason: String
    /// When the first feed was held, RFC 3339 in UTC.
    package let heldSince: String
    /// Why it was held, in one sentence.
    package let heldCause: String
    /// Feeds of the hold that stay held.
    package var held = 0
    /// Feeds of the hold that the next sweep judges.
    package var pending = 0
    package var exit: Int32 = 0

    package var lines: [String] {
        var lines = [
            "\(app)/\(environment): \(feeds.count.counting("held feed")) discarded; within 30 days: "
                + "pushsweep replay --feed \(feeds.first ?? hold)"
        ]
        if held > 0 {
            lines.append("\(held.counting("feed")) of the hold stay held: pushsweep holds list")
        }
        if pending > 0 {
            lines.append("\(pending.counting("feed")) of the hold wait for the next sweep")
        }
        return lines
    }
}

extension SweepPlan {
    /// The plan of applying the held feeds that a digest names.
    package init(releasing digest: String, because reason: String?, settings: Settings) {
        self.init(settings, .release(digest.lowercased()), dryRun: false)
        self.reason = reason
    }
}

extension JournalApplier {
    /// The feeds that a digest names, with the applier of their journal.
    ///
    /// - Throws: `RunFailure` when no held set has this digest: the set changed, was released or
    ///   discarded, or its release would now do something else.
    func released(by digest: String) throws -> (feeds: [CapturedFeed], applier: JournalApplier) {
        let holds = try Holds(beside: journal).all()
        for hold in holds {
            // An app that the settings no longer name cannot have been examined since.
            guard let partition = plan.partitions[hold.partition] else { continue }
            let digests = try HoldDigest(
                hold.partition, plan.policy, terms: store.terms(of: partition))
            let last = try hold.feeds.firstIndex {
                try digests.take(hold.journal.evidence(of: $0)) == digest
            }
            guard let last else { continue }
            return (Array(hold.feeds[...last]), on(hold.journal))
        }
        throw RunFailure(
            .usage, .state,
            "looking for the held set with digest \(digest.prefix(12)): none has it, so the set changed, "
                + "or the settings that decide what a release does, or it was decided already; look again "
                + "with: pushsweep holds list")
    }
}
