import Database

extension Settings {
    /// The token database and how its tables are laid out.
    package struct Store: Sendable, Equatable {
        /// Where it is.
        package let location: StoreLocation
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
        /// The table of registered devices; what is nil in it is found in the table itself.
        package let activeUsers: TableMapping
        /// The table of notifications to send; what is nil in it is found in the table itself.
        package let pushQueue: QueueMapping

        /// Protection of the connection.
        package enum TLSMode: String, Sendable, CaseIterable {
            /// TLS with the chain and the name checked.
            case verify
            /// Plain text.
            case off
        }
    }

    /// A password. Prints as `(set)`, also in dumps of what contains it.
    package struct Secret: Sendable, Equatable, CustomStringConvertible, CustomReflectable {
        private let value: String

        /// Takes the password.
        init(_ value: String) { self.value = value }

        /// The password itself, for the one call that needs it.
        package func reveal() -> String { value }

        /// That there is a secret, and nothing of it.
        package var description: String { "(set)" }
        /// An empty mirror, so that dumping a value shows no secret either.
        package var customMirror: Mirror { Mirror(self, children: [:]) }
    }
}
