import Encodings

/// The settings for opening the token database.
package struct StoreSettings: Sendable, CustomStringConvertible {
    /// The server or file, and the database.
    package var location: StoreLocation
    /// The account's password. Never printed.
    package var password: Secret?
    /// The protection of the connection.
    package var tls: StoreTLS
    /// The time limits of the connection, in seconds.
    package var timeouts: StoreTimeouts
    /// Milliseconds after the first failure of an operation for which it is tried again.
    package var patience = usualPatience
    /// A minute: a replication group of MySQL needs some 22 seconds for a new primary.
    package static let usualPatience = 60_000.0
    /// The table and columns of the tokens.
    package var mapping: TableMapping
    /// The table and columns of the notifications to send.
    package var queue: QueueMapping
    /// What the connections are for, and so which servers they may use.
    package var use = StoreUse.changes
    /// Whether changes may go to a replica, and over a connection that a proxy splits.
    package var acceptsReplica = false
    /// Which of several hosts the connections of this run use. Copies of the settings share it.
    package var hosts = HostChoice()
    /// Whether `schema apply` creates the queue where it is missing, because the settings send.
    package var wantsQueue = false

    /// Makes settings. By default TLS is verified over TCP and off on a unix socket.
    package init(
        location: StoreLocation, password: String? = nil, tls: StoreTLS? = nil,
        timeouts: StoreTimeouts = StoreTimeouts(), mapping: TableMapping = TableMapping(),
        queue: QueueMapping = QueueMapping()
    ) {
        self.location = location
        self.password = password.map(Secret.init)
        self.tls = tls ?? .usual(for: location)
        self.timeouts = timeouts
        self.mapping = mapping
        self.queue = queue
    }

    /// Seconds of a lease whose holder may look for the database as long as its patience lasts, from its last
    /// renewal on: at least `seconds`. A lease is renewed after a third of it.
    package func leaseSeconds(atLeast seconds: Int) -> Int {
        max(seconds, Int((patience * 1.5 / 1_000).rounded(.up)))
    }

    /// The location only, so that a password cannot get into a message by mistake.
    package var description: String { "\(location)" }

    /// The same settings for another use.
    package func used(for use: StoreUse) -> StoreSettings {
        var settings = self
        settings.use = use
        return settings
    }
}

/// What a connection is for.
package enum StoreUse: Hashable, Sendable {
    /// Changes of rows, and the reads that decide about them. A replica is refused, and so is a
    /// connection that a proxy splits, unless the settings accept them.
    case changes
    /// Reads whose result others act on. They are asked of the primary where a proxy splits them, and a
    /// replica may answer.
    case decisions
    /// Reads for people. Any server may answer.
    case reports
}

/// The protection of a connection to a server.
package struct StoreTLS: Hashable, Sendable {
    /// The values of `store.tls.mode`.
    package enum Mode: String, Sendable, CaseIterable {
        /// TLS 1.2 or later; the certificate must lead to the authorities and name the host.
        case verify
        /// No TLS: neither encryption nor a check of the server's identity.
        case off
    }

    package var mode: Mode
    /// The PEM file of the authorities; nil: the system's.
    package var ca: String?

    /// TLS with a check against these authorities; nil: the system's.
    package static func verify(ca: String?) -> StoreTLS { StoreTLS(mode: .verify, ca: ca) }
    package static let off = StoreTLS(mode: .off)

    /// The CA file that Debian's ca-certificates maintains.
    static let systemCA = "/etc/ssl/certs/ca-certificates.crt"

    /// The default for a location: verified over TCP, off otherwise.
    package static func usual(for location: StoreLocation) -> StoreTLS {
        if case .server(let server) = location, case .tcp = server.address {
            return .verify(ca: nil)
        }
        return .off
    }
}

/// A password. Prints as `(set)`, also in dumps of a value that contains it.
package struct Secret: Sendable, Hashable, CustomStringConvertible, CustomReflectable {
    private let value: String

    package init(_ value: String) { self.value = value }

    /// The password itself, for the one call that needs it.
    package func reveal() -> String { value }

    package var description: String { "(set)" }
    package var customMirror: Mirror { Mirror(self, children: [:]) }
}

/// The store's time limits, in seconds. The client library has none by default.
package struct StoreTimeouts: Hashable, Sendable {
    /// The limit for a connection and its TLS handshake.
    package var connect = 10
    /// The limit for an answer.
    package var read = 60
    /// The limit for sending a statement.
    package var write = 60
    /// The limit for a row that another transaction holds. Short, because a chunk can be redone,
    /// and holds locks itself while it waits.
    package var lockWait = 5
    /// The silence after which the server may end a transaction: at least a minute, and longer than a
    /// statement on another connection of the same change can take.
    var idleTransaction: Int { max(60, read + write + lockWait) }
}

/// The location of the token tables.
package enum StoreLocation: Hashable, Sendable {
    /// A server that speaks the MySQL protocol.
    case server(Server)
    /// A SQLite file, by absolute path.
    case sqlite(path: String)

    /// A server, its database, and the account to use. Several hosts stand for one database: the
    /// nodes of a cluster, or a primary and the servers that may take its place.
    package struct Server: Hashable, Sendable {
        /// The account where an address names none. The client library would use the name of the
        /// user who runs the program, which differs between a shell and a timer.
        package static let usualUser = "pushsweep"

        /// The addresses in the order in which they are tried; at least one.
        package let addresses: [Address]
        /// The account's name.
        package let user: String
        /// The database that holds the tables.
        package let database: String

        /// The first address: the only one, unless several hosts are named.
        package var address: Address { addresses[0] }

        /// Makes the location of a database on a server.
        package init(address: Address, user: String = usualUser, database: String) {
            self.init(addresses: [address], user: user, database: database)
        }

        /// Makes the location of a database that several hosts serve; `addresses` has at least one.
        package init(addresses: [Address], user: String = usualUser, database: String) {
            precondition(!addresses.isEmpty, "a server has an address")
            self.addresses = addresses
            self.user = user
            self.database = database
        }
    }

    /// The address of a server.
    package enum Address: Hashable, Sendable {
        /// By host name or IP address, and port.
        case tcp(host: String, port: Int)
        /// On this host, by socket file.
        case unixSocket(path: String)
    }

    /// Parses `mysql://user@host:3306/database`, where several hosts with their ports may stand with
    /// commas between them, `mysql+unix://user@/path/to.sock?db=database` (the user may also follow it
    /// as `&user=name`) or `sqlite:///path`; a `sqlite://path` without the third slash starts at
    /// `folder`. User and ports may be omitted.
    ///
    /// - Throws: the error in the address. A password inside the address is one, because it would
    ///   show in process lists, logs and shell histories. No message quotes the address, because it
    ///   may contain a password.
    package init(_ text: String, relativeTo folder: String) throws(Refusal) {
        self = try StoreAddressParser(folder: folder).parse(text)
    }
}

extension StoreLocation: CustomStringConvertible {
    /// The address in the spelling that `init` accepts.
    package var description: String {
        switch self {
        case .sqlite(let path): return "sqlite://\(Self.escaped(path, "%?#@"))"
        case .server(let server):
            let user = Self.escaped(server.user, Self.delimiters)
            let database = Self.escaped(server.database, Self.delimiters)
            if case .unixSocket(let path) = server.address {
                return "mysql+unix://\(user)@\(Self.escaped(path, "%?#@"))?db=\(database)"
            }
            let hosts = server.addresses.map(\.description).joined(separator: ",")
            return "mysql://\(user)@\(hosts)/\(database)"
        }
    }

    /// The characters that separate the parts of an address and must be escaped in names.
    private static let delimiters = "%?#@:/&="

    private static func escaped(_ text: String, _ delimiters: String) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            if delimiters.unicodeScalars.contains(scalar) {
                result += "%" + String(scalar.value, radix: 16, uppercase: true)
            } else {
                result.unicodeScalars.append(scalar)
            }
        }
        return result
    }
}

extension StoreLocation.Address: CustomStringConvertible {
    /// `host:port`, an IPv6 address in brackets, or the path of the socket.
    package var description: String {
        switch self {
        case .tcp(let host, let port): (host.contains(":") ? "[\(host)]" : host) + ":\(port)"
        case .unixSocket(let path): path
        }
    }
}
