// What the guard stopped, as a person meets it. All held feeds of one app and environment in one
// journal are one hold: one look, one decision. It is named by the feed that the guard stopped first;
// those that came later wait behind it and belong to it as well.
//
// A decision is about a set that somebody has seen, and sweeps go on meanwhile. So a set has a digest,
// taken feed by feed in the order in which they were held: the digest of the first n feeds stays what
// it is however many join. To release a digest applies exactly the feeds that were looked at; those
// that joined since are judged by the guard once more. What a release would do is part of the look too: the
// digest begins with the policy and with the table, columns and values by which rows are found.
//
// A feed that is held for another reason, as because it reached feedback.max-bytes, holds nobody else
// and is a hold of its own.

import APNsProtocol
import Encodings
import EvidenceJournal
import Foundation
import SecureTransport
import TokenHygiene

/// Held feeds that are decided about together.
package struct Hold {
    /// Where they are.
    let journal: EvidenceJournal
    /// What they are about.
    package let partition: Partition
    /// The feeds in the order in which they were held, at least one.
    let feeds: [CapturedFeed]

    /// The name of the feed that was held first.
    package var id: String { feeds[0].id }
    /// The gate; nil where the guard had no part in it.
    package var gate: GuardGate? { feeds[0].gate }
    /// Why, in one sentence.
    package var cause: String { feeds[0].cause ?? "no cause was noted" }
    /// Since when.
    package var since: EpochMilliseconds { feeds[0].settled ?? feeds[0].opened }
}

/// The holds of this host: those of sweeps, and those of its senders, alive or not.
package struct Holds {
    private let journals: [EvidenceJournal]
    /// The journal of the state folder, whose lock is held.
    let main: EvidenceJournal

    /// Takes the lock of the state folder.
    ///
    /// - Throws: `RunFailure` with exit 4 where another run holds it.
    package init(state: String) throws {
        try self.init(beside: EvidenceJournal(in: StateFolder(state)))
    }

    /// The holds of a journal that is open, and of the senders below its folder.
    init(beside main: EvidenceJournal) throws {
        self.main = main
        journals =
            try [main]
            + SenderFolders.visited(in: main.folder.path).map { folder in
                try EvidenceJournal(in: folder)
            }
    }

    /// All holds, the oldest first.
    package func all() throws -> [Hold] {
        try journals.flatMap(Self.holds).sorted { ($0.since, $0.id) < ($1.since, $1.id) }
    }

    /// The holds of one journal, in no order.
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

    /// The hold that a feed belongs to, by its name or the beginning of it.
    ///
    /// - Throws: `RunFailure` with exit 64 where there is none, or more than one.
    package func hold(of feed: String) throws -> Hold {
        guard let beginning = NameBeginning(feed) else {
            throw RunFailure(
                .usage, .state,
                "looking for the hold \(SettingText.quoted(feed)): \(NameBeginning.refusal); see: "
                    + "pushsweep holds list")
        }
        let matching = try all().filter { hold in
            hold.feeds.contains { beginning.begins($0.id) }
        }
        guard let hold = matching.first, matching.count == 1 else {
            throw RunFailure(
                .usage, .state,
                "looking for the hold \(feed.prefix(40)): "
                    + (matching.isEmpty ? "nothing of this name is held" : "several begin so")
                    + "; see: pushsweep holds list")
        }
        return hold
    }

    /// Drops a hold for a reason. Its feeds stay in the journal for 30 days, and can be replayed as
    /// long as that.
    package func discard(
        _ hold: Hold, because reason: String, _ context: RunContext
    ) throws -> DiscardReport {
        let run = UUID().uuidString.lowercased()
        try main.beginRun(run, kind: "discard", at: context.now())
        for feed in hold.feeds {
            try hold.journal.settle(feed.id, as: .discarded, cause: reason, at: context.now())
        }
        let report = DiscardReport(
            run: run, hold: hold.id, app: hold.partition.app,
            environment: hold.partition.environment, feeds: hold.feeds.map(\.id), reason: reason)
        try hold.journal.freeFollowers()
        try main.endRun(run, exit: 0, summary: report.jsonLine, at: context.now())
        return report
    }
}

extension Holds {
    /// Writes metrics after a decision.
    ///
    /// - Throws: exit 73 where the file cannot be written; the decision stands.
    package func write(_ metrics: (any JournalPage)?) throws(RunFailure) {
        try metrics?.write(from: main)
    }
}

extension CapturedFeed {
    /// The feed that holds its partition comes first, whatever the clock did since.
    fileprivate var holdOrder: (Int, EpochMilliseconds, EpochMilliseconds, String) {
        (gate == .behind ? 1 : 0, settled ?? opened, opened, id)
    }
}

/// Takes the digest of a hold: what a release would do, then per feed every token in order with the latest
/// time at which it was said to be dead.
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
        // With their lengths, so that no two headings run together to the same bytes.
        try self.init(heading.map { "\($0.utf8.count):\($0)\n" }.joined() + "\n")
    }

    /// The digest of versions before 1.0, which left out what release does but for the action.
    init(withoutTerms partition: Partition, _ action: RemovalPolicy.Action) throws {
        let heading = ["pushsweep hold 1", partition.app, partition.environment, action.rawValue]
        try self.init(heading.joined(separator: "\n") + "\n")
    }

    private init(_ heading: String) throws {
        digest = try SHA256Digest()
        try digest.update(Array(heading.utf8))
    }

    /// Takes a feed. The digest of all taken so far, in hex.
    func take(
        _ feed: DecodedFeed, _ body: (TokenEvidence) throws -> Void = { _ in }
    ) throws -> String {
        var stream = feed.evidence?.stream()
        while let batch = try stream?.next(Self.tokensPerBatch), !batch.isEmpty {
            var bytes: [UInt8] = []
            for item in batch {
                AnswerRecord(token: item.token, time: item.time).encode(into: &bytes)
                try body(item)
            }
            try digest.update(bytes)
        }
        // No record begins with a byte of ones: times are positive.
        try digest.update([0xFF])
        return try digest.hex()
    }
}

/// What discarding did: one JSON object for scripts. Fields may be added, never renamed.
package struct DiscardReport: PrintedLines, Codable, Hashable, Sendable {
    /// The run's name.
    package let run: String
    /// The name of the hold.
    package let hold: String
    /// The app's name in the settings.
    package let app: String
    /// `production` or `sandbox`.
    package let environment: String
    /// The feeds that were dropped.
    package let feeds: [String]
    /// Why, in the words of who did it.
    package let reason: String
    /// The exit code.
    package var exit: Int32 = 0

    /// For people.
    package var lines: [String] {
        [
            "\(app)/\(environment): \(feeds.count.counting("held feed")) discarded; within 30 days: "
                + "pushsweep replay --feed \(hold)"
        ]
    }
}
