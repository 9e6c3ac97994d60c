import APNsProtocol
import Database
import Findings
import Settings
import TokenHygiene
import TokenTable

/// Counts the tokens of a send by what the token table says about them.
struct TokenTally {
    private(set) var counts = TokenCounts()
    /// Whether duplicates were no longer looked for.
    var missesDuplicates: Bool { seen.isIncomplete }

    private let store: TokenTable
    private let own: TokenStatusLookup
    private let others: [TokenStatusLookup]
    private let partition: Partition
    /// Since when it counts that APNs called a token bad; nil where it called none of the app.
    private let suspectsSince: EpochMilliseconds?
    private var seen: TokenFingerprints

    /// Prepares the count for an app. `memory` limits the bytes for finding duplicates; `suspectsSince` is when it
    /// begins to count that APNs called a token bad, nil where it called none.
    init(
        _ store: TokenTable, _ app: Settings.App, memory: Int,
        suspectsSince: EpochMilliseconds?
    ) throws(StoreFailure) {
        (self.store, self.suspectsSince) = (store, suspectsSince)
        partition = app.storedPartition
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
        let statuses = try store.statuses(of: known, by: own)
        var strangers: [DeviceToken] = []
        for token in known {
            switch statuses[token] ?? .unknown {
            case .living: counts.living += 1
            case .stale: counts.stale += 1
            case .unknown: strangers.append(token)
            }
        }
        if let suspectsSince {
            let living = known.filter { statuses[$0] == .living }
            let bad = try Suspects(store).open(
                among: living, of: partition, since: suspectsSince)
            counts.suspect += living.count { bad.contains($0) }
        }
        guard !strangers.isEmpty else { return }
        var elsewhere: Set<DeviceToken> = []
        for other in others {
            for (token, status) in try store.statuses(of: strangers, by: other)
            where status != .unknown { elsewhere.insert(token) }
        }
        let count = strangers.count { elsewhere.contains($0) }
        counts.otherEnvironment += count
        counts.unknown += strangers.count - count
    }

}

extension TokenTable {
    /// Opens the table for a look before a send, at rows that are not old where that can be helped.
    static func forDecisions(_ settings: Settings) throws -> TokenTable {
        try settings.ensureOwnStore()
        return try TokenTable(
            StoreSettings(settings, for: .decisions), pacing: Pacing(settings))
    }

    /// Whether a replica answers, whose rows may lack the latest marks and registrations. Behind a proxy
    /// that splits reads from changes the primary is asked, see `StoreUse.decisions`.
    func isReplica() throws(StoreFailure) -> Bool {
        try retries.retrying("asking \(settings.location) for its role") {
            () throws(SQLFailure) in try connection.role()?.isReplica == true
        }
    }

    func statuses(
        of tokens: [DeviceToken], by lookup: TokenStatusLookup
    ) throws(StoreFailure) -> [DeviceToken: TokenStatus] {
        guard !tokens.isEmpty else { return [:] }
        return try retries.retrying("looking up tokens in \(settings.mapping.table)") {
            () throws(SQLFailure) in try lookup.statuses(of: tokens)
        }
    }
}
