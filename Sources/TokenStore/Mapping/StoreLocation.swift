import Foundation

/// Where the token tables are.
package enum StoreLocation: Hashable, Sendable {
    /// A server that speaks the MySQL protocol.
    case server(Server)
    /// A SQLite file, by absolute path.
    case sqlite(path: String)

    /// A server, its database, and the account to use.
    package struct Server: Hashable, Sendable {
        /// How to get there.
        package let address: Address
        /// The account's name.
        package let user: String
        /// The database that holds the tables.
        package let database: String

        /// Names a server.
        package init(address: Address, user: String, database: String) {
            self.address = address
            self.user = user
            self.database = database
        }
    }

    /// How a server is reached.
    package enum Address: Hashable, Sendable {
        /// By name and port.
        case tcp(host: String, port: Int)
        /// On this machine, by socket file.
        case unixSocket(path: String)
    }

    /// Reads `mysql://user@host:3306/database`, `mysql+unix:///path/to.sock?db=database&user=name`
    /// or `sqlite:///absolute/path`.
    ///
    /// - Throws: `configuration` for anything else, and for a password inside the address: it would
    ///   show in process lists, logs and shell histories.
    package init(_ url: String) throws(StoreFailure) {
        guard let parts = URLComponents(string: url), let scheme = parts.scheme else {
            throw Self.refusal("it is no address")
        }
        guard parts.password == nil,
            parts.queryItems?.contains(where: { $0.name == "password" }) != true
        else {
            throw StoreFailure(
                .configuration,
                "reading the store address: it holds a password; take it out and put it into the "
                    + "file named by password-file, or into PUSHSWEEP_STORE_PASSWORD")
        }
        switch scheme {
        case "mysql": self = .server(try Self.tcp(parts))
        case "mysql+unix": self = .server(try Self.unixSocket(parts))
        case "sqlite":
            guard parts.path.hasPrefix("/"), parts.path.count > 1, parts.host ?? "" == "" else {
                throw Self.refusal("it names no absolute path, as sqlite:///var/lib/tokens.sqlite")
            }
            self = .sqlite(path: parts.path)
        default: throw Self.refusal("its scheme is none of mysql, mysql+unix and sqlite")
        }
    }

    private static func tcp(_ parts: URLComponents) throws(StoreFailure) -> Server {
        guard let host = parts.host, !host.isEmpty else { throw refusal("it names no host") }
        guard parts.query == nil else { throw refusal("a mysql address takes no options") }
        let port = parts.port ?? 3306
        guard (1...65_535).contains(port) else { throw refusal("port \(port) does not exist") }
        return Server(
            address: .tcp(host: host.trimmingCharacters(in: ["[", "]"]), port: port),
            user: try user(parts.user), database: try database(String(parts.path.dropFirst())))
    }

    private static func unixSocket(_ parts: URLComponents) throws(StoreFailure) -> Server {
        guard parts.path.hasPrefix("/"), parts.path.count > 1 else {
            throw refusal("it names no socket, as mysql+unix:///run/mysqld/mysqld.sock?db=push")
        }
        var options: [String: String] = [:]
        for item in parts.queryItems ?? [] { options[item.name] = item.value }
        if let unknown = options.keys.first(where: { $0 != "db" && $0 != "user" }) {
            throw refusal("option \(unknown.prefix(20)) is none of db and user")
        }
        return Server(
            address: .unixSocket(path: parts.path), user: try user(parts.user ?? options["user"]),
            database: try database(options["db"] ?? ""))
    }

    private static func user(_ name: String?) throws(StoreFailure) -> String {
        let name = name ?? "pushsweep"
        guard !name.isEmpty, name.utf8.count <= 128 else { throw refusal("its user name is empty") }
        return name
    }

    private static func database(_ name: String) throws(StoreFailure) -> String {
        guard !name.isEmpty, !name.contains("/"), name.utf8.count <= 64 else {
            throw refusal("it names no database, as mysql://pushsweep@db.internal:3306/push")
        }
        return name
    }

    private static func refusal(_ reason: String) -> StoreFailure {
        StoreFailure(.configuration, "reading the store address: \(reason); correct store.url")
    }
}

extension StoreLocation: CustomStringConvertible {
    /// The address as messages print it.
    package var description: String {
        switch self {
        case .sqlite(let path): "sqlite://\(path)"
        case .server(let server):
            switch server.address {
            case .tcp(let host, let port): "\(host):\(port)/\(server.database)"
            case .unixSocket(let path): "\(path)/\(server.database)"
            }
        }
    }
}
