import APNsProtocol
import Database
import EvidenceJournal
import Settings
import TokenHygiene
import TokenTable

/// One hold in a list.
package struct HoldEntry: PrintedLines, Codable, Hashable, Sendable {
    /// The name of the feed that was held first.
    package let hold: String
    /// The app's name in the settings.
    package let app: String
    /// `production` or `sandbox`.
    package let environment: String
    /// The sources of the feeds, each once.
    package let sources: [String]
    /// The guard's gate; nil when the guard did not hold the feeds.
    package let gate: String?
    /// The reason for the hold, in one sentence.
    package let cause: String
    /// The time at which the first feed was held, RFC 3339.
    package let since: String
    /// The feeds, in the order in which they were held.
    package let feeds: [String]
    /// Number of bytes of all feeds.
    package let bytes: Int
    /// Whole tuples of all feeds; absent, as the next three, where they are not known.
    package fileprivate(set) var tuples: Int?
    /// Living rows that would become invalid now.
    package fileprivate(set) var candidates: Int?
    /// Living rows of the app and environment now.
    package fileprivate(set) var living: Int?
    /// What the guard says of all feeds together now; absent where it would not stop them.
    package fileprivate(set) var judgement: String?
    /// Why today's numbers are not known; absent where they are.
    package private(set) var gap: String?

    /// Describes a hold, with its numbers of today from `table`.
    init(_ hold: Hold, _ settings: Settings, _ context: RunContext, _ table: HoldTable) {
        do {
            self = try hold.report(settings, context, from: table).entry
        } catch {
            self.init(hold)
            gap = "\(RunFailure.wrapping(error, at: .store))"
        }
    }

    init(_ hold: Hold) {
        self.hold = hold.id
        app = hold.partition.app
        environment = hold.partition.environment
        sources = Array(Set(hold.feeds.map(\.source))).sorted()
        gate = hold.gate?.rawValue
        cause = hold.cause
        since = hold.since.rfc3339
        feeds = hold.feeds.map(\.id)
        bytes = hold.feeds.reduce(0) { $0 + $1.bytes }
    }

    package var lines: [String] {
        [
            "\(hold) \(app)/\(environment) from \(sources.joined(separator: ", ")), since \(since): "
                + "\(feeds.count.counting("feed")), \(bytes.counting("byte"))",
            "  \(judgement ?? cause)",
            "  now: \(gap.map { "not known: \($0)" } ?? today)",
        ]
    }

    private var today: String {
        "\(effect), by \((tuples ?? 0).counting("tuple"))"
            + (judgement == nil ? "; the guard would not stop them now" : "")
    }

    /// What a release would do now, with its share of the living rows.
    fileprivate var effect: String {
        let (candidates, living) = (candidates ?? 0, living ?? 0)
        let tenths = living > 0 ? (candidates * 1_000 + living / 2) / living : 0
        let share = living > 0 ? " (\(tenths / 10).\(tenths % 10) %)" : ""
        return "\(candidates) of \(living) living rows\(share) would become invalid"
    }
}

/// The token table as all holds of a list use it: one connection. After its first failure it is not asked
/// again, because each question to a dead database takes the patience of a retry.
package final class HoldTable {
    private var answer: Result<TokenTable, any Error>

    /// Reaches the table, or keeps the failure.
    init(_ settings: Settings) {
        answer = Result { try TokenTable(StoreSettings(settings, for: .reports)) }
    }

    /// Asks the table.
    func ask<T>(_ question: (TokenTable) throws -> T) throws -> T {
        do {
            return try question(answer.get())
        } catch let failure as StoreFailure {
            answer = .failure(failure)
            throw failure
        }
    }
}

/// All holds: one JSON object for scripts. Fields may be added, never renamed.
package struct HoldList: PrintedLines, Codable, Hashable, Sendable {
    /// The holds, oldest first.
    package let holds: [HoldEntry]
    package var exit: Int32 = 0

    /// Makes the list of the holds of a host, with their numbers of today. The lock of the state folder is
    /// not held while the database is reached, which may take long where it is dead.
    ///
    /// - Throws: failures of the journals; exit 4 where another run holds the lock.
    package init(of settings: Settings, _ context: RunContext) throws {
        guard try !Holds(state: settings.state).all().isEmpty else {
            holds = []
            return
        }
        let table = HoldTable(settings)
        holds = try Holds(state: settings.state).all().map {
            HoldEntry($0, settings, context, table)
        }
    }

    package var lines: [String] {
        holds.isEmpty ? ["nothing is held"] : holds.flatMap(\.lines)
    }
}

/// The details of one hold: one JSON object for scripts. Fields may be added, never renamed.
package struct HoldReport: PrintedLines, Encodable, Hashable, Sendable {
    /// A token of the hold, redacted.
    package struct Sample: Encodable, Hashable, Sendable {
        /// The first digits of the token.
        package let token: String
        /// The time since which it is reported dead, RFC 3339.
        package let time: String
    }

    /// The number of tokens whose evidence has an age in a certain range.
    package struct Age: Encodable, Hashable, Sendable {
        /// The range, such as `under an hour`.
        package let age: String
        package var tokens: Int
    }

    fileprivate static let ages: [(name: String, upTo: Int64)] = [
        ("in the future", 0), ("under an hour", 3_600_000), ("under a day", 86_400_000),
        ("under a week", 7 * 86_400_000), ("under 30 days", 30 * 86_400_000),
        ("under a year", 365 * 86_400_000), ("a year and more", .max),
    ]

    /// The fields that `holds list` does not have.
    package struct Details: Encodable, Hashable, Sendable {
        /// `mark` or `delete`: the action of a release under the current settings.
        var action: String
        /// Identifies exactly this set and the changes of its release: SHA-256, 64 hex digits.
        var digest = ""
        /// Tuples that are not usable evidence.
        var quarantined = 0
        /// Number of distinct tokens.
        var tokens = 0
        // The tuples by outcome of a release now. Rows that could not be removed count as refused.
        var applied = 0, already = 0, newer = 0, unknown = 0, refused = 0
        /// The tokens by age of their evidence.
        var ages = HoldReport.ages.map { Age(age: $0.name, tokens: 0) }
        /// Some of the tokens, redacted.
        var sample: [Sample] = []
        var exit: Int32 = 0
    }

    /// The hold as the list shows it.
    package let entry: HoldEntry
    let details: Details
    /// Identifies exactly this set and the changes of its release.
    package var digest: String { details.digest }

    /// Writes the list entry and the details into one JSON object.
    package func encode(to encoder: any Encoder) throws {
        try entry.encode(to: encoder)
        try details.encode(to: encoder)
    }

    package var lines: [String] {
        var lines = [
            "\(entry.app)/\(entry.environment) from \(entry.sources.joined(separator: ", ")), held "
                + "since \(entry.since): \(entry.feeds.count.counting("feed")), "
                + "\((entry.tuples ?? 0).counting("tuple")), \(details.tokens.counting("token"))",
            "cause: \(entry.cause)",
            "now: \(entry.effect) (\(details.action)); of the tuples \(details.applied) are about them, "
                + "\(details.already) about invalid rows, "
                + "\(details.newer) about tokens that registered again, "
                + "\(details.unknown) about unknown tokens, "
                + "\(details.quarantined) are quarantined",
            "judged again: \(entry.judgement ?? "the guard would not stop it now")",
        ]
        if entry.feeds.count > 1 { lines += ["feeds:"] + entry.feeds.map { "  \($0)" } }
        lines.append("said to be dead:")
        let most = details.ages.map(\.tokens).max() ?? 0
        for age in details.ages where age.tokens > 0 {
            let bar = String(repeating: "#", count: max(1, age.tokens * 20 / max(1, most)))
            lines.append("  \(padded(age.age, 16)) \(padded("\(age.tokens)", 10)) \(bar)")
        }
        lines.append("for example:")
        lines += details.sample.map { "  \($0.token) since \($0.time)" }
        lines += [
            "digest: \(details.digest)",
            "to apply exactly this:  pushsweep holds release \(details.digest)",
            "to drop \(entry.feeds.count > 1 ? "one feed:" : "it:      ")       pushsweep holds discard "
                + "\(entry.feeds.count > 1 ? "FEED" : entry.hold) --reason TEXT",
        ]
        if entry.feeds.count > 1 {
            lines.append(
                "to drop all of it:      pushsweep holds discard \(entry.hold) --all --reason TEXT")
        }
        return lines
    }

    /// The failure of a release without a digest where nobody can be asked, so that nothing is applied
    /// that a person has not seen.
    package var unseen: RunFailure {
        RunFailure(
            .usage, .state,
            "releasing hold \(entry.hold): no terminal is here to ask whether \(entry.effect) should be applied; "
                + "look at it with: pushsweep holds show \(entry.hold); then run: pushsweep holds "
                + "release \(digest)")
    }

    /// The end of a release without a yes.
    package var declined: RunFailure {
        RunFailure(
            .held, .state,
            "releasing hold \(entry.hold): the answer was not yes, so no row changed and the hold stays; apply "
                + "what was shown with: pushsweep holds release \(digest)")
    }

    private func padded(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(0, width - text.count))
    }
}

// Examining a hold: its feeds are decoded, its digest is computed, and the database is asked for the
// present outcome of every token.

extension Hold {
    /// Number of tokens in the sample of a hold.
    private static let sampleSize = 10
    private static let tokensPerBatch = 1_000

    /// The facts that a person needs for a decision, under the current settings. Only reads.
    ///
    /// - Throws: failures of the journal and of the database.
    package func report(
        _ settings: Settings, _ context: RunContext, from table: HoldTable? = nil
    ) throws -> HoldReport {
        guard let app = settings.apps.first(where: { $0.partition == partition }) else {
            throw RunFailure(
                .configuration, .settings,
                "looking at hold \(id): the settings no longer name \(partition); name it "
                    + "again under apps, or discard the hold")
        }
        return try (table ?? HoldTable(settings)).ask {
            try report(settings, context, of: app.storedPartition, in: $0)
        }
    }

    private func report(
        _ settings: Settings, _ context: RunContext, of stored: Partition, in store: TokenTable
    ) throws -> HoldReport {
        let policy = settings.policy
        var details = HoldReport.Details(action: policy.action.rawValue)
        var counts = Counts()
        var outOfBounds = 0
        let table = try EvidenceTable(in: journal.folder, named: "scratch-holds")
        let digest = try HoldDigest(partition, policy, terms: store.terms(of: stored))
        for feed in feeds {
            let evidence = try journal.evidence(of: feed)
            details.digest = try digest.take(evidence) { item in
                for _ in 0..<item.statements { try table.add(item.token, item.time) }
            }
            counts += evidence.counts
            outOfBounds += evidence.outOfBounds
        }
        let evidence = try table.seal()
        try survey(evidence, at: context.now(), into: &details)
        var stream = evidence.stream()
        let forecast = try store.classify(
            &stream, in: stored, policy: policy, shouldStop: { context.interrupt.isTripped })
        guard forecast.isComplete else { throw RunFailure.stopped }
        let (outcome, living) = (
            forecast.counts, try store.livingRows(in: stored).count(atMost: .max)
        )
        (details.quarantined, details.tokens) = (counts.quarantined, evidence.count)
        (details.applied, details.already) = (outcome.applied, outcome.already)
        (details.newer, details.unknown) = (outcome.newer, outcome.unknown)
        details.refused = outcome.refused
        var entry = HoldEntry(self)
        (entry.tuples, entry.candidates) = (counts.tuples, forecast.candidateRows)
        entry.living = living
        // A feed that another cause holds is not judged.
        if gate != nil, outcome.total > 0 {
            let proposal = try RemovalProposal(
                forecast, tuples: counts.tuples, outOfBounds: outOfBounds, evidence,
                areDated: feeds.allSatisfy { $0.kind == .feedback }, policy)
            let history = try store.removals(from: stored)
            entry.judgement = try RemovalGuard(settings.guardLimits).cause(
                toHold: proposal, after: history
            ) { _ throws(StoreFailure) in living }.map {
                $0.words(isFirstLook: $0.isFirstLook(after: history))
            }
        }
        return HoldReport(entry: entry, details: details)
    }

    private func survey(
        _ evidence: SortedEvidence, at now: EpochMilliseconds,
        into details: inout HoldReport.Details
    ) throws {
        var stream = evidence.stream()
        // Tokens are close to random, so every n-th in their order is a fair sample.
        let step = max(1, evidence.count / Self.sampleSize)
        var place = 0
        while case let batch = try stream.next(Self.tokensPerBatch), !batch.isEmpty {
            for item in batch {
                let age = now.distance(from: item.time)
                let range = HoldReport.ages.firstIndex { age < $0.upTo }
                details.ages[range ?? HoldReport.ages.count - 1].tokens += 1
                if place.isMultiple(of: step), details.sample.count < Self.sampleSize {
                    details.sample.append(
                        .init(token: item.token.redacted, time: item.time.rfc3339))
                }
                place += 1
            }
        }
    }
}
