import APNsProtocol
import Database
import Settings
import TokenHygiene
import TokenTable

/// Counts the tokens of a send by what the token table says about them.
struct TokenTally {
    /// The counts so far.
    private(set) var counts = GateTokens()
    /// Whether duplicates were no longer looked for.
    var missesDuplicates: Bool { seen.isIncomplete }

    private let store: TokenTable
    private let own: TokenStatusLookup
    private let others: [TokenStatusLookup]
    private var seen: TokenFingerprints

    /// Prepares the count for an app. `memory` limits the bytes for finding duplicates.
    init(_ store: TokenTable, _ app: Settings.App, memory: Int) throws(StoreFailure) {
        self.store = store
        own = try store.tokenStatuses(in: app.storedPartition)
        let terms = try store.terms(of: app.storedPartition)
        var others: [TokenStatusLookup] = []
        for environment in Settings.Environment.allCases where environment != app.environment {
            let other = Partition(app: app.value, environment: environment.rawValue)
            // A table without a column for the environment has the same rows in each; one with numbers
            // may have none for the other.
            guard let theirs = try? store.terms(of: other), theirs != terms else { continue }
            others.append(try store.tokenStatuses(in: other))
        }
        self.others = others
        seen = TokenFingerprints(mostBytes: memory)
    }

    /// Counts some tokens; nil is a value that is none.
    ///
    /// - Throws: any failure of reading.
    mutating func add(_ tokens: [DeviceToken?]) throws(StoreFailure) {
        counts.read += tokens.count
        let known = tokens.compactMap { $0 }
        counts.malformed += tokens.count - known.count
        for token in known where !seen.insert(token) && !seen.isIncomplete {
            counts.duplicate += 1
        }
        let statuses = try statuses(of: known, own)
        var strangers: [DeviceToken] = []
        for token in known {
            switch statuses[token] ?? .unknown {
            case .living: counts.living += 1
            case .stale: counts.stale += 1
            case .unknown: strangers.append(token)
            }
        }
        guard !strangers.isEmpty else { return }
        var elsewhere: Set<DeviceToken> = []
        for other in others {
            for (token, status) in try self.statuses(of: strangers, other)
            where status != .unknown {
                elsewhere.insert(token)
            }
        }
        let count = strangers.count { elsewhere.contains($0) }
        counts.otherEnvironment += count
        counts.unknown += strangers.count - count
    }

    private func statuses(
        of tokens: [DeviceToken], _ lookup: TokenStatusLookup
    ) throws(StoreFailure) -> [DeviceToken: TokenStatus] {
        try store.retries.retrying(
            "looking up tokens in \(store.settings.mapping.table)", do: lookup.statuses(of: tokens))
    }
}

// What the counts say about the send.

extension GateTokens {
    /// The share above which a loss is not small, and the one from which most of a send is lost.
    private static let some = 0.01
    private static let most = 0.5

    /// The findings on these tokens, for an object such as `chat/production`.
    func findings(_ object: String, mostStale: Double) -> [GateFinding] {
        guard read > 0 else {
            return [
                GateFinding(
                    .noTokens, .note, object, "there is no token to send to",
                    cure: "check the queue, the query or the list, unless nothing is to be sent")
            ]
        }
        var findings: [GateFinding] = []
        func add(
            _ rule: GateRule, _ count: Int, _ severity: GateSeverity, _ what: String, _ cure: String
        ) {
            guard count > 0 else { return }
            findings.append(
                GateFinding(
                    rule, severity, object,
                    "\(count) of \(read) tokens (\(percent(count))) \(what)",
                    cure: cure))
        }
        if living == 0 {
            // Each share may be below its limit.
            add(
                .noLivingTokens, read, .high, "lead to no living row, so nothing would arrive",
                "check that the list, the app, its environment and store.url belong together")
        }
        add(
            .otherEnvironmentTokens, otherEnvironment,
            share(otherEnvironment) > Self.some ? .high : .medium,
            "are registered in the other environment only",
            "send them with the app of that environment, or correct apps[].environment")
        add(
            .staleTokens, stale, share(stale) > mostStale ? .high : .note, "are stale",
            "leave them out, for example with preflight --filter")
        add(
            .unknownTokens, unknown,
            share(unknown) > Self.most ? .high : share(unknown) > mostStale ? .medium : .note,
            "have no row in the token table",
            "check that the list and store.url belong together; preflight --filter --only-known leaves "
                + "them out")
        add(
            .malformedTokens, malformed,
            share(malformed) > Self.most ? .high : share(malformed) > Self.some ? .medium : .low,
            "are not device tokens", "correct the list; preflight --filter leaves them out")
        add(
            .duplicateTokens, duplicate, share(duplicate) > Self.some ? .medium : .low,
            "occur more than once",
            "send to each token once, else its user gets several notifications")
        return findings
    }

    private func percent(_ count: Int) -> String {
        let tenths = Int((share(count) * 1_000).rounded(.up))
        return "\(tenths / 10).\(tenths % 10) %"
    }
}
