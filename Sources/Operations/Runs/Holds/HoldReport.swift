import APNsProtocol
import Database
import Findings
import Settings
import TokenHygiene
import TokenTable

/// One hold in a list.
package struct HoldEntry: PrintedLines, Codable, Hashable, Sendable {
    /// The name of the batch that was held first.
    package let hold: String
    /// The app's name in the settings.
    package let app: String
    /// `production` or `sandbox`.
    package let environment: String
    /// `table`, `gateway`, `file` or `sender`: where the batches came from.
    package let inlet: String
    /// The labels of the batches, each once.
    package let sources: [String]
    /// The hosts that heard them, each once.
    package let hosts: [String]
    /// The guard's gate; nil when the guard did not hold the batches.
    package let gate: String?
    /// The reason for the hold, in one sentence.
    package let cause: String
    /// The time at which the first batch was held, RFC 3339.
    package let since: String
    /// The batches, in the order in which they were held.
    package let names: [String]
    /// Bytes of the gateways' lists among them.
    package let bytes: Int
    /// Reports of all batches.
    package let tuples: Int
    /// Living rows that would become invalid now; absent, as the next two, where that is not known.
    package fileprivate(set) var candidates: Int?
    /// Living rows of the app and environment now.
    package fileprivate(set) var living: Int?
    /// What the guard says of all batches together now; absent where it would not stop them.
    package fileprivate(set) var judgement: String?
    /// Why today's numbers are not known; absent where they are.
    package private(set) var gap: String?

    /// Describes a hold, with its numbers of today.
    package init(_ hold: Hold, _ settings: Settings, _ context: RunContext, in store: TokenTable) {
        do {
            self = try hold.report(settings, context, in: store).entry
        } catch {
            self.init(hold)
            gap = "\(RunFailure.wrapping(error, at: .store))"
        }
    }

    init(_ hold: Hold) {
        self.hold = hold.id
        app = hold.partition.app
        environment = hold.partition.environment
        inlet = hold.batches[0].inlet.rawValue
        sources = Array(Set(hold.batches.map(\.label))).sorted()
        hosts = Array(Set(hold.batches.map(\.host))).sorted()
        gate = hold.gate?.rawValue
        cause = hold.cause
        since = hold.since.rfc3339
        names = hold.batches.map(\.id)
        bytes = hold.batches.reduce(0) { $0 + $1.bytes }
        tuples = hold.reports
    }

    package var lines: [String] {
        [
            "\(hold) \(app)/\(environment) from \(sources.joined(separator: ", ")), since \(since): "
                + "\(names.count.counting("batch")), \(tuples.counting("report"))",
            "  \(judgement ?? cause)",
            "  now: \(gap.map { "not known: \($0)" } ?? today)",
        ]
    }

    private var today: String {
        "\(effect), by \(tuples.counting("report"))"
            + (judgement == nil ? "; the guard would not stop them now" : "")
    }

    /// What a release would do now, with its share of the living rows.
    fileprivate var effect: String {
        let (candidates, living) = (candidates ?? 0, living ?? 0)
        let tenths = living > 0 ? (candidates * 1_000 + living / 2) / living : 0
        let share = living > 0 ? " (\(tenths / 10).\(tenths % 10) %)" : ""
        if inlet == Inlet.grace.rawValue {
            return "\(candidates) marked rows would go after their grace period"
        }
        return "\(candidates) of \(living) living rows\(share) would become invalid"
    }
}

/// All holds: one JSON object for scripts. Fields may be added, never renamed.
package struct HoldList: PrintedLines, Codable, Hashable, Sendable {
    /// The holds, oldest first.
    package let holds: [HoldEntry]
    package var exit: Int32 = 0

    /// Makes the list of all holds, with their numbers of today.
    ///
    /// - Throws: failures of the database; exit 77 or 78 where the account cannot see them.
    package init(of settings: Settings, _ context: RunContext) throws {
        holds = try settings.reading { store in
            try Holds(store).all().map { HoldEntry($0, settings, context, in: store) }
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
        /// The user of its row, and when the device registered; absent where the table does not say.
        package fileprivate(set) var user: String?
        package fileprivate(set) var registered: String?

        /// One line with the command that tells more.
        fileprivate var line: String {
            let row = [user.map { "user \($0)" }, registered.map { "registered \($0)" }]
                .compactMap { $0 }.map { ", " + $0 }.joined()
            return "\(token) since \(time)\(row): pushsweep explain \(token.filter(\.isHexDigit))"
        }
    }

    /// The rows that would become invalid and registered in some range of time.
    package struct Registration: Encodable, Hashable, Sendable {
        /// The range, such as `1 to 2 weeks ago`.
        package let registered: String
        package var rows: Int
    }

    /// The ends of ranges in weeks before now, and their names.
    fileprivate static let weeks: [(name: String, upTo: Int64)] = [
        ("this week", 0), ("last week", 1), ("2 to 4 weeks ago", 4), ("5 to 12 weeks ago", 12),
        ("13 to 52 weeks ago", 52), ("longer ago", .max),
    ]

    /// The number of tokens whose evidence has an age in a certain range.
    package struct Age: Encodable, Hashable, Sendable {
        /// The range, such as `under an hour`.
        package let age: String
        package var tokens: Int
    }

    /// One batch of the hold.
    package struct Batch: Encodable, Hashable, Sendable {
        package let batch: String
        /// `table`, `gateway`, `file` or `sender`.
        package let inlet: String
        package let source: String
        package let host: String
        package let reports: Int
        /// When it was heard, RFC 3339.
        package let heard: String

        init(_ batch: ReportBatch) {
            self.batch = batch.id
            (inlet, source, host) = (batch.inlet.rawValue, batch.label, batch.host)
            (reports, heard) = (batch.reports, batch.opened.rfc3339)
        }

        var line: String {
            "\(batch)  \(inlet) \(source) on \(host): \(reports.counting("report")), heard \(heard)"
        }
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
        var batches: [Batch] = []
        /// Reports that are not usable evidence.
        var quarantined = 0
        /// Number of distinct tokens.
        var tokens = 0
        // The reports by outcome of a release now. Rows that could not be removed count as refused.
        var applied = 0, already = 0, newer = 0, unknown = 0, refused = 0
        /// The rows that would become invalid by the week of their registration.
        var registrations: [Registration] = []
        /// Rows that registered since the first batch was held: their devices were alive.
        var registeredSince = 0
        /// Tokens about which a person undid or discarded as much since; absent where there are none.
        var spared: Int?
        /// Tokens of the sample and all others by age of their evidence.
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
                + "since \(entry.since): \(entry.names.count.counting("batch")), "
                + "\(entry.tuples.counting("report")), \(details.tokens.counting("token"))",
            "cause: \(entry.cause)",
            "now: \(entry.effect) (\(details.action)); of the reports \(details.applied) are about them, "
                + "\(details.already) about invalid rows, "
                + "\(details.newer) about tokens that registered again, "
                + "\(details.unknown) about unknown tokens, "
                + "\(details.quarantined) are quarantined",
            "judged again: \(entry.judgement ?? "the guard would not stop it now")",
        ]
        lines += ["batches:"] + details.batches.map { "  \($0.line)" }
        lines.append("said to be dead:")
        let most = details.ages.map(\.tokens).max() ?? 0
        for age in details.ages where age.tokens > 0 {
            let bar = String(repeating: "#", count: max(1, age.tokens * 20 / max(1, most)))
            lines.append("  \(padded(age.age, 16)) \(padded("\(age.tokens)", 10)) \(bar)")
        }
        lines.append("registered (rows that would become invalid):")
        lines += details.registrations.filter { $0.rows > 0 }.map {
            "  \(padded($0.registered, 20)) \($0.rows)"
        }
        if details.registeredSince > 0 {
            lines.append(
                "\(details.registeredSince.counting("row")) registered since it is held, so "
                    + "\(details.registeredSince == 1 ? "its device was" : "their devices were") alive"
            )
        }
        if let spared = details.spared {
            lines.append(
                "a person undid or discarded what is said of \(spared.counting("token")), and a release makes "
                    + "\(spared == 1 ? "it" : "them") dead again")
        }
        lines.append("for example:")
        lines += details.sample.map { "  \($0.line)" }
        lines += [
            "digest: \(details.digest)",
            "to apply exactly this:  pushsweep holds release \(details.digest)",
            "to drop \(entry.names.count > 1 ? "one batch:" : "it:       ")      pushsweep holds discard "
                + "\(entry.names.count > 1 ? "BATCH" : entry.hold) --reason TEXT",
        ]
        if entry.names.count > 1 {
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

extension HoldReport.Details {
    /// Enters the registrations of a forecast.
    fileprivate mutating func enter(_ forecast: Classification, at now: EpochMilliseconds) {
        registeredSince = forecast.registeredSince
        registrations = HoldReport.weeks.map { .init(registered: $0.name, rows: 0) }
        for (week, rows) in forecast.weeks {
            guard let week else { continue }
            let place = HoldReport.weeks.firstIndex { now.week - week <= $0.upTo }
            registrations[place ?? HoldReport.weeks.count - 1].rows += rows
        }
        registrations.append(.init(registered: "not known", rows: forecast.weeks[nil] ?? 0))
    }
}

// Examining a hold: its digest is computed from its reports, and the token table is asked for the present
// outcome of every token.

extension Hold {
    /// Number of tokens in the sample of a hold.
    private static let sampleSize = 10

    /// The facts that a person needs for a decision, under the current settings. Only reads.
    ///
    /// - Throws: failures of the database; exit 78 where the settings do not name the app.
    package func report(
        _ settings: Settings, _ context: RunContext, in store: TokenTable
    ) throws -> HoldReport {
        guard let app = settings.apps.first(where: { $0.partition == partition }) else {
            throw RunFailure(
                .configuration, .settings,
                "looking at hold \(id): the settings no longer name \(partition); name it "
                    + "again under apps, or discard the hold")
        }
        let (stored, policy) = (app.storedPartition, settings.policy)
        var details = HoldReport.Details(action: policy.action.rawValue)
        details.batches = batches.map(HoldReport.Batch.init)
        details.quarantined = batches.reduce(0) { $0 + $1.quarantined }
        let digest = try HoldDigest(partition, policy, terms: store.terms(of: stored))
        for batch in batches { details.digest = try digest.take(batch, in: store) }
        let spread = try spread(in: store)
        details.tokens = spread.tokens
        let sample = try survey(store, at: context.now(), into: &details)
        try name(sample, in: stored, store, into: &details)
        var stream = evidence(in: store)
        let isOfGrace = batches.allSatisfy { $0.source == .grace }
        let forecast = try store.classify(
            &stream, in: stored, policy: policy,
            grace: isOfGrace ? store.gracePeriod(policy, mustSee: false) : nil, since: since,
            shouldStop: { context.interrupt.isTripped })
        guard forecast.isComplete else { throw RunFailure.stopped }
        let (outcome, living) = (
            forecast.counts, try store.livingRows(in: stored).count(atMost: .max)
        )
        (details.applied, details.already) = (outcome.applied, outcome.already)
        (details.newer, details.unknown) = (outcome.newer, outcome.unknown)
        details.refused = outcome.refused
        details.enter(forecast, at: context.now())
        var entry = HoldEntry(self)
        (entry.candidates, entry.living) = (forecast.candidateRows, living)
        // A batch that another cause holds is not judged.
        if gate != nil, outcome.total > 0 {
            let proposal = RemovalProposal(
                forecast, of: batches, tokens: spread.tokens, atOneTime: spread.atOneTime, policy)
            let history = try store.removals(from: stored, afterGrace: isOfGrace)
            let due = isOfGrace ? forecast.candidateRows : 0
            let cause = try RemovalGuard(settings.guardLimits).cause(
                toHold: proposal, after: history
            ) { _ throws(StoreFailure) in living + due }
            entry.judgement = cause.map {
                $0.words(
                    isFirstRemoval: $0.isFirstRemoval(after: history), isOfGrace: isOfGrace)
            }
        }
        return HoldReport(entry: entry, details: details)
    }

    /// Number of distinct tokens, and of those that share the most frequent time, which says something of gateways'
    /// lists alone. The batches of senders may be more than a statement can name.
    private func spread(in store: TokenTable) throws -> (tokens: Int, atOneTime: Int) {
        if batches.allSatisfy({ $0.source == .feedback }) {
            return try store.spread(ofBatches: batches.map(\.id))
        }
        var (stream, tokens) = (evidence(in: store), 0)
        while case let page = try stream.next(1_000), !page.isEmpty { tokens += page.count }
        return (tokens, 0)
    }

    private func evidence(in store: TokenTable) -> MergedEvidence<StoredReports> {
        MergedEvidence(batches.map { StoredReports(of: $0.id, in: store) })
    }

    /// Counts the tokens by age, and takes some of them.
    private func survey(
        _ store: TokenTable, at now: EpochMilliseconds, into details: inout HoldReport.Details
    ) throws -> [DeviceToken] {
        var sample: [DeviceToken] = []
        var stream = evidence(in: store)
        // An account that looks at holds may not see what was undone.
        let seesSpared = try store.seesSpared()
        let heard = batches.compactMap(\.heard)
        let hearing = heard.count == batches.count ? heard.min().map(Hearing.at) : nil
        var spared = 0
        // Tokens are close to random, so every n-th in their order is a fair sample.
        let step = max(1, details.tokens / Self.sampleSize)
        var place = 0
        while case let page = try stream.next(1_000), !page.isEmpty {
            let notes = seesSpared ? try store.spared(among: page.map(\.token)) : [:]
            spared += page.count { item in
                notes[item.token]?.spares(item.time, heard: hearing ?? .unknown) == true
            }
            for item in page {
                let age = now.distance(from: item.time)
                let range = HoldReport.ages.firstIndex { age < $0.upTo }
                details.ages[range ?? HoldReport.ages.count - 1].tokens += 1
                if place.isMultiple(of: step), details.sample.count < Self.sampleSize {
                    sample.append(item.token)
                    details.sample.append(
                        .init(token: item.token.redacted, time: item.time.rfc3339))
                }
                place += 1
            }
        }
        if spared > 0 { details.spared = spared }
        return sample
    }

    /// Names user and registration of the sample's rows.
    private func name(
        _ tokens: [DeviceToken], in stored: Partition, _ store: TokenTable,
        into details: inout HoldReport.Details
    ) throws {
        let history = try TokenHistory(store)
        let rows = try history.rows(
            of: tokens, in: [stored], marks: [:], user: store.userColumn())
        for (place, token) in tokens.enumerated() {
            guard let row = rows[token]?.first(where: { $0.partition == stored }) else { continue }
            details.sample[place].user = row.user
            details.sample[place].registered = row.registeredAt?.rfc3339
        }
    }
}
