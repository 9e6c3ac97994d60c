extension Settings {
    /// The token database and how its tables are laid out.
    package struct Store: Sendable, Equatable {
        /// Where it is.
        package let location: Location
        /// Its password, from the environment or the password file.
        package let password: Secret?
        /// Whether the server must prove its name.
        package let tlsMode: TLSMode
        /// PEM file of authorities; nil for the system's.
        package let ca: String?
        /// Limit for connecting.
        package let connectTimeout: Duration
        /// Limit for each answer.
        package let readTimeout: Duration
        /// Limit for sending each request.
        package let writeTimeout: Duration
        /// The table of registered devices.
        package let activeUsers: ActiveUsers
        /// The table of notifications to send.
        package let pushQueue: PushQueue

        /// Protection of the connection.
        package enum TLSMode: String, Sendable, CaseIterable {
            /// TLS with the chain and the name checked.
            case verify
            /// Plain text.
            case off
        }
    }

    /// The user's table of registered devices.
    package struct ActiveUsers: Sendable, Equatable {
        /// `table` or `database.table`.
        package let table: String
        /// Columns of the primary key, at least one.
        package let key: [String]
        /// Token column.
        package let token: TokenColumn
        /// Longest token in bytes that the column must hold.
        package let longestToken: Int
        /// App column.
        package let app: ColumnChoice
        /// Environment column.
        package let environment: ColumnChoice
        /// What the environment column holds for production.
        package let productionValue: String
        /// What the environment column holds for the sandbox.
        package let sandboxValue: String
        /// Time of the last registration.
        package let registeredAt: TimeColumn
        /// Time of the mark.
        package let invalidatedAt: TimeColumn
        /// Reason of the mark.
        package let reason: ColumnChoice
    }

    /// The user's table of notifications to send.
    package struct PushQueue: Sendable, Equatable {
        /// `table` or `database.table`.
        package let table: String
        /// Column of the primary key.
        package let key: String
        /// Token column.
        package let token: TokenColumn
        /// Column of the JSON.
        package let payload: String
        /// Column of the time of queueing.
        package let queuedAt: String
        /// Column of the time of sending.
        package let sentAt: String
    }

    /// A column of tokens.
    package struct TokenColumn: Sendable, Equatable {
        /// Its name.
        package let column: String
        /// How it stores them.
        package let encoding: TokenEncoding
    }

    /// How a column stores tokens.
    package enum TokenEncoding: String, Sendable, CaseIterable {
        /// The bytes.
        case binary
        /// Hex digits of any case.
        case hex
    }

    /// A column of times.
    package struct TimeColumn: Sendable, Equatable {
        /// Which column, if any.
        package let column: ColumnChoice
        /// How it stores them.
        package let type: TimeEncoding
        /// Zone of a datetime.
        package let zone: ZoneOffset
    }

    /// How a column stores times.
    package enum TimeEncoding: String, Sendable, CaseIterable {
        /// DATETIME or TIMESTAMP, read in the declared zone.
        case datetime
        /// Whole seconds since 1970-01-01T00:00:00Z.
        case epochSeconds = "epoch-seconds"
        /// Milliseconds since 1970-01-01T00:00:00Z.
        case epochMilliseconds = "epoch-milliseconds"
    }

    /// Whether a table has a column that it need not have.
    package enum ColumnChoice: Sendable, Equatable {
        /// Nothing was said: this column is used if the table has it.
        case detect(String)
        /// The table has none, or it shall not be used.
        case absent
        /// This column, which must exist.
        case named(String)
    }

    /// A fixed offset from UTC. Named zones are refused: where clocks are set back an hour repeats,
    /// and a time in it says too little to compare.
    package struct ZoneOffset: Sendable, Hashable, CustomStringConvertible {
        /// Seconds east of UTC, a multiple of 60 between -14 and +14 hours.
        package let seconds: Int

        /// `+HH:MM` or `-HH:MM`, as SQL writes it.
        package var description: String {
            let minutes = abs(seconds) / 60
            let pad = { (number: Int) in number < 10 ? "0\(number)" : "\(number)" }
            return "\(seconds < 0 ? "-" : "+")\(pad(minutes / 60)):\(pad(minutes % 60))"
        }
    }

    /// A password. Prints as `(set)`, also in dumps of what contains it.
    package struct Secret: Sendable, Equatable, CustomStringConvertible, CustomReflectable {
        private let value: String

        /// Takes the password.
        init(_ value: String) { self.value = value }

        /// The password itself, for the one call that needs it.
        package func reveal() -> String { value }

        package var description: String { "(set)" }
        package var customMirror: Mirror { Mirror(self, children: [:]) }
    }
}
