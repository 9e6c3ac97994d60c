import Database
import Foundation

/// The MariaDB server for tests, with an administrator's account. The environment names it
/// (scripts/lib/mariadb.sh starts one).
package struct MariaDBServer: Sendable {
    package let host: String
    package let port: Int
    package let socket: String
    package let ca: String
    package let user: String
    package let password: String

    /// The server that the environment names; nil when it names none.
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

    /// Whether that server is MariaDB, not MySQL; true without a server.
    package static let isMariaDB: Bool = {
        guard let connection = try? fromEnvironment?.connection() else { return true }
        return (try? connection.describe())?.version.hasPrefix("MariaDB") != false
    }()

    /// The message of tests that are skipped on MySQL.
    package static let absenceOnMySQL = "the test needs MariaDB, not MySQL"

    /// Whether the environment names a server.
    package static var isAvailable: Bool { fromEnvironment != nil }

    /// The message of tests that are skipped without a server.
    package static let absence =
        "no MariaDB: source scripts/lib/mariadb.sh, run mariadb_start, and test again"

    /// The location of a database of this server, over TCP.
    package func location(
        database: String, user: String? = nil, host: String? = nil
    ) -> StoreLocation {
        .server(
            .init(
                address: .tcp(host: host ?? self.host, port: port), user: user ?? self.user,
                database: database))
    }

    /// Another node of the same cluster, which has the same accounts and certificates.
    package func node(port: Int) -> MariaDBServer {
        MariaDBServer(
            host: host, port: port, socket: "", ca: ca, user: user, password: password)
    }

    /// Store settings for a database of this server.
    package func settings(
        database: String, user: String? = nil, password: String? = nil
    ) -> StoreSettings {
        StoreSettings(
            location: location(database: database, user: user),
            password: password ?? self.password, tls: .verify(ca: ca))
    }

    /// A connection with the administrator's account, whatever the server is.
    package func connection(database: String = "mysql") throws -> any SQLConnection {
        let settings = settings(database: database).used(for: .reports)
        guard case .server(let server) = settings.location else { throw TestFailure("no server") }
        let connection = MariaDBConnection(server, settings)
        try connection.connect()
        try connection.run("SET SESSION sql_safe_updates = 0")
        return connection
    }
}

/// A failure that ends a test, such as a missing condition.
package struct TestFailure: Error, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}
