// The rows of the token database and of its tables.

import Database

extension SettingsTable {
    static var store: [SettingRule] { connection + tokens + marks + notifications + deliveries }

    @SettingRows private static var connection: [SettingRule] {
        setting(
            "store.url", .storeAddress,
            .computed("`tokens.sqlite` in the state folder") {
                $0.inState("tokens.sqlite").map { "\(StoreLocation.sqlite(path: $0))" }
            }, \.store.location, written: "mysql://pushsweep@db.example.net:3306/push",
            "Address of the database with the token table, without a password; the default user is pushsweep. Several hosts, with commas between them, are tried in order."
        )
        setting(
            "store.password-file", .path, .absent("no password"), \.passwordFile,
            written: "db-password",
            "File whose only line is the database password; only its owner may read it.")
        setting(
            "store.password", .secret, .absent("the password file's content"), \.store.password,
            "The database password, in place of a file; overrides the password file.")
        setting(
            "store.tls.mode", .choice,
            .computed("`verify` over TCP, else `off`") { $0.usualTLSMode }, \.store.tls.mode,
            example: "verify",
            "With verify the database must prove its name with a certificate; off sends everything in plain text."
        )
        setting(
            "store.tls.ca", .path, .systemAuthorities, \.store.tls.ca, written: "db-ca.pem",
            "PEM file of the authorities that may sign the database's certificate.")
        setting(
            "store.connect-timeout", .wholeSeconds(waiting), "10s", \.store.timeouts.connect,
            "Longest wait for a connection to the database.")
        setting(
            "store.read-timeout", .wholeSeconds(waiting), "30s", \.store.timeouts.read,
            "Longest wait for an answer of the database.")
        setting(
            "store.write-timeout", .wholeSeconds(waiting), "30s", \.store.timeouts.write,
            "Longest wait until the database accepts a request.")
        setting(
            "store.patience", .milliseconds(1_000...600_000), "60s", \.store.patience,
            "How long a failed step is tried again once the database was in use, so longer than a failover takes."
        )
        setting(
            "store.accept-replica", .boolean, "false", \.store.acceptsReplica,
            "Whether changes may go to a replica that is the only host, and over a connection whose reads a proxy sends elsewhere."
        )
    }

    private static let detectedTime = SettingRule.Fallback.detected(
        "`datetime` unless the column's type is a whole number")

    private static let users = SettingPlace<TableMapping>(
        "store.active-users.", usual: TableMapping()
    ) { settings, _, change in change(&settings.store.mapping) }

    @SettingRows private static var tokens: [SettingRule] {
        users("table", .table, \.table, "Table with one row per registered device.")
        users(
            "key", .columns, .detected("`id` if it is there and unique, else the primary key"),
            \.key, example: "[id]", "Columns that together identify one row.")
        users("token.column", .column, \.token, "Column of the device token.")
        users(
            "token.encoding", .choice,
            .detected("`binary` in a column of bytes, `hex` in one of text"), \.encoding,
            example: "binary",
            "Form in which the token is stored: bytes, or hex digits of any case.")
        users(
            "token.longest", .size(32...65_535), \.longestToken,
            "Longest token in bytes that the column must be able to hold.")
        users(
            "app.column", .optionalColumn, \.app,
            "Column that names the token's app; with none, all apps share all rows.")
        users(
            "environment.column", .optionalColumn, \.environment,
            "Column that distinguishes production tokens from sandbox ones; with none, all rows are of one."
        )
        users(
            "environment.values.production", .text, "production", \.environmentValues["production"],
            "Value of that column for production.")
        users(
            "environment.values.sandbox", .text, "sandbox", \.environmentValues["sandbox"],
            "Value of that column for the sandbox.")
        users(
            "platform.column", .column, .absent("all rows are of Apple's devices"),
            \.platform.column, example: "platform",
            "Column of the platform in a table that has rows of others too; those are left out of everything."
        )
        users(
            "platform.value", .text, .absent("none"), \.platform.value, example: "ios",
            "Value of that column for Apple's devices.")
    }

    @SettingRows private static var marks: [SettingRule] {
        users(
            "user.column", .optionalColumn,
            .detected("`user_id` or `udid`, whichever the table has"), \.user, example: "user_id",
            "Column of the user that notifications are queued for.")
        users(
            "registered-at.column", .optionalColumn, \.registeredAt.column,
            "Column of the last registration; without it no row is known to be older than the evidence."
        )
        users(
            "registered-at.type", .choice, detectedTime, \.registeredAt.type, example: "datetime",
            "Form in which that time is stored; for whole numbers this setting must give the unit.")
        users(
            "registered-at.zone", .zone, \.registeredAt.zone,
            "Zone of that time if it is a datetime.")
        users(
            "invalidated-at.column", .optionalColumn, \.invalidatedAt.column,
            "Column of the mark; with none, as beside a trigger that can write the row, marks go to pushsweep_invalid."
        )
        users(
            "invalidated-at.type", .choice, detectedTime, \.invalidatedAt.type, example: "datetime",
            "Form in which the mark's time is stored; for whole numbers this setting must give the unit."
        )
        users(
            "invalidated-at.zone", .zone, \.invalidatedAt.zone,
            "Zone of the mark's time if it is a datetime.")
        users(
            "living.column", .column, .absent("the mark is a time"), \.living.column,
            example: "active",
            "Column of two values that is the mark in place of invalidated-at; its time goes to pushsweep_invalid."
        )
        users(
            "living.living", .text, .absent("none"), \.living.living, example: "1",
            "Value of that column for a token that is used; NULL and every value but that of dead count so."
        )
        users(
            "living.dead", .text, .absent("none"), \.living.dead, example: "0",
            "Value of that column for a token that is not used any more; a mark sets it.")
        users(
            "living.others", .words, .absent("none"), \.living.others, example: "[pending]",
            "Further values of that column, which count as living; a run refuses one that no setting names."
        )
        users(
            "living.mostly-dead", .boolean, \.living.mostlyDead,
            "Confirms that most rows have the value of dead; without it a run takes the two for exchanged."
        )
        users("reason.column", .optionalColumn, \.reason, "Column for the reason of a mark.")
        users(
            "ignore-columns", .columns, .absent("none"), \.ignoredColumns, example: "[status]",
            "Columns that `check` asks about and that mean nothing for tokens.")
    }

    private static let queue = SettingPlace<QueueMapping>(
        "store.push-queue.", usual: QueueMapping()
    ) { settings, _, change in change(&settings.store.queue) }

    @SettingRows private static var notifications: [SettingRule] {
        queue("table", .table, \.table, "Table of notifications to send.")
        queue(
            "key", .column, .detected("`message_id` or `id` if there is one, else the primary key"),
            \.key, example: "message_id",
            "Column of whole numbers that identifies a row; rows are sent in its order.")
        queue("token.column", .column, \.token, "Column of the token to send to.")
        queue(
            "token.encoding", .choice,
            .detected("`binary` in a column of bytes, `hex` in one of text"), \.encoding,
            example: "hex", "Form in which that token is stored.")
        queue("payload", .column, \.payload, "Column of the JSON to send.")
        queue(
            "app", .optionalColumn, \.app,
            "Column of the app, with the values of the token table; with none, all rows are of one app."
        )
        queue(
            "environment", .optionalColumn, \.environment,
            "Column of the environment, with the values of the token table.")
        queue(
            "push-type", .optionalColumn, \.pushType,
            "Column of the push type; if empty or absent: alert.")
        queue(
            "priority", .optionalColumn, \.priority,
            "Column of the priority, 10, 5 or 1; if empty or absent: the usual one of the push type."
        )
        queue(
            "expiration", .optionalColumn, \.expiration,
            "Column of the expiration in seconds since 1970; with 0 APNs tries to deliver once.")
        queue(
            "collapse-id", .optionalColumn, \.collapseID,
            "Column of the collapse id: a notification replaces an earlier one with the same id.")
        queue(
            "queued-at", .optionalColumn,
            .detected("`time_queued` or `queued_at`, whichever the table has"), \.queuedAt,
            example: "time_queued", "Column of the time at which the notification was queued.")
    }

    @SettingRows private static var deliveries: [SettingRule] {
        queue(
            "sent-at", .optionalColumn, \.sentAt,
            "Column of the time at which it was sent; empty if it was not sent.")
        queue(
            "state", .optionalColumn, \.state,
            "Column of the row's state; use this and the next four together, else pushsweep_delivery has them."
        )
        queue("attempts", .optionalColumn, \.attempts, "Column of the number of attempts.")
        queue(
            "reason", .optionalColumn, \.reason,
            "Column of the reason for a skip, a refusal or a delay.")
        queue(
            "not-before", .optionalColumn, \.notBefore,
            "Column of the time before which the row is not sent.")
        queue(
            "answered-at", .optionalColumn, \.answeredAt,
            "Column of the time at which the row got its final state; empty before.")
        queue(
            "time-type", .choice, detectedTime, \.timeType, example: "datetime",
            "Form in which the queue's times are stored; for whole numbers this setting must give the unit."
        )
        queue("zone", .zone, \.zone, "Zone of the queue's times if they are datetimes.")
    }
}
