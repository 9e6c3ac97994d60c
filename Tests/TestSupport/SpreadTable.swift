import Foundation

/// The token table of our own schema, spread over the shards of a Spider cluster.
/// `scripts/test --on spider` sets one up. Tests that cannot hold there say why in a trait.
package enum SpreadTable {
    /// Whether the server of the environment is the Spider node of a private cluster.
    package static let isUsed = Environment.text("PUSHSWEEP_TEST_CLUSTER_KIND") == "spider"

    /// A shard, by its number from 1; nil without such a cluster.
    package static func shard(_ number: Int) -> MariaDBServer? {
        guard isUsed, let node = MariaDBServer.fromEnvironment,
            let port = Environment.text("PUSHSWEEP_TEST_CLUSTER_SHARD\(number)_PORT").flatMap({
                Int($0)
            }), let socket = Environment.text("PUSHSWEEP_TEST_CLUSTER_SHARD\(number)_SOCKET")
        else { return nil }
        return MariaDBServer(
            host: node.host, port: port, socket: socket, ca: node.ca, user: node.user,
            password: node.password)
    }

    /// Spreads a table, named with its database, over the shards by the values of a column.
    ///
    /// - Throws: `TestFailure` where `scripts/cluster` fails, which says why on stderr.
    package static func spread(_ table: String, by column: String) throws {
        let process = Process()
        process.executableURL =
            URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../../scripts/cluster").standardizedFileURL
        process.arguments = ["spider", "spread", table, column]
        try process.run()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw TestFailure("scripts/cluster spider spread \(table) failed")
        }
    }
}
