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
