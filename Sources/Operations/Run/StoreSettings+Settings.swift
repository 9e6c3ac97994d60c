// What the settings say about the token database, as the types of the database take it.

import Database
import EvidenceJournal
import Settings

extension StoreSettings {
    /// The token database as the settings describe it, for one use.
    package init(_ settings: Settings, for use: StoreUse = .changes) {
        let store = settings.store
        self.init(
            location: store.location, password: store.password?.reveal(),
            tls: store.tlsMode == .off ? .off : .verify(ca: store.ca),
            timeouts: StoreTimeouts(
                connect: store.connectTimeout.wholeSeconds, read: store.readTimeout.wholeSeconds,
                write: store.writeTimeout.wholeSeconds),
            mapping: store.activeUsers, queue: store.pushQueue)
        wantsQueue = settings.wantsQueue
        self.use = use
        acceptsReplica = store.acceptsReplica
        connections = store.connections
    }

    /// The same settings, whose connections tell the log which of several hosts they use.
    func reportingHosts(to context: RunContext) -> StoreSettings {
        hosts.telling { context.log.info("\($0)") }
        return self
    }
}

extension Settings {
    /// Whether the settings send: an app has a provider, or the queue's table is named.
    fileprivate var wantsQueue: Bool {
        apps.contains(where: \.sends)
            || origins.contains {
                $0.key == "store.push-queue.table" && $0.origin != .builtIn
            }
    }
}

extension Duration {
    /// Whole milliseconds, rounded down.
    var wholeMilliseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds * 1000 + attoseconds / 1_000_000_000_000_000
    }

    /// Whole seconds, rounded up.
    fileprivate var wholeSeconds: Int { Int((wholeMilliseconds + 999) / 1000) }
}

extension Throttle {
    /// What the settings say, for a token database; replicas are reached with its password and its
    /// authorities.
    package init(_ throttle: Settings.Throttle, _ store: StoreSettings) {
        self.init()
        maxLag = throttle.maxLag.map { Double($0.wholeMilliseconds) / 1_000 }
        maxLoad = throttle.maxLoad
        criticalLoad = throttle.criticalLoad
        timeBudget = throttle.timeBudget.map { Double($0.wholeMilliseconds) }
        stopFile = throttle.stopFile
        replicas = throttle.replicas.map { location in
            var settings = store
            settings.location = location
            if case .off = StoreTLS.usual(for: location) { settings.tls = .off }
            return settings
        }
    }
}

extension Pacing {
    /// The pacing that settings ask for.
    init(_ settings: Settings) {
        self.init()
        throttle = Throttle(settings.throttle, StoreSettings(settings))
    }
}

extension Settings {
    /// Looks at the state folder where the token database is a file in it, as it is by default: for commands
    /// that have to do with the database alone. SQLite would follow any link that stands there.
    ///
    /// - Throws: exit 77 where somebody else can change what is in the folder.
    func ensureOwnStore() throws(RunFailure) {
        guard case .sqlite(let path) = store.location, path.hasPrefix(state + "/") else { return }
        do {
            try StateFolder.examine(state)
        } catch {
            throw .wrapping(error, at: .state)
        }
    }
}
