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
    package init(_ text: String, relativeTo folder: String) throws(SettingRefusal) {
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
