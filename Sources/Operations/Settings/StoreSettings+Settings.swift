import Database

extension StoreSettings {
    /// What the settings say about the token database.
    package init(_ settings: Settings) {
        let store = settings.store
        var queue = store.pushQueue
        queue.isWanted = settings.wantsQueue
        self.init(
            location: store.location, password: store.password?.reveal(),
            tls: store.tlsMode == .off ? .off : .verify(ca: store.ca),
            timeouts: StoreTimeouts(
                connect: store.connectTimeout.wholeSeconds, read: store.readTimeout.wholeSeconds,
                write: store.writeTimeout.wholeSeconds),
            mapping: store.activeUsers, queue: queue)
    }
}

extension Settings {
    /// Whether somebody sends: an app has a provider, or the queue's table is named.
    fileprivate var wantsQueue: Bool {
        apps.contains { $0.provider != nil }
            || origins.contains {
                $0.key == "store.push-queue.table" && $0.origin != .builtIn
            }
    }
}

extension Duration {
    /// Whole seconds, rounded up, as libmariadb takes its timeouts.
    fileprivate var wholeSeconds: Int { Int((wholeMilliseconds + 999) / 1000) }
}
