import Database

extension StoreSettings {
    /// What the settings say about the token database.
    package init(_ settings: Settings) {
        let store = settings.store
        self.init(
            location: store.location, password: store.password?.reveal(),
            tls: store.tlsMode == .off ? .off : .verify(ca: store.ca),
            timeouts: StoreTimeouts(
                connect: store.connectTimeout.wholeSeconds, read: store.readTimeout.wholeSeconds,
                write: store.writeTimeout.wholeSeconds),
            mapping: store.activeUsers, queue: store.pushQueue)
    }
}

extension Duration {
    /// Whole seconds, rounded up, as libmariadb takes its timeouts.
    fileprivate var wholeSeconds: Int { Int((wholeMilliseconds + 999) / 1000) }
}
