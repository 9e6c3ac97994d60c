/// The table and columns of the tokens, as far as the settings name them; the rest is detected in
/// the database. The defaults fit the PushChat tables and the schema of `schema print`.
package struct TableMapping: Hashable, Sendable {
    /// The table, `name` or `schema.name`.
    package var table = "active_users"
    /// The columns that identify a row; nil: `id` if it is there and unique, else the primary key.
    package var key: [String]?
    /// The column of the token.
    package var token = "device_token"
    /// Its encoding; nil: binary in a binary column, hex in a text column.
    package var encoding: TokenEncoding?
    /// The longest expected token, in bytes. Apple announced 100. A narrower column loses longer
    /// tokens; a setting of 32 accepts that.
    package var longestToken = 100
    /// The column of the app's name.
    package var app = OptionalColumn.detect("app_id")
    /// The column of the environment's name.
    package var environment = OptionalColumn.detect("environment")
    /// The environment column's values for `production` and `sandbox`, where they differ from these
    /// words.
    package var environmentValues: [String: String] = [:]
    /// The column that tells rows of other platforms apart, in a table that has them.
    package var platform = PlatformMapping()
    /// The column of the user for whom a notification is queued; nil: `user_id` or `udid`, if one
    /// exists.
    package var user: OptionalColumn?
    /// The time at which the device last registered its token.
    package var registeredAt = TimeMapping(column: .detect("registered_at"))
    /// The time at which the token was found dead.
    package var invalidatedAt = TimeMapping(column: .detect("invalidated_at"))
    /// The column of two values that is the mark in place of a time.
    package var living = LivingMapping()
    /// The reason of the mark.
    package var reason = OptionalColumn.detect("invalid_reason")
    /// Columns that have no part although their values look so; a person has decided about them.
    package var ignoredColumns: [String]?

    package init() {}
}

/// The rows of a mixed table that belong to Apple's devices. Both fields are set or neither is.
package struct PlatformMapping: Hashable, Sendable {
    /// The column of the platform; nil: every row belongs to an Apple device.
    package var column: String?
    /// The column's value in rows of Apple's devices.
    package var value: String?

    package init(column: String? = nil, value: String? = nil) {
        (self.column, self.value) = (column, value)
    }
}

/// A column of two values, such as `active`, that says whether a token is used. The first three
/// fields are set or none is.
package struct LivingMapping: Hashable, Sendable {
    /// The column; nil: the mark is a time.
    package var column: String?
    /// The value of a row that is used.
    package var living: String?
    /// The value of a row that is not used any more; a mark sets it.
    package var dead: String?
    /// Further values that rows may have, which count as living; nil: none.
    package var others: [String]?
    /// Whether a person has confirmed that most rows have the value of `dead`.
    package var mostlyDead = false

    package init(
        column: String? = nil, living: String? = nil, dead: String? = nil, others: [String]? = nil
    ) {
        (self.column, self.living, self.dead, self.others) = (column, living, dead, others)
    }
}

/// A column that a table may lack.
package enum OptionalColumn: Hashable, Sendable {
    /// Use the column of this default name if the table has one.
    case detect(String)
    /// The table has no such column, or it must not be used.
    case absent
    /// Use this column; it has to exist.
    case named(String)

    /// The name of the column to use, if the table has it; nil for none.
    package var name: String? {
        switch self {
        case .detect(let name), .named(let name): name
        case .absent: nil
        }
    }
}

/// The encoding of tokens in their column.
package enum TokenEncoding: String, Hashable, Sendable, CaseIterable {
    /// The raw bytes of the token.
    case binary
    /// Hexadecimal text of either case.
    case hex
}

/// A time column, where the table has one, with its type and zone.
package struct TimeMapping: Hashable, Sendable {
    /// The column to use.
    package var column: OptionalColumn
    /// The type of its values; nil: detected from the column's type, which is not possible for an
    /// integer column.
    package var type: TimeColumnType?
    /// The zone of a DATETIME.
    package var zone: ZoneOffset

    /// Makes a mapping; by default the type is detected and the zone is UTC.
    package init(
        column: OptionalColumn, type: TimeColumnType? = nil, zone: ZoneOffset = .utc
    ) {
        self.column = column
        self.type = type
        self.zone = zone
    }
}

/// The type of a time column's values.
package enum TimeColumnType: String, Hashable, Sendable, CaseIterable {
    /// DATETIME or TIMESTAMP; in SQLite, ISO 8601 text.
    case datetime
    /// Whole seconds since 1970-01-01T00:00:00Z.
    case epochSeconds = "epoch-seconds"
    /// Whole milliseconds since 1970-01-01T00:00:00Z.
    case epochMilliseconds = "epoch-milliseconds"
}

extension TimeColumnType {
    /// A type of a server's column that holds such times.
    package var serverType: String {
        switch self {
        case .datetime: "DATETIME(3) NULL"
        case .epochSeconds, .epochMilliseconds: "BIGINT NULL"
        }
    }
}

/// The table and columns of the notifications to send, as far as the settings name them; the rest
/// is detected in the database. The defaults fit the PushChat tables and the schema of `schema
/// print`. Names of apps and environments are spelled as in the token table.
package struct QueueMapping: Hashable, Sendable {
    /// The table, `name` or `schema.name`.
    package var table = "push_queue"
    /// The column of whole numbers that identifies a row and gives the order of sending; nil:
    /// `message_id` or `id`, else the primary key.
    package var key: String?
    /// The column of the token to send to.
    package var token = "device_token"
    /// Its encoding; nil: binary in a binary column, hex in a text column.
    package var encoding: TokenEncoding?
    /// The column of the JSON to send.
    package var payload = "payload"
    /// The column of the app's name.
    package var app = OptionalColumn.detect("app_id")
    /// The column of the environment's name.
    package var environment = OptionalColumn.detect("environment")
    /// The column of `apns-push-type`.
    package var pushType = OptionalColumn.detect("push_type")
    /// The column of `apns-priority`.
    package var priority = OptionalColumn.detect("priority")
    /// The column of `apns-expiration`, in seconds since 1970.
    package var expiration = OptionalColumn.detect("expiration")
    /// The column of `apns-collapse-id`.
    package var collapseID = OptionalColumn.detect("collapse_id")
    /// The time at which the notification was queued; nil: `time_queued` or `queued_at`, if one
    /// exists.
    package var queuedAt: OptionalColumn?
    /// The time at which it was sent; NULL until then, and permanently in rows that are not sent.
    package var sentAt = OptionalColumn.detect("time_sent")
    /// The delivery state. This and the following four columns are used together or not at all:
    /// where one is missing, all five are in `pushsweep_delivery`.
    package var state = OptionalColumn.detect("state")
    /// The number of attempts.
    package var attempts = OptionalColumn.detect("attempts")
    /// The reason why it was skipped, refused or delayed.
    package var reason = OptionalColumn.detect("reason")
    /// The earliest time to send it.
    package var notBefore = OptionalColumn.detect("not_before")
    /// The time of its final result.
    package var answeredAt = OptionalColumn.detect("answered_at")
    /// The type of the time columns' values; nil: detected from the columns' types.
    package var timeType: TimeColumnType?
    /// The zone of time columns that are a DATETIME.
    package var zone = ZoneOffset.utc

    package init() {}
}

extension TableMapping {
    /// The columns that decide about a row or are told of it, each perhaps by its default name.
    package var judgedByDefault: [OptionalColumn] {
        [app, environment, registeredAt.column]
            + (living.column == nil ? [invalidatedAt.column, reason] : [])
    }
}

extension QueueMapping {
    /// The columns that decide whether and where a notification is sent.
    package var judgedByDefault: [OptionalColumn] {
        [app, environment, sentAt, state, attempts, reason, notBefore, answeredAt]
    }
}
