import Database

// The one table of settings. A row here is all it takes for a setting to be read from the file and
// the environment, checked, printed with its origin, and to appear in the sample file and in
// docs/settings.md; the types in Settings.swift take their values from it by key. Order is the
// order of all output, and a default that follows from another setting stands below it.

/// Every setting there is, and the groups that may be left out as a whole.
package enum SettingsTable {
    /// All rows in the order of all output.
    package static let rules: [SettingRule] =
        general + store + activeUsers + pushQueue + app + gateways + rest

    /// Groups of an app that count as missing, defaults included, until one of their keys is given.
    static let optionalGroups: Set<String> = [
        "certificate", "token-key", "feedback", "provider", "binary",
    ]

    /// Groups and settings that nothing uses yet. Whoever puts one to use removes it here.
    static let groupsNotInForce = [
        "apps[].binary", "report.healthcheck-url",
    ]

    /// The row of a key; nil where the table has no such key. Keys of apps have `[]` here, not the
    /// name of an app.
    package static func rule(_ key: String) -> SettingRule? { byKey[key] }

    private static let byKey = Dictionary(
        rules.map { ($0.key, $0) }, uniquingKeysWith: { first, _ in first })

    private static let waiting = SettingKind.duration(100...3_600_000)

    private static let general: [SettingRule] = [
        SettingRule(
            "state", .path,
            .computed("`/var/lib/pushsweep`; without root the user's state folder"),
            sample: .written("/var/lib/pushsweep"),
            "Folder of the journal, of held removals and of the lock; made with mode 0700.")
    ]

    private static let store: [SettingRule] = [
        SettingRule(
            "store.url", .storeAddress, .computed("`tokens.sqlite` in the state folder"),
            sample: .written("mysql://pushsweep@db.example.net:3306/push"),
            "The database with the token table, without a password; the user is pushsweep unless named."
        ),
        SettingRule(
            "store.password-file", .path, .absent("no password"), sample: .written("db-password"),
            "File whose only line is the database password; nobody but its owner may read it."),
        SettingRule(
            "store.password", .secret, .absent("the password file's content"), sample: .omitted,
            "The database password, where a file is not wanted; wins over the password file."),
        SettingRule(
            "store.tls.mode", .choice(Settings.Store.TLSMode.words),
            .computed("`verify` over TCP, else `off`"), sample: .comment("verify"),
            "Whether the database must show a certificate for its name; off sends all in plain text."
        ),
        SettingRule(
            "store.tls.ca", .path, .absent("the system's authorities"),
            sample: .written("db-ca.pem"),
            "PEM file of the authorities that may sign the database's certificate."),
        SettingRule(
            "store.connect-timeout", waiting, .text("10s"),
            "How long to wait for a connection to the database."),
        SettingRule(
            "store.read-timeout", waiting, .text("30s"),
            "How long to wait for an answer of the database."),
        SettingRule(
            "store.write-timeout", waiting, .text("30s"),
            "How long to wait until the database takes a request."),
    ]

    /// The names that the token store itself takes.
    private static let usual = TableMapping()

    private static func usually(_ column: OptionalColumn) -> SettingRule.Fallback {
        .text(column.name ?? "none")
    }

    private static let detectedTime = SettingRule.Fallback.detected(
        "`datetime` where the column's type is no whole number")

    private static let activeUsers: [SettingRule] = [
        SettingRule(
            "store.active-users.table", .table, .text(usual.table),
            "Table with one row per registered device."),
        SettingRule(
            "store.active-users.key", .columns,
            .detected("`id` if there is one, else the primary key"), sample: .comment("[id]"),
            "Columns that together are of one row only."),
        SettingRule(
            "store.active-users.token.column", .column, .text(usual.token),
            "Column of the device token."),
        SettingRule(
            "store.active-users.token.encoding", .choice(TokenEncoding.words),
            .detected("`binary` in a column of bytes, `hex` in one of text"),
            sample: .comment("binary"),
            "How the token is stored: its bytes, or hex digits of any case."),
        SettingRule(
            "store.active-users.token.longest", .size(32...65_535),
            .text(String(usual.longestToken)),
            "Longest token in bytes that the column must be able to hold."),
        SettingRule(
            "store.active-users.app.column", .optionalColumn, usually(usual.app),
            "Column that says whose app the token is of; with none, all apps share all rows."),
        SettingRule(
            "store.active-users.environment.column", .optionalColumn, usually(usual.environment),
            "Column that tells production tokens from sandbox ones; with none, all rows are of one."
        ),
        SettingRule(
            "store.active-users.environment.values.production", .text, .text("production"),
            "What that column holds for production."),
        SettingRule(
            "store.active-users.environment.values.sandbox", .text, .text("sandbox"),
            "What that column holds for the sandbox."),
        SettingRule(
            "store.active-users.user.column", .optionalColumn,
            .detected("`user_id` or `udid`, whichever the table has"),
            sample: .comment("user_id"), "Column of the user that notifications are queued for."),
        SettingRule(
            "store.active-users.registered-at.column", .optionalColumn,
            usually(usual.registeredAt.column),
            "Column of the last registration, without which nothing is known to be older than a signal."
        ),
        SettingRule(
            "store.active-users.registered-at.type", .choice(TimeColumnType.words),
            detectedTime, sample: .comment("datetime"),
            "How that time is stored; of whole numbers the unit must be said."),
        SettingRule(
            "store.active-users.registered-at.zone", .zone, .text(ZoneOffset.utc.description),
            "Zone of that time if it is a datetime."),
        SettingRule(
            "store.active-users.invalidated-at.column", .optionalColumn,
            usually(usual.invalidatedAt.column),
            "Column of the mark; with none, marks go to the table pushsweep_invalid."),
        SettingRule(
            "store.active-users.invalidated-at.type", .choice(TimeColumnType.words),
            detectedTime, sample: .comment("datetime"),
            "How the mark's time is stored; of whole numbers the unit must be said."),
        SettingRule(
            "store.active-users.invalidated-at.zone", .zone, .text(ZoneOffset.utc.description),
            "Zone of the mark's time if it is a datetime."),
        SettingRule(
            "store.active-users.reason.column", .optionalColumn, usually(usual.reason),
            "Column for the reason of a mark."),
    ]

    private static let queue = QueueMapping()

    private static let pushQueue: [SettingRule] = [
        SettingRule(
            "store.push-queue.table", .table, .text(queue.table),
            "Table of notifications to send."),
        SettingRule(
            "store.push-queue.key", .column,
            .detected("`message_id` or `id` if there is one, else the primary key"),
            sample: .comment("message_id"),
            "Column of whole numbers that names a row; rows are sent in its order."),
        SettingRule(
            "store.push-queue.token.column", .column, .text(queue.token),
            "Column of the token to send to."),
        SettingRule(
            "store.push-queue.token.encoding", .choice(TokenEncoding.words),
            .detected("`binary` in a column of bytes, `hex` in one of text"),
            sample: .comment("hex"), "How that token is stored."),
        SettingRule(
            "store.push-queue.payload", .column, .text(queue.payload),
            "Column of the JSON to send."),
        SettingRule(
            "store.push-queue.app", .optionalColumn, usually(queue.app),
            "Column of the app, with the same values as in the token table; none: all are of one."),
        SettingRule(
            "store.push-queue.environment", .optionalColumn, usually(queue.environment),
            "Column of the environment, with the same values as in the token table."),
        SettingRule(
            "store.push-queue.push-type", .optionalColumn, usually(queue.pushType),
            "Column of the push type; empty or none: alert."),
        SettingRule(
            "store.push-queue.priority", .optionalColumn, usually(queue.priority),
            "Column of the priority, 10, 5 or 1; empty or none: the usual one of the push type."),
        SettingRule(
            "store.push-queue.expiration", .optionalColumn, usually(queue.expiration),
            "Column of the second since 1970 after which APNs drops it, 0 for at once."),
        SettingRule(
            "store.push-queue.collapse-id", .optionalColumn, usually(queue.collapseID),
            "Column of what the notification replaces on the device."),
        SettingRule(
            "store.push-queue.queued-at", .optionalColumn,
            .detected("`time_queued` or `queued_at`, whichever the table has"),
            sample: .comment("time_queued"),
            "Column of the time the notification was queued."),
        SettingRule(
            "store.push-queue.sent-at", .optionalColumn, usually(queue.sentAt),
            "Column of the time it was sent; stays empty for one that is not."),
        SettingRule(
            "store.push-queue.state", .optionalColumn, usually(queue.state),
            "Column of what became of it; this and the next four all, or pushsweep_delivery."),
        SettingRule(
            "store.push-queue.attempts", .optionalColumn, usually(queue.attempts),
            "Column of how often it was tried."),
        SettingRule(
            "store.push-queue.reason", .optionalColumn, usually(queue.reason),
            "Column of why it was skipped, refused or put off."),
        SettingRule(
            "store.push-queue.not-before", .optionalColumn, usually(queue.notBefore),
            "Column of the time before which it is not sent."),
        SettingRule(
            "store.push-queue.answered-at", .optionalColumn, usually(queue.answeredAt),
            "Column of the time it came to its end, empty until then."),
        SettingRule(
            "store.push-queue.time-type", .choice(TimeColumnType.words),
            detectedTime, sample: .comment("datetime"),
            "How the queue's times are stored; of whole numbers the unit must be said."),
        SettingRule(
            "store.push-queue.zone", .zone, .text(ZoneOffset.utc.description),
            "Zone of the queue's times if they are datetimes."),
    ]

    private static let app: [SettingRule] = [
        SettingRule(
            "apps[].name", .shortName, .required, sample: .written("chat"),
            "Name of the app in commands, reports and environment variables."),
        SettingRule(
            "apps[].topic", .name, .required, sample: .written("com.example.chat"),
            "Topic of its notifications: the bundle identifier."),
        SettingRule(
            "apps[].environment", .choice(Settings.Environment.words), .required,
            sample: .written("production"), "Which side of APNs its tokens belong to."),
        SettingRule(
            "apps[].value", .shortText, .computed("the app's name"), sample: .comment("chat"),
            "What the app column of the token table holds for it."),
        SettingRule(
            "apps[].certificate.file", .path, .required, sample: .written("chat.pem"),
            "Client certificate, PEM or PKCS#12."),
        SettingRule(
            "apps[].certificate.key", .path, .absent("in the certificate's file"),
            sample: .written("chat.key"),
            "Its private key in PEM; nobody but its owner may read it."),
        SettingRule(
            "apps[].certificate.passphrase-file", .path, .absent("no passphrase"),
            sample: .comment("chat-passphrase"),
            "File whose only line opens the key; nobody but its owner may read it."),
        SettingRule(
            "apps[].token-key.file", .path, .required, sample: .comment("AuthKey_ABC123DEFG.p8"),
            "Signing key for provider tokens, as Apple hands it out."),
        SettingRule(
            "apps[].token-key.key-id", .appleIdentifier, .required, sample: .comment("ABC123DEFG"),
            "Identifier of that key."),
        SettingRule(
            "apps[].token-key.team-id", .appleIdentifier, .required,
            sample: .comment("DEF123GHIJ"), "Team the key belongs to."),
    ]

    private static let gateways: [SettingRule] = [
        SettingRule(
            "apps[].feedback.host", .host, .required, sample: .written("feedback.example.net"),
            "Gateway whose feedback is read; without this group the app has no feed."),
        SettingRule("apps[].feedback.port", .integer(1...65_535), .text("2196"), "Its port."),
        SettingRule(
            "apps[].feedback.ca", .path, .absent("the system's authorities"),
            sample: .written("gateway-ca.pem"),
            "PEM file of the authorities that may sign its certificate."),
        SettingRule(
            "apps[].feedback.host-name", .host, .computed("the host"),
            sample: .comment("feedback.example.net"), "Name its certificate must carry."),
        SettingRule(
            "apps[].feedback.connect-timeout", waiting, .text("10s"),
            "How long to wait for a connection."),
        SettingRule(
            "apps[].feedback.handshake-timeout", waiting, .text("10s"),
            "How long to wait for the TLS handshake."),
        SettingRule(
            "apps[].feedback.idle-timeout", waiting, .text("30s"),
            "How long the feed may be silent before the list counts as ended."),
        SettingRule(
            "apps[].feedback.max-bytes", .size(65_536...(1 << 40)), .text("1GiB"),
            "Bytes after which a feed is cut and held for a person to look at."),
        SettingRule(
            "apps[].provider.host", .host, .required, sample: .comment("api.push.apple.com"),
            "HTTP/2 gateway to send through; needs a certificate or a token key."),
        SettingRule("apps[].provider.port", .integer(1...65_535), .text("443"), "Its port."),
        SettingRule(
            "apps[].provider.ca", .path, .absent("the system's authorities"),
            sample: .comment("gateway-ca.pem"),
            "PEM file of the authorities of a private gateway."),
        SettingRule(
            "apps[].provider.connections", .integer(1...64), .text("2"),
            "Connections to keep open."),
        SettingRule(
            "apps[].binary.host", .host, .required, sample: .comment("gateway.example.net"),
            "Gateway that still speaks the binary interface."),
        SettingRule("apps[].binary.port", .integer(1...65_535), .text("2195"), "Its port."),
        SettingRule(
            "apps[].binary.ca", .path, .absent("the system's authorities"),
            sample: .comment("gateway-ca.pem"),
            "PEM file of the authorities that may sign its certificate."),
    ]

    private static let rest: [SettingRule] = [
        SettingRule(
            "policy.action", .choice(Settings.Policy.Action.words), .text("mark"),
            "What happens to a stale row: mark sets a mark that can be taken back, delete removes it."
        ),
        SettingRule(
            "policy.delete-without-registration-time", .boolean, .text("false"),
            "Whether delete also removes rows whose registration time is unknown."),
        SettingRule(
            "policy.clock-skew", .duration(0...3_600_000), .text("2s"),
            "How far the clocks that wrote registrations and signals may be apart."),
        SettingRule(
            "policy.delete-after", .duration(86_400_000...31_536_000_000),
            .absent("rows are removed at once"), sample: .comment("7d"),
            "With action delete: signals mark rows, and a row is removed when it has stayed marked for so long."
        ),
        SettingRule(
            "policy.keep-ledger", .duration(86_400_000...315_360_000_000), .text("30d"),
            "How long changes can be undone: pushsweep purge drops what is older."),
        SettingRule(
            "throttle.max-lag", .duration(0...86_400_000), .absent("no look at replicas"),
            sample: .comment("10s"),
            "How far a replica may lag before runs pause between chunks."),
        SettingRule(
            "throttle.replicas", .servers, .absent("the database's own replication"),
            sample: .comment("[mysql://monitor@replica.example.net:3306/push]"),
            "Replicas whose lag counts, reached with the password and authorities of the store."),
        SettingRule(
            "throttle.max-load", .load, .absent("no look at the load"),
            sample: .comment("Threads_running=25"),
            "Load of the database beyond which runs pause between chunks."),
        SettingRule(
            "throttle.critical-load", .load, .absent("no look at the load"),
            sample: .comment("Threads_running=100"),
            "Load of the database beyond which they end with 75; the next run goes on."),
        SettingRule(
            "throttle.time-budget", .duration(1_000...604_800_000), .absent("no limit"),
            sample: .comment("45m"),
            "Time after which they end with 75, before the next chunk or the next feed."),
        SettingRule(
            "throttle.stop-file", .path, .computed("`stop` in the state folder"),
            sample: .comment("/var/lib/pushsweep/stop"),
            "File whose presence ends them with 75; it stays until somebody removes it."),
        SettingRule(
            "send.resend-unknown", .boolean, .text("false"),
            "Whether a notification without an answer is sent again, under its old apns-id; it may then arrive twice."
        ),
        SettingRule(
            "send.request-timeout", .duration(1_000...600_000), .text("30s"),
            "How long to wait for the answer to one notification."),
        SettingRule(
            "send.lease", .duration(10_000...3_600_000), .text("2m"),
            "How long rows of a sender that fell silent stay with it before others take them over."),
        SettingRule(
            "guard.floor", .integer(0...1_000_000_000), .text("100"),
            "Rows that may become invalid within an hour, and within a day, whatever their share. A feed of "
                + "fewer tuples is not held for naming hardly a token of the table."),
        SettingRule(
            "guard.partition-percent", .percent, .text("5"),
            "Share of an app's living rows that may become invalid within an hour; more is held for a person."
        ),
        SettingRule(
            "guard.day-percent", .percent, .text("10"),
            "The same within 24 hours."),
        SettingRule(
            "report.metrics-file", .path, .absent("no metrics"), sample: .comment("pushsweep.prom"),
            "Metrics of the last runs for the node exporter's text file collector; replaced whole by each run."
        ),
        SettingRule(
            "report.healthcheck-url", .webAddress, .absent("no ping"),
            sample: .comment("https://ping.example.net/pushsweep"),
            "Address to ping at the start and the end of each run; its path counts as secret."),
    ]
}
