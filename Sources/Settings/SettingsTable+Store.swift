// The rows of the token database and of its tables.

import Database

extension SettingsTable {
    static var store: [SettingRule] { connection + tokens + marks + notifications + deliveries }

    @SettingRows private static var connection: [SettingRule] {
        setting(
            "store.url", .storeAddress,
            .computed("`tokens.sqlite` in the state folder") {
                $0.inState("tokens.sqlite").map { .store(.sqlite(path: $0)) }
            }, \.store.location, sample: .written("mysql://pushsweep@db.example.net:3306/push"),
            "The database with the token table, without a password; the user is pushsweep unless named."
        )
        setting(
            "store.password-file", .path, .absent("no password"), \.store.passwordFile,
            sample: .written("db-password"),
            "File whose only line is the database password; nobody but its owner may read it.")
        setting(
            "store.password", .secret, .absent("the password file's content"), \.store.password,
            sample: .omitted,
            "The database password, where a file is not wanted; wins over the password file.")
        setting(
            "store.tls.mode", .choice,
            .computed("`verify` over TCP, else `off`") { $0.usualTLSMode }, \.store.tlsMode,
            sample: .comment("verify"),
            "Whether the database must show a certificate for its name; off sends all in plain text."
        )
        setting(
            "store.tls.ca", .path, .systemAuthorities, \.store.ca,
            sample: .written("db-ca.pem"),
            "PEM file of the authorities that may sign the database's certificate.")
        setting(
            "store.connect-timeout", waiting, .text("10s"), \.store.connectTimeout,
            "How long to wait for a connection to the database.")
        setting(
            "store.read-timeout", waiting, .text("30s"), \.store.readTimeout,
            "How long to wait for an answer of the database.")
        setting(
            "store.write-timeout", waiting, .text("30s"), \.store.writeTimeout,
            "How long to wait until the database takes a request.")
    }

    /// The names that the database layer takes by itself are the defaults.
    private static let usualUsers = TableMapping()
    private static let usualQueue = QueueMapping()

    private static func usually(_ column: OptionalColumn) -> SettingRule.Fallback {
        .text(column.name ?? "none")
    }

    private static let detectedTime = SettingRule.Fallback.detected(
        "`datetime` where the column's type is no whole number")

    private static let users = SettingPlace<TableMapping> { settings, _, change in
        change(&settings.store.activeUsers)
    }

    @SettingRows private static var tokens: [SettingRule] {
        users(
            "store.active-users.table", .table, .text(usualUsers.table), \.table,
            "Table with one row per registered device.")
        users(
            "store.active-users.key", .columns,
            .detected("`id` if there is one, else the primary key"), \.key,
            sample: .comment("[id]"),
            "Columns that together are of one row only.")
        users(
            "store.active-users.token.column", .column, .text(usualUsers.token), \.token,
            "Column of the device token.")
        users(
            "store.active-users.token.encoding", .choice,
            .detected("`binary` in a column of bytes, `hex` in one of text"), \.encoding,
            sample: .comment("binary"),
            "How the token is stored: its bytes, or hex digits of any case.")
        users(
            "store.active-users.token.longest", .size(32...65_535),
            .text(String(usualUsers.longestToken)), \.longestToken,
            "Longest token in bytes that the column must be able to hold.")
        users(
            "store.active-users.app.column", .optionalColumn, usually(usualUsers.app), \.app,
            "Column that says whose app the token is of; with none, all apps share all rows.")
        users(
            "store.active-users.environment.column", .optionalColumn,
            usually(usualUsers.environment), \.environment,
            "Column that tells production tokens from sandbox ones; with none, all rows are of one."
        )
        users(
            "store.active-users.environment.values.production", .text, .text("production"),
            \.environmentValues["production"],
            "What that column holds for production.")
        users(
            "store.active-users.environment.values.sandbox", .text, .text("sandbox"),
            \.environmentValues["sandbox"],
            "What that column holds for the sandbox.")
    }

    @SettingRows private static var marks: [SettingRule] {
        users(
            "store.active-users.user.column", .optionalColumn,
            .detected("`user_id` or `udid`, whichever the table has"), \.user,
            sample: .comment("user_id"),
            "Column of the user that notifications are queued for.")
        users(
            "store.active-users.registered-at.column", .optionalColumn,
            usually(usualUsers.registeredAt.column), \.registeredAt.column,
            "Column of the last registration, without which nothing is known to be older than a signal."
        )
        users(
            "store.active-users.registered-at.type", .choice, detectedTime, \.registeredAt.type,
            sample: .comment("datetime"),
            "How that time is stored; of whole numbers the unit must be said.")
        users(
            "store.active-users.registered-at.zone", .zone, .text(ZoneOffset.utc.description),
            \.registeredAt.zone,
            "Zone of that time if it is a datetime.")
        users(
            "store.active-users.invalidated-at.column", .optionalColumn,
            usually(usualUsers.invalidatedAt.column), \.invalidatedAt.column,
            "Column of the mark; with none, marks go to the table pushsweep_invalid.")
        users(
            "store.active-users.invalidated-at.type", .choice, detectedTime, \.invalidatedAt.type,
            sample: .comment("datetime"),
            "How the mark's time is stored; of whole numbers the unit must be said.")
        users(
            "store.active-users.invalidated-at.zone", .zone, .text(ZoneOffset.utc.description),
            \.invalidatedAt.zone,
            "Zone of the mark's time if it is a datetime.")
        users(
            "store.active-users.reason.column", .optionalColumn, usually(usualUsers.reason),
            \.reason,
            "Column for the reason of a mark.")
    }

    private static let queue = SettingPlace<QueueMapping> { settings, _, change in
        change(&settings.store.pushQueue)
    }

    @SettingRows private static var notifications: [SettingRule] {
        queue(
            "store.push-queue.table", .table, .text(usualQueue.table), \.table,
            "Table of notifications to send.")
        queue(
            "store.push-queue.key", .column,
            .detected("`message_id` or `id` if there is one, else the primary key"), \.key,
            sample: .comment("message_id"),
            "Column of whole numbers that names a row; rows are sent in its order.")
        queue(
            "store.push-queue.token.column", .column, .text(usualQueue.token), \.token,
            "Column of the token to send to.")
        queue(
            "store.push-queue.token.encoding", .choice,
            .detected("`binary` in a column of bytes, `hex` in one of text"), \.encoding,
            sample: .comment("hex"),
            "How that token is stored.")
        queue(
            "store.push-queue.payload", .column, .text(usualQueue.payload), \.payload,
            "Column of the JSON to send.")
        queue(
            "store.push-queue.app", .optionalColumn, usually(usualQueue.app), \.app,
            "Column of the app, with the same values as in the token table; none: all are of one.")
        queue(
            "store.push-queue.environment", .optionalColumn, usually(usualQueue.environment),
            \.environment,
            "Column of the environment, with the same values as in the token table.")
        queue(
            "store.push-queue.push-type", .optionalColumn, usually(usualQueue.pushType), \.pushType,
            "Column of the push type; empty or none: alert.")
        queue(
            "store.push-queue.priority", .optionalColumn, usually(usualQueue.priority), \.priority,
            "Column of the priority, 10, 5 or 1; empty or none: the usual one of the push type.")
        queue(
            "store.push-queue.expiration", .optionalColumn, usually(usualQueue.expiration),
            \.expiration,
            "Column of the second since 1970 after which APNs drops it, 0 for at once.")
        queue(
            "store.push-queue.collapse-id", .optionalColumn, usually(usualQueue.collapseID),
            \.collapseID,
            "Column of what the notification replaces on the device.")
        queue(
            "store.push-queue.queued-at", .optionalColumn,
            .detected("`time_queued` or `queued_at`, whichever the table has"), \.queuedAt,
            sample: .comment("time_queued"),
            "Column of the time the notification was queued.")
    }

    @SettingRows private static var deliveries: [SettingRule] {
        queue(
            "store.push-queue.sent-at", .optionalColumn, usually(usualQueue.sentAt), \.sentAt,
            "Column of the time it was sent; stays empty for one that is not.")
        queue(
            "store.push-queue.state", .optionalColumn, usually(usualQueue.state), \.state,
            "Column of what became of it; this and the next four all, or pushsweep_delivery.")
        queue(
            "store.push-queue.attempts", .optionalColumn, usually(usualQueue.attempts), \.attempts,
            "Column of how often it was tried.")
        queue(
            "store.push-queue.reason", .optionalColumn, usually(usualQueue.reason), \.reason,
            "Column of why it was skipped, refused or put off.")
        queue(
            "store.push-queue.not-before", .optionalColumn, usually(usualQueue.notBefore),
            \.notBefore,
            "Column of the time before which it is not sent.")
        queue(
            "store.push-queue.answered-at", .optionalColumn, usually(usualQueue.answeredAt),
            \.answeredAt,
            "Column of the time it came to its end, empty until then.")
        queue(
            "store.push-queue.time-type", .choice, detectedTime, \.timeType,
            sample: .comment("datetime"),
            "How the queue's times are stored; of whole numbers the unit must be said.")
        queue(
            "store.push-queue.zone", .zone, .text(ZoneOffset.utc.description), \.zone,
            "Zone of the queue's times if they are datetimes.")
    }
}
