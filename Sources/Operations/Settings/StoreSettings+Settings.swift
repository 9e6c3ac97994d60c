import TokenStore

extension StoreSettings {
    /// What the settings say about the token database.
    ///
    /// - Throws: `configuration` for an address that is none.
    package init(_ settings: Settings) throws(StoreFailure) {
        let store = settings.store
        self.init(
            location: try StoreLocation("\(store.location)"),
            password: store.password?.reveal(),
            tls: store.tlsMode == .off ? .off : .verify(ca: store.ca),
            timeouts: StoreTimeouts(
                connect: store.connectTimeout.wholeSeconds, read: store.readTimeout.wholeSeconds,
                write: store.writeTimeout.wholeSeconds),
            mapping: TableMapping(settings))
    }
}

extension TableMapping {
    /// The names of the user's table; what the settings leave out is found in the table itself.
    fileprivate init(_ settings: Settings) {
        self.init()
        let users = settings.store.activeUsers
        let place = "store.active-users."
        table = users.table
        key = settings.isDefault(place + "key") ? nil : users.key
        token = users.token.column
        encoding =
            settings.isDefault(place + "token.encoding")
            ? nil : TokenEncoding(rawValue: users.token.encoding.rawValue)
        longestToken = users.longestToken
        app = OptionalColumn(users.app)
        environment = OptionalColumn(users.environment)
        environmentValues = [
            Settings.Environment.production.rawValue: users.productionValue,
            Settings.Environment.sandbox.rawValue: users.sandboxValue,
        ]
        registeredAt = settings.time(users.registeredAt, place + "registered-at")
        invalidatedAt = settings.time(users.invalidatedAt, place + "invalidated-at")
        reason = OptionalColumn(users.reason)
    }
}

extension Settings {
    fileprivate func isDefault(_ key: String) -> Bool {
        origins.first { $0.key == key }?.origin == .builtIn
    }

    fileprivate func time(_ column: TimeColumn, _ key: String) -> TimeMapping {
        TimeMapping(
            column: OptionalColumn(column.column),
            type: isDefault(key + ".type") ? nil : TimeColumnType(rawValue: column.type.rawValue),
            zone: column.zone.description)
    }
}

extension OptionalColumn {
    fileprivate init(_ choice: Settings.ColumnChoice) {
        switch choice {
        case .detect: self = .detect
        case .absent: self = .absent
        case .named(let name): self = .named(name)
        }
    }
}

extension Duration {
    /// Whole seconds, rounded up, as libmariadb takes its timeouts.
    fileprivate var wholeSeconds: Int { Int((wholeMilliseconds + 999) / 1000) }
}
