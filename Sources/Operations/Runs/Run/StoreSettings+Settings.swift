// What the settings say about the token database, as the types of the database take it.

import Database
import EvidenceJournal
import Findings
import Settings
import TokenHygiene
import TokenTable

extension StoreSettings {
    /// The token database of the settings, for one use, with a choice of hosts of its own.
    package init(_ settings: Settings, for use: StoreUse = .changes) {
        self = settings.store
        self.use = use
        hosts = HostChoice()
    }

    /// The same settings, whose connections tell the log which of several hosts they use.
    func reportingHosts(to context: RunContext) -> StoreSettings {
        hosts.telling { context.log.info("\($0)") }
        return self
    }
}

extension Duration {
    /// Whole milliseconds, rounded down.
    var wholeMilliseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds * 1000 + attoseconds / 1_000_000_000_000_000
    }
}

extension Pacing {
    /// The pacing that settings ask for. Replicas are reached with the password and the authorities of
    /// the token database.
    package init(_ settings: Settings) {
        self.init(patience: settings.store.patience)
        throttle = settings.throttle
        throttle.replicas = settings.replicas.map { location in
            var replica = StoreSettings(settings)
            replica.location = location
            if StoreTLS.usual(for: location) == .off { replica.tls = .off }
            return replica
        }
    }
}

extension Settings {
    /// The table's values of each app and environment, by the names.
    package var storedPartitions: [Partition: Partition] {
        Dictionary(
            apps.map { ($0.partition, $0.storedPartition) }, uniquingKeysWith: { first, _ in first }
        )
    }

    /// The words by which reports may name the apps.
    package var appWords: AppWords {
        AppWords(storedPartitions, environments: store.mapping.environmentValues)
    }

    /// Looks at the state folder where the token database is a file in it, as it is by default: for commands
    /// that have to do with the database alone. SQLite would follow any link that stands there.
    ///
    /// - Throws: exit 77 where somebody else can change what is in the folder.
    package func ensureOwnStore() throws(RunFailure) {
        guard case .sqlite(let path) = store.location, path.hasPrefix(state + "/") else { return }
        try RunFailure.at(.state) { try StateFolder.examine(state) }
    }

    /// Opens the token table for a command that only reads, and runs a body with it.
    ///
    /// - Throws: the failures of opening and of the body; 69 where the database cannot be used now.
    package func reading<Value>(
        for use: StoreUse = .reports, pacing: Pacing = Pacing(),
        _ body: (TokenTable) throws -> Value
    ) throws(RunFailure) -> Value {
        do {
            try ensureOwnStore()
            return try body(TokenTable(StoreSettings(self, for: use), pacing: pacing))
        } catch {
            throw .ofReading(error)
        }
    }
}

extension TokenTable {
    /// Opens the table for a run of some kind that changes rows, or for its dry run.
    static func open(
        _ settings: Settings, dryRun: Bool, for kind: String, _ context: RunContext
    ) throws(StoreFailure) -> TokenTable {
        try TokenTable(
            StoreSettings(settings, for: dryRun ? .decisions : .changes)
                .reportingHosts(to: context),
            pacing: Pacing(settings).began(kind, context))
    }
}
