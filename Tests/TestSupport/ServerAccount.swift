import Database
import Foundation

/// An account without a password on a test server, as the router needs it. It is dropped with the object.
package final class OpenAccount {
    private let admin: any SQLConnection
    /// The account's name.
    package let name = "o" + UUID().uuidString.lowercased().filter { $0 != "-" }.prefix(12)

    /// Makes the account with all rights.
    package init(_ server: MariaDBServer) throws {
        admin = try server.connection()
        try Self.make(name, server)
    }

    /// Makes the same account on another server, which a test drops as a whole.
    package static func make(_ name: String, _ server: MariaDBServer) throws {
        let admin = try server.connection()
        try admin.run("CREATE USER IF NOT EXISTS '\(name)'@'%' IDENTIFIED BY ''")
        try admin.run("GRANT ALL ON *.* TO '\(name)'@'%'")
    }

    deinit { try? admin.run("DROP USER '\(name)'@'%'") }
}

/// An account of the test server with the password `p` and no right, until some are granted. It is dropped
/// with the object.
package final class ServerAccount {
    /// The administrator's connection.
    package let admin: any SQLConnection
    /// The account's name.
    package let name = "u" + UUID().uuidString.lowercased().filter { $0 != "-" }.prefix(12)
    /// The database in which rights are granted.
    package let database: String
    private let server: MariaDBServer
    /// Store settings for the database by the account.
    package var settings: StoreSettings

    /// Makes the account for a database, which is on the test server.
    package init(of database: TokenDatabase) throws {
        guard let server = MariaDBServer.fromEnvironment else {
            throw TestFailure(MariaDBServer.absence)
        }
        (self.server, self.database) = (server, database.name)
        settings = server.settings(database: database.name, user: name, password: "p")
        admin = try server.connection()
        try admin.run("CREATE USER '\(name)'@'%' IDENTIFIED BY 'p'")
    }

    deinit { try? admin.run("DROP USER '\(name)'@'%'") }

    /// Grants a right on a table of the database, or on all of them.
    package func grant(_ right: String = "SELECT", on table: String = "*") throws {
        try admin.run("GRANT \(right) ON \(database).\(table) TO '\(name)'@'%'")
    }

    /// Grants what `check --grants` printed, without the rights to make tables and to look at replicas.
    package func grant(printedBy output: String) throws {
        for line in output.split(separator: "\n").map(String.init) where line.hasPrefix("GRANT") {
            guard !["CREATE", "REPLICA", "BINLOG"].contains(where: line.contains) else { continue }
            try admin.run(line.replacing(";", with: ""))
        }
    }

    /// The environment variables that make a run use the account.
    package var environment: [String: String] {
        [
            "PUSHSWEEP_STORE_URL": "mysql://\(name)@\(server.host):\(server.port)/\(database)",
            "PUSHSWEEP_STORE_PASSWORD": "p",
        ]
    }

    /// Runs statements as the administrator.
    package func run(_ statements: some Sequence<String>) throws {
        for statement in statements { try admin.run(statement) }
    }
}
