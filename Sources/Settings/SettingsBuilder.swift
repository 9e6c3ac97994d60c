import Database

/// Fills the types with resolved values. Runs only when nothing is wrong, so that every required
/// value is there and of its row's type; anything else is a mistake between the table and this
/// file, which the test that fills in every setting finds.
struct SettingsBuilder {
    private let resolved: SettingsResolver
    private let prefix: String

    /// Reads resolved values below a prefix such as `apps[#1].`.
    init(_ resolved: SettingsResolver, prefix: String = "") {
        self.resolved = resolved
        self.prefix = prefix
    }

    /// All settings of `apps` apps.
    func settings(file: String?, apps: Int, password: Settings.Secret?) -> Settings {
        Settings(
            file: file, state: text("state"), store: store(password),
            apps: (0..<apps).map {
                SettingsBuilder(resolved, prefix: "\(SettingsDocument.app($0)).").app()
            },
            policy: Settings.Policy(
                action: choice("policy.action"),
                deleteWithoutRegistrationTime: flag("policy.delete-without-registration-time"),
                clockSkew: duration("policy.clock-skew"),
                deleteAfter: optionalDuration("policy.delete-after"),
                keepLedger: duration("policy.keep-ledger")),
            throttle: throttle(),
            send: Settings.Send(
                resendUnknown: flag("send.resend-unknown"),
                requestTimeout: duration("send.request-timeout"), lease: duration("send.lease")),
            guardLimits: Settings.GuardLimits(
                floor: number("guard.floor"), partitionPercent: percent("guard.partition-percent"),
                dayPercent: percent("guard.day-percent")),
            report: Settings.Report(
                metricsFile: optional("report.metrics-file"),
                healthcheckURL: optional("report.healthcheck-url")),
            origins: resolved.origins)
    }

    private func store(_ password: Settings.Secret?) -> Settings.Store {
        guard case .store(let location)? = resolved.values["store.url"] else {
            mismatch("store.url")
        }
        return Settings.Store(
            location: location, password: password, tlsMode: choice("store.tls.mode"),
            ca: optional("store.tls.ca"), connectTimeout: duration("store.connect-timeout"),
            readTimeout: duration("store.read-timeout"),
            writeTimeout: duration("store.write-timeout"),
            activeUsers: SettingsBuilder(resolved, prefix: "store.active-users.").activeUsers(),
            pushQueue: SettingsBuilder(resolved, prefix: "store.push-queue.").pushQueue())
    }

    private func activeUsers() -> TableMapping {
        var users = TableMapping()
        users.table = text("table")
        users.key = columns("key")
        users.token = text("token.column")
        users.encoding = detectable("token.encoding")
        users.longestToken = number("token.longest")
        users.app = column("app.column")
        users.environment = column("environment.column")
        users.environmentValues = Dictionary(
            uniqueKeysWithValues: Settings.Environment.words.map {
                ($0, text("environment.values.\($0)"))
            })
        users.user = detectableColumn("user.column")
        users.registeredAt = time("registered-at")
        users.invalidatedAt = time("invalidated-at")
        users.reason = column("reason.column")
        return users
    }

    private func pushQueue() -> QueueMapping {
        var queue = QueueMapping()
        queue.table = text("table")
        queue.key = optional("key")
        queue.token = text("token.column")
        queue.encoding = detectable("token.encoding")
        queue.payload = text("payload")
        queue.app = column("app")
        queue.environment = column("environment")
        queue.pushType = column("push-type")
        queue.priority = column("priority")
        queue.expiration = column("expiration")
        queue.collapseID = column("collapse-id")
        queue.queuedAt = detectableColumn("queued-at")
        queue.sentAt = column("sent-at")
        queue.state = column("state")
        queue.attempts = column("attempts")
        queue.reason = column("reason")
        queue.notBefore = column("not-before")
        queue.answeredAt = column("answered-at")
        queue.timeType = detectable("time-type")
        queue.zone = zone("zone")
        return queue
    }

    private func throttle() -> Settings.Throttle {
        Settings.Throttle(
            maxLag: optionalDuration("throttle.max-lag"), maxLoad: load("throttle.max-load"),
            criticalLoad: load("throttle.critical-load"),
            timeBudget: optionalDuration("throttle.time-budget"),
            stopFile: text("throttle.stop-file"), replicas: servers("throttle.replicas"))
    }

    private func app() -> Settings.App {
        Settings.App(
            name: text("name"), topic: text("topic"), environment: choice("environment"),
            value: text("value"),
            certificate: group("certificate") {
                Settings.Certificate(
                    file: $0.text("file"), key: $0.optional("key"),
                    passphraseFile: $0.optional("passphrase-file"))
            },
            tokenKey: group("token-key") {
                Settings.TokenKey(
                    file: $0.text("file"), keyIdentifier: $0.text("key-id"),
                    teamIdentifier: $0.text("team-id"))
            },
            feedback: group("feedback") {
                Settings.Feedback(
                    host: $0.text("host"), port: $0.number("port"), ca: $0.optional("ca"),
                    hostName: $0.text("host-name"),
                    connectTimeout: $0.duration("connect-timeout"),
                    handshakeTimeout: $0.duration("handshake-timeout"),
                    idleTimeout: $0.duration("idle-timeout"), maxBytes: $0.number("max-bytes"))
            },
            provider: group("provider") {
                Settings.Provider(
                    host: $0.text("host"), port: $0.number("port"), ca: $0.optional("ca"),
                    connections: $0.number("connections"))
            },
            binary: group("binary") {
                Settings.Binary(
                    host: $0.text("host"), port: $0.number("port"), ca: $0.optional("ca"))
            })
    }

    private func group<Value>(_ name: String, _ make: (SettingsBuilder) -> Value) -> Value? {
        guard resolved.isGroupPresent(prefix + name) else { return nil }
        return make(SettingsBuilder(resolved, prefix: "\(prefix)\(name)."))
    }

    private func time(_ name: String) -> TimeMapping {
        TimeMapping(
            column: column("\(name).column"), type: detectable("\(name).type"),
            zone: zone("\(name).zone"))
    }

    private func zone(_ name: String) -> ZoneOffset {
        guard case .zone(let zone)? = resolved.values[prefix + name] else { mismatch(name) }
        return zone
    }

    private func optional(_ name: String) -> String? {
        guard let value = resolved.values[prefix + name] else { return nil }
        guard case .text(let text) = value else { mismatch(name) }
        return text
    }

    private func text(_ name: String) -> String {
        guard case .text(let text)? = resolved.values[prefix + name] else { mismatch(name) }
        return text
    }

    private func number(_ name: String) -> Int {
        guard case .number(let number)? = resolved.values[prefix + name] else { mismatch(name) }
        return number
    }

    private func percent(_ name: String) -> Double {
        guard case .percent(let percent)? = resolved.values[prefix + name] else { mismatch(name) }
        return percent
    }

    private func flag(_ name: String) -> Bool {
        guard case .flag(let flag)? = resolved.values[prefix + name] else { mismatch(name) }
        return flag
    }

    private func duration(_ name: String) -> Duration {
        guard case .milliseconds(let milliseconds)? = resolved.values[prefix + name] else {
            mismatch(name)
        }
        return .milliseconds(milliseconds)
    }

    private func optionalDuration(_ name: String) -> Duration? {
        resolved.values[prefix + name] == nil ? nil : duration(name)
    }

    private func load(_ name: String) -> LoadLimits? {
        guard let value = resolved.values[prefix + name] else { return nil }
        guard case .load(let limits) = value else { mismatch(name) }
        return limits
    }

    private func servers(_ name: String) -> [StoreLocation] {
        guard let value = resolved.values[prefix + name] else { return [] }
        guard case .servers(let servers) = value else { mismatch(name) }
        return servers
    }

    private func column(_ name: String) -> OptionalColumn {
        guard case .column(let column)? = resolved.values[prefix + name] else { mismatch(name) }
        return column
    }

    /// A column that the table tells where it is not written.
    private func detectableColumn(_ name: String) -> OptionalColumn? {
        resolved.values[prefix + name] == nil ? nil : column(name)
    }

    private func columns(_ name: String) -> [String]? {
        guard let value = resolved.values[prefix + name] else { return nil }
        guard case .columns(let columns) = value else { mismatch(name) }
        return columns
    }

    /// A choice that the table tells where it is not written.
    private func detectable<Choice: RawRepresentable>(_ name: String) -> Choice?
    where Choice.RawValue == String {
        resolved.values[prefix + name] == nil ? nil : choice(name)
    }

    private func choice<Choice: RawRepresentable>(_ name: String) -> Choice
    where Choice.RawValue == String {
        guard let choice = Choice(rawValue: text(name)) else { mismatch(name) }
        return choice
    }

    private func mismatch(_ name: String) -> Never {
        preconditionFailure("the table of settings and its types disagree on \(prefix)\(name)")
    }
}
