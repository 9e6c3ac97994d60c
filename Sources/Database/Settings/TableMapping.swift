/// Which table and columns hold the tokens, as far as the settings say; the rest is found out from
/// the database. The defaults fit the PushChat tables and the schema that `schema print` gives.
package struct TableMapping: Hashable, Sendable {
    /// The table, `name` or `schema.name`.
    package var table = "active_users"
    /// The columns that identify a row; nil: `id` if there is one, else the primary key.
    package var key: [String]?
    /// The column of the token.
    package var token = "device_token"
    /// How it is spelled there; nil: binary in a binary column, hex in a text column.
    package var encoding: TokenEncoding?
    /// The longest token to be expected, in bytes. Apple announced 100; a narrower column loses
    /// longer tokens, which declaring 32 accepts.
    package var longestToken = 100
    /// The column that names the app.
    package var app = OptionalColumn.detect("app_id")
    /// The column that names the environment.
    package var environment = OptionalColumn.detect("environment")
    /// What the environment column holds for `production` and `sandbox`, where it is not these words.
    package var environmentValues: [String: String] = [:]
    /// The column that names the user a notification is queued for; nil: `user_id` or `udid`,
    /// whichever there is.
    package var user: OptionalColumn?
    /// When the device last registered its token.
    package var registeredAt = TimeMapping(column: .detect("registered_at"))
    /// When the token was found dead.
    package var invalidatedAt = TimeMapping(column: .detect("invalidated_at"))
    /// Why.
    package var reason = OptionalColumn.detect("invalid_reason")

    /// Starts with all defaults.
    package init() {}
}

/// A column that a table may have or not.
package enum OptionalColumn: Hashable, Sendable {
    /// Use the column of this usual name if the table has one.
    case detect(String)
    /// The table has none, or it is not to be used.
    case absent
    /// This one; it has to exist.
    case named(String)

    /// The column to use, if the table has it; nil for none.
    package var name: String? {
        switch self {
        case .detect(let name), .named(let name): name
        case .absent: nil
        }
    }
}

/// How tokens are spelled in their column.
package enum TokenEncoding: String, Hashable, Sendable, CaseIterable {
    /// The raw bytes.
    case binary
    /// Hexadecimal text of any case.
    case hex
}

/// A time column, where there is one, and how to read it.
package struct TimeMapping: Hashable, Sendable {
    /// The column.
    package var column: OptionalColumn
    /// What it holds; nil: read from the column's type, which an integer column does not tell.
    package var type: TimeColumnType?
    /// The zone of a DATETIME.
    package var zone: ZoneOffset

    /// States a mapping; unless told otherwise the type is detected and the zone is UTC.
    package init(
        column: OptionalColumn, type: TimeColumnType? = nil, zone: ZoneOffset = .utc
    ) {
        self.column = column
        self.type = type
        self.zone = zone
    }
}

/// What a time column holds.
package enum TimeColumnType: String, Hashable, Sendable, CaseIterable {
    /// DATETIME or TIMESTAMP; in SQLite, ISO 8601 text.
    case datetime
    /// Whole seconds since 1970-01-01T00:00:00Z.
    case epochSeconds = "epoch-seconds"
    /// Whole milliseconds since 1970-01-01T00:00:00Z.
    case epochMilliseconds = "epoch-milliseconds"
}
