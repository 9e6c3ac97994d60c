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
    /// Tuples of all feeds; absent, as the next three, where they are not known.
    package private(set) var tuples: Int?
    /// Living rows that would become invalid now.
    package private(set) var candidates: Int?
    /// Living rows of the app and environment now.
    package private(set) var living: Int?
    /// What the guard says of all feeds together now; absent where it would not stop them.
    package private(set) var judgement: String?
    /// Why today's numbers are not known; absent where they are.
    package private(set) var gap: String?

    /// Describes a hold, with its numbers of today from `table`.
    init(_ hold: Hold, _ settings: Settings, _ context: RunContext, _ table: HoldTable) {
        self.init(hold)
        do {
            let report = try HoldPreview(hold, settings, context).report(from: table)
            (tuples, candidates, living) = (report.tuples, report.candidates, report.living)
            judgement = report.judgement
        } catch {
            gap = "\(RunFailure.wrapping(error, at: .store))"
        }
    }

    /// Describes a hold.
    package init(_ hold: Hold) {
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

    /// Two lines of text for people.
    package var lines: [String] {
        [
            "\(hold) \(app)/\(environment) from \(sources.joined(separator: ", ")), since \(since): "
                + "\(feeds.count.counting("feed")), \(bytes.counting("byte"))",
            "  \(judgement ?? cause)",
            "  now: \(gap.map { "not known: \($0)" } ?? today)",
        ]
    }

    private var today: String {
        let (candidates, living) = (candidates ?? 0, living ?? 0)
        let share = HoldReport.share(candidates, of: living)
        return "\(candidates) of \(living) living rows\(share) would become invalid, by "
            + (tuples ?? 0).counting("tuple")
            + (judgement == nil ? "; the guard would not stop them now" : "")
    }
}

/// The token table as all holds of a list use it: one connection. After its first failure it is not asked
/// again, because each question to a dead database takes the patience of a retry.
final class HoldTable {
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
    /// The exit code.
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

    /// The list as text for people.
    package var lines: [String] {
        holds.isEmpty ? ["nothing is held"] : holds.flatMap(\.lines)
    }
}

/// The details of one hold: one JSON object for scripts. Fields may be added, never renamed.
package struct HoldReport: PrintedLines, Encodable, Hashable, Sendable {
    /// A token of the hold, redacted.
    package struct Sample: Codable, Hashable, Sendable {
        /// The first digits of the token.
        package let token: String
        /// The time since which it is reported dead, RFC 3339.
        package let time: String
    }

    /// The number of tokens whose evidence has an age in a certain range.
    package struct Age: Codable, Hashable, Sendable {
        /// The range, such as `under an hour`.
        package let age: String
        /// Number of tokens.
        package var tokens: Int
    }

    private static let ages: [(name: String, upTo: Int64)] = [
        ("in the future", 0), ("under an hour", 3_600_000), ("under a day", 86_400_000),
        ("under a week", 7 * 86_400_000), ("under 30 days", 30 * 86_400_000),
        ("under a year", 365 * 86_400_000), ("a year and more", .max),
    ]

    /// The hold as the list shows it.
    package let entry: HoldEntry
    /// `mark` or `delete`: the action of a release under the current settings.
    package let action: String
    /// Identifies exactly this set and the changes of its release: SHA-256, 64 hex digits.
    package var digest = ""
    /// Number of whole tuples of all feeds.
    package var tuples = 0
    /// Tuples among them that are not usable evidence.
    package var quarantined = 0
    /// Number of distinct tokens.
    package var tokens = 0
    /// Living rows that would become invalid now.
    package var candidates = 0
    /// Living rows of the app and environment now.
    package var living = 0
    /// The tuples by outcome of a release now. Rows that could not be removed count as refused.
    package var outcome = OutcomeCounts()
    /// What the guard says of all feeds together now; absent where it would not stop them.
    package var judgement: String?
    /// The tokens by age of their evidence.
    package var ages: [Age]
    /// Some of the tokens, redacted.
    package var sample: [Sample] = []
    /// The exit code.
    package var exit: Int32 = 0
    /// The time at which the hold was examined.
    let taken: EpochMilliseconds

    private enum CodingKeys: String, CodingKey {
        case action, digest, tuples, quarantined, tokens, candidates, living, judgement, ages
        case sample, exit
    }

    /// Writes the list entry and the details into one JSON object.
    package func encode(to encoder: any Encoder) throws {
        try entry.encode(to: encoder)
        var object = encoder.container(keyedBy: CodingKeys.self)
        try object.encode(action, forKey: .action)
        try object.encode(digest, forKey: .digest)
        for (key, number) in [
            (CodingKeys.tuples, tuples), (.quarantined, quarantined), (.tokens, tokens),
            (.candidates, candidates), (.living, living),
        ] {
            try object.encode(number, forKey: key)
        }
        try object.encodeIfPresent(judgement, forKey: .judgement)
        try outcome.encode(to: encoder)
        try object.encode(ages, forKey: .ages)
        try object.encode(sample, forKey: .sample)
        try object.encode(exit, forKey: .exit)
    }

    /// Makes the report before its counts are known.
    init(_ hold: Hold, action: RemovalPolicy.Action, now: EpochMilliseconds) {
        entry = HoldEntry(hold)
        self.action = action.rawValue
        taken = now
        ages = Self.ages.map { Age(age: $0.name, tokens: 0) }
    }

    /// Counts a token by its age: milliseconds since it was reported dead.
    mutating func count(age: Int64) {
        let place = Self.ages.firstIndex { age < $0.upTo } ?? Self.ages.count - 1
        ages[place].tokens += 1
    }

    /// The report as text for people.
    package var lines: [String] {
        var lines = [
            "\(entry.app)/\(entry.environment) from \(entry.sources.joined(separator: ", ")), held "
                + "since \(entry.since): \(entry.feeds.count.counting("feed")), "
                + "\(tuples.counting("tuple")), \(tokens.counting("token"))",
            "cause: \(entry.cause)",
            "now: \(candidates) of \(living) living rows\(Self.share(candidates, of: living)) would become invalid (\(action)); of the "
                + "tuples \(outcome.applied) are about them, \(outcome.already) about invalid rows, "
                + "\(outcome.newer) about tokens that registered again, "
                + "\(outcome.unknown) about unknown tokens, "
                + "\(quarantined) are quarantined",
            "judged again: \(judgement ?? "the guard would not stop it now")",
        ]
        if entry.feeds.count > 1 { lines += ["feeds:"] + entry.feeds.map { "  \($0)" } }
        lines.append("said to be dead:")
        let most = ages.map(\.tokens).max() ?? 0
        for age in ages where age.tokens > 0 {
            let bar = String(repeating: "#", count: max(1, age.tokens * 40 / max(1, most)))
            lines.append("  \(padded(age.age, 16)) \(padded("\(age.tokens)", 10)) \(bar)")
        }
        lines.append("for example:")
        lines += sample.map { "  \($0.token) since \($0.time)" }
        lines += [
            "digest: \(digest)",
            "to apply exactly this:  pushsweep holds release \(digest)",
            "to drop \(entry.feeds.count > 1 ? "one feed:" : "it:      ")       pushsweep holds discard "
                + "\(entry.feeds.count > 1 ? "FEED" : entry.hold) --reason TEXT",
        ]
        if entry.feeds.count > 1 {
            lines.append(
                "to drop all of it:      pushsweep holds discard \(entry.hold) --all --reason TEXT")
        }
        return lines
    }

    /// A share of the living rows in brackets, to follow their number.
    fileprivate static func share(_ candidates: Int, of living: Int) -> String {
        guard living > 0 else { return "" }
        let tenths = (candidates * 1_000 + living / 2) / living
        return " (\(tenths / 10).\(tenths % 10) %)"
    }

    private func padded(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(0, width - text.count))
    }
}

/// Examines a hold: decodes its feeds, computes its digest, and asks the database for the present
/// outcome of every token.
package struct HoldPreview {
    /// Number of tokens in the sample of a hold.
    private static let sampleSize = 10
    private static let tokensPerBatch = 1_000

    private let hold: Hold
    private let settings: Settings
    private let context: RunContext
    private let policy: RemovalPolicy

    /// Uses the current settings to examine a hold.
    package init(_ hold: Hold, _ settings: Settings, _ context: RunContext) {
        self.hold = hold
        self.settings = settings
        self.context = context
        policy = settings.policy
    }

    /// The facts that a person needs for a decision. Only reads.
    ///
    /// - Throws: failures of the journal and of the database.
    package func report() throws -> HoldReport { try report(from: HoldTable(settings)) }

    func report(from table: HoldTable) throws -> HoldReport {
        guard let app = settings.apps.first(where: { $0.partition == hold.partition }) else {
            throw RunFailure(
                .configuration, .settings,
                "looking at hold \(hold.id): the settings no longer name \(hold.partition); name it "
                    + "again under apps, or discard the hold")
        }
        return try table.ask { try report(of: app, in: $0) }
    }

    private func report(of app: Settings.App, in store: TokenTable) throws -> HoldReport {
        var report = HoldReport(hold, action: policy.action, now: context.now())
        let table = try EvidenceTable(in: hold.journal.folder, named: "scratch-holds")
        let digest = try HoldDigest(
            hold.partition, policy, terms: store.terms(of: app.storedPartition))
        var outOfBounds = 0
        for feed in hold.feeds {
            let decoded = try FeedDecoding.decode(feed, in: hold.journal)
            report.digest = try digest.take(decoded) { item in
                for _ in 0..<item.statements { try table.add(item.token, item.time) }
            }
            report.tuples += decoded.books.tuples
            report.quarantined += decoded.books.quarantined
            outOfBounds += decoded.outOfBounds
        }
        let evidence = try table.seal()
        report.tokens = evidence.tokens
        try survey(evidence, into: &report)
        try compare(evidence, with: app.storedPartition, in: store, into: &report)
        report.judgement = try judge(
            report, evidence, outOfBounds, in: app.storedPartition, of: store)
        return report
    }

    private func survey(_ evidence: SortedEvidence, into report: inout HoldReport) throws {
        var stream = evidence.stream()
        // Tokens are close to random, so every n-th in their order is a fair sample.
        let step = max(1, evidence.tokens / Self.sampleSize)
        var place = 0
        while case let batch = try stream.next(Self.tokensPerBatch), !batch.isEmpty {
            for item in batch {
                report.count(age: report.taken.rawValue - item.time.rawValue)
                if place.isMultiple(of: step), report.sample.count < Self.sampleSize {
                    report.sample.append(
                        HoldReport.Sample(
                            token: item.token.redacted, time: item.time.rfc3339))
                }
                place += 1
            }
        }
    }

    /// What the guard says of all feeds of the hold together. A feed that another cause holds is not
    /// judged.
    private func judge(
        _ report: HoldReport, _ evidence: SortedEvidence, _ outOfBounds: Int,
        in partition: Partition, of store: TokenTable
    ) throws -> String? {
        guard hold.gate != nil, report.outcome.total > 0 else { return nil }
        var proposal = RemovalProposal(
            candidates: report.candidates, counts: report.outcome, tuples: report.tuples,
            outOfBounds: outOfBounds, tokens: report.tokens, deletes: policy.action == .delete)
        if hold.feeds.allSatisfy({ $0.kind == .feedback }) {
            proposal.tokensAtOneTime = try evidence.tokensAtOneTime()
        }
        let living = report.living
        return try RemovalGuard(settings.guardLimits).cause(
            toHold: proposal, after: store.removals(from: partition)
        ) { _ throws(StoreFailure) in living }.map { "\($0)" }
    }

    private func compare(
        _ evidence: SortedEvidence, with partition: Partition, in store: TokenTable,
        into report: inout HoldReport
    ) throws {
        var stream = evidence.stream()
        let forecast = try store.classify(
            &stream, in: partition, policy: policy,
            shouldStop: { context.interrupt.isTripped })
        guard forecast.isComplete else { throw RunFailure.stopped }
        report.candidates = forecast.candidateRows
        report.outcome = forecast.counts
        report.living = try store.livingRows(in: partition, atMost: .max)
    }
}
