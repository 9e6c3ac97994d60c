/// Everything needed to open the token database.
package struct StoreSettings: Sendable, CustomStringConvertible {
    /// Where it is.
    package var location: StoreLocation
    /// The account's password. Never printed.
    package var password: String?
    /// How the connection is protected.
    package var tls: StoreTLS
    /// How long to wait for what.
    package var timeouts: StoreTimeouts
    /// Which table and columns hold what.
    package var mapping: TableMapping
    /// Which table and columns hold the notifications to send.
    package var queue: QueueMapping

    /// States settings; TLS is verified over TCP and off on a unix socket unless said otherwise.
    package init(
        location: StoreLocation, password: String? = nil, tls: StoreTLS? = nil,
        timeouts: StoreTimeouts = StoreTimeouts(), mapping: TableMapping = TableMapping(),
        queue: QueueMapping = QueueMapping()
    ) {
        self.location = location
        self.password = password
        self.tls = tls ?? .usual(for: location)
        self.timeouts = timeouts
        self.mapping = mapping
        self.queue = queue
    }

    /// The location only, so that a password cannot stray into a message.
    package var description: String { "\(location)" }
}

/// How a connection to a server is protected.
package enum StoreTLS: Hashable, Sendable {
    /// TLS 1.2 or later; the certificate must lead to this CA file (nil: the system's) and name the
    /// host.
    case verify(ca: String?)
    /// No TLS.
    case off

    /// The CA file that Debian's ca-certificates maintains.
    static let systemCA = "/etc/ssl/certs/ca-certificates.crt"

    /// What holds unless the settings say otherwise.
    package static func usual(for location: StoreLocation) -> StoreTLS {
        if case .server(let server) = location, case .tcp = server.address {
            return .verify(ca: nil)
        }
        return .off
    }
}

/// How long the store waits, in seconds. The client library's own defaults are for ever.
package struct StoreTimeouts: Hashable, Sendable {
    /// For a connection and its TLS handshake.
    package var connect: Int
    /// For an answer.
    package var read: Int
    /// For a statement to be taken.
    package var write: Int
    /// For a row that another transaction holds. Short: a chunk is redone, and while it waits it
    /// holds locks itself.
    package var lockWait: Int

    /// States timeouts; the usual ones are 10, 60, 60 and 5 seconds.
    package init(connect: Int = 10, read: Int = 60, write: Int = 60, lockWait: Int = 5) {
        self.connect = connect
        self.read = read
        self.write = write
        self.lockWait = lockWait
    }
}
