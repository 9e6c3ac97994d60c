import Database
import Foundation

/// An account of the test server with no right, until some are granted. It is dropped with the object.
package final class ReadingAccount {
    private let admin: any SQLConnection
    private let name: String
    private let database: String
    /// The environment variables that make a run use the account.
    package let environment: [String: String]

    /// Makes the account for a database; nil without a server.
    package init?(of database: TokenDatabase) throws {
        guard let server = MariaDBServer.fromEnvironment else { return nil }
        admin = try server.connection()
        name = "a" + UUID().uuidString.lowercased().filter { $0 != "-" }.prefix(12)
        self.database = database.name
        environment = [
            "PUSHSWEEP_STORE_URL": "mysql://\(name)@\(server.host):\(server.port)/\(database.name)",
            "PUSHSWEEP_STORE_PASSWORD": "p",
        ]
        try admin.run("CREATE USER '\(name)'@'%' IDENTIFIED BY 'p'")
    }

    deinit { try? admin.run("DROP USER '\(name)'@'%'") }

    /// Grants SELECT on a table, or on all of them.
    package func grantSelect(on table: String = "*") throws {
        try admin.run("GRANT SELECT ON \(database).\(table) TO '\(name)'@'%'")
    }
}
