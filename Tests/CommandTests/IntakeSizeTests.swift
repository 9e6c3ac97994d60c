import APNsProtocol
import Database
import TestSupport
import Testing

@Suite("Reports in a database that limits the size of a transaction")
struct IntakeSizeTests {
    private static let reports = 2_400

    @Test("are all taken and counted once, in smaller transactions", .needsServer)
    func smallTransactions() throws {
        // About 250 deleted reports fill the cache of the binary log; a node of Galera limits the same
        // by wsrep_max_ws_size.
        let own = try PrivateServer([
            "--server-id=1", "--log-bin=log", "--binlog-format=ROW", "--binlog-cache-size=32768",
            "--max-binlog-cache-size=65536",
        ])
        let sql = try Self.fill(own.server)
        let folder = try TemporaryFolder()
        try folder.write("password", own.server.password)
        let settings = try folder.write(
            "pushsweep.yaml",
            """
            state: \(folder.file("state"))
            store:
              url: mysql://\(own.server.user)@\(own.server.host):\(own.server.port)/push
              password-file: \(folder.file("password"))
              tls: {ca: \(own.server.ca)}
            guard: {floor: 1000000}
            apps:
              - {name: chat, topic: com.example.chat, environment: production}

            """)
        let result = try RunningTool(
            "pushsweep", ["sweep", "--format", "json", "--config", settings]
        ).wait().ends(0)
        func count(_ query: String) throws -> Int? { try sql.query(query, []).scalar?.count }
        #expect(try count("SELECT COUNT(*) FROM pushsweep_evidence") == 0)
        #expect(
            try count("SELECT COUNT(*) FROM active_users WHERE invalidated_at IS NOT NULL")
                == Self.reports)
        #expect(
            try count("SELECT SUM(reports) FROM pushsweep_batch WHERE inlet = 'table'")
                == Self.reports)
        #expect(try count("SELECT COUNT(*) FROM pushsweep_batch WHERE inlet = 'table'") ?? 0 > 3)
        let intake = try #require(result.json["intake"] as? [String: Any])
        #expect(intake["reports"] as? Int == Self.reports)
    }

    private static func fill(_ server: MariaDBServer) throws -> any SQLConnection {
        try server.connection().run("CREATE DATABASE push CHARACTER SET utf8mb4")
        let sql = try server.connection(database: "push")
        for statement in SchemaScript.whole(for: server.settings(database: "push").location)
            .statements
        {
            try sql.run(statement)
        }
        // Each statement is a transaction, so it must be small too.
        for first in stride(from: 1, through: reports, by: 100) {
            let numbers = "seq_\(first)_to_\(first + 99)"
            try sql.run(
                "INSERT INTO active_users (user_id, app_id, environment, device_token, registered_at) "
                    + "SELECT seq, 'chat', 'production', UNHEX(SHA2(seq, 256)), '2020-01-01' "
                    + "FROM \(numbers)")
            try sql.run(
                "INSERT INTO pushsweep_evidence (app, device_token, status, timestamp_ms) "
                    + "SELECT 'chat', SHA2(seq, 256), 410, 1700000000000 FROM \(numbers)")
        }
        return sql
    }
}
