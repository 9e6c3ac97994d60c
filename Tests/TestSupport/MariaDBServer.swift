import Database
import Foundation

/// The MariaDB that tests may use: an administrator's account on a server started for the purpose
/// (scripts/lib/mariadb.sh), named by the environment.
package struct MariaDBServer: Sendable {
    package let host: String
    package let port: Int
    package let socket: String
    package let ca: String
    package let user: String
    package let password: String

    /// The server the environment names; nil without one.
    package static let fromEnvironment: MariaDBServer? = {
        let environment = ProcessInfo.processInfo.environment
        func value(_ name: String) -> String? { environment["PUSHSWEEP_TEST_MARIADB_\(name)"] }
        guard let host = value("HOST"), let port = value("PORT").flatMap({ Int($0) }),
            let socket = value("SOCKET"), let ca = value("CA"), let user = value("USER"),
            let password = value("PASSWORD")
        else { return nil }
        return MariaDBServer(
            host: host, port: port, socket: socket, ca: ca, user: user, password: password)
    }()

    /// Whether the environment names a server.
    package static var isAvailable: Bool { fromEnvironment != nil }

    /// What a skipped test says.
    package static let absence =
        "no MariaDB: source scripts/lib/mariadb.sh, run mariadb_start, and test again"

    /// Where a database of this server is, over TCP.
    package func location(
        database: String, user: String? = nil, host: String? = nil
    ) -> StoreLocation {
        .server(
            .init(
                address: .tcp(host: host ?? self.host, port: port), user: user ?? self.user,
                database: database))
    }

    /// Settings for a database of this server.
    package func settings(
        database: String, user: String? = nil, password: String? = nil
    ) -> StoreSettings {
        StoreSettings(
            location: location(database: database, user: user),
            password: password ?? self.password, tls: .verify(ca: ca))
    }

    /// An administrator's connection.
    package func connection(database: String = "mysql") throws -> any SQLConnection {
        let settings = settings(database: database)
        guard case .server(let server) = settings.location else { throw TestFailure("no server") }
        let connection = MariaDBConnection(server, settings)
        try connection.connect()
        try connection.run("SET SESSION sql_safe_updates = 0")
        return connection
    }
}

/// A condition a test cannot go on without.
package struct TestFailure: Error, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}
