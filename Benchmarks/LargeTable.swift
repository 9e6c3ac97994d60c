import APNsProtocol
import Database
import Foundation
import TokenHygiene
import TokenTable

/// A failure to set up a benchmark.
struct BenchmarkFailure: Error, CustomStringConvertible {
    let description: String
}

/// A MariaDB server that the environment names by its socket, all with the same account.
enum BenchmarkServer {
    /// The server of most figures; with `scripts/bench --on` a node of a cluster.
    case main
    /// A server by itself beside the cluster, for figures that compare the two.
    case plain
    /// Another node of the cluster, by its name.
    case node(String)

    /// Settings for one of its databases, and its address in the form of a settings file.
    static func settings(
        database: String, on server: BenchmarkServer = .main
    ) throws -> (settings: StoreSettings, address: String) {
        let socket =
            switch server {
            case .main: "MARIADB_SOCKET"
            case .plain: "PLAIN_SOCKET"
            case .node(let name): "CLUSTER_\(name.uppercased())_SOCKET"
            }
        let password =
            if case .plain = server { "PLAIN_PASSWORD" } else { "MARIADB_PASSWORD" }
        let address =
            try "mysql+unix://\(value(socket))?db=\(database)&user=\(value("MARIADB_USER"))"
        var settings = StoreSettings(
            location: try StoreLocation(address, relativeTo: "/"),
            password: try value(password))
        settings.timeouts.read = 3_600
        return (settings, address)
    }

    /// The kind of cluster to which the main server belongs; nil for none.
    static var cluster: String? {
        ProcessInfo.processInfo.environment["PUSHSWEEP_TEST_CLUSTER_KIND"]
    }

    /// The names of the cluster's servers, shards among them; empty without a cluster.
    static var nodes: [String] {
        (ProcessInfo.processInfo.environment["PUSHSWEEP_TEST_CLUSTER_NODES"] ?? "")
            .split(separator: " ").map(String.init)
    }

    private static func value(_ name: String) throws -> String {
        guard let value = ProcessInfo.processInfo.environment["PUSHSWEEP_TEST_\(name)"] else {
            throw BenchmarkFailure(
                description: "no PUSHSWEEP_TEST_\(name) in the environment; run scripts/bench")
        }
        return value
    }
}

/// A MariaDB database with a large table of tokens, and evidence about a tenth of them. Of the
/// evidence, 80 % meets a row registered before it, 10 % one registered after it, 10 % none.
final class LargeTable {
    private(set) var settings: StoreSettings
    let sql: any SQLConnection
    /// Evidence in token order.
    let evidence: [TokenEvidence]
    /// Number of rows in the table.
    let rows: Int
    /// Name of the database.
    let database: String

    /// Makes a table in a database of its own, named by the process and `name`. `count` is the number
    /// of statements of evidence; nil for a tenth of the rows.
    package init(
        rows: Int, on server: BenchmarkServer = .main, name: String = "",
        evidenceOf count: Int? = nil, _ context: BenchmarkContext
    ) throws {
        self.rows = rows
        database = "ps_bench_\(getpid())\(name)"
        try Self.connection(BenchmarkServer.settings(database: "mysql", on: server).settings)
            .run("CREATE DATABASE \(database)")
        settings = try BenchmarkServer.settings(database: database, on: server).settings
        sql = try Self.connection(settings)
        for statement in SchemaScript.whole(for: settings.location).statements {
            try sql.run(statement)
        }
        context.note("filling a table of \(rows) rows")
        try Self.fill(sql, rows)
        evidence = try Self.evidence(sql, rows, count)
        try stage()
        context.note("\(evidence.count) statements of evidence staged")
    }

    deinit { try? sql.run("DROP DATABASE \(database)") }

    static func connection(_ settings: StoreSettings) throws -> any SQLConnection {
        guard case .server(let server) = settings.location else {
            throw BenchmarkFailure(description: "no server")
        }
        let connection = MariaDBConnection(server, settings)
        try connection.connect()
        try connection.run("SET SESSION sql_safe_updates = 0")
        return connection
    }

    /// Every tenth row has evidence of 2024-06-01 or later. A ninth of these rows registered in 2025,
    /// after their evidence.
    private static func fill(_ sql: any SQLConnection, _ rows: Int) throws {
        try sql.run("ALTER TABLE active_users DROP INDEX device, DROP INDEX user")
        try sql.run(
            "INSERT INTO active_users SELECT seq, CONCAT('user-', seq), 'chat', 'production', "
                + "UNHEX(SHA2(seq, 256)), IF(seq % 90 = 0, '2025-01-01', '2023-01-01') + INTERVAL "
                + "seq % 8000000 SECOND, NULL, NULL FROM \(numbers(to: rows, sql))")
        try sql.run(
            "ALTER TABLE active_users ADD UNIQUE KEY device (device_token, app_id, environment), "
                + "ADD KEY user (user_id)")
        try sql.run("ANALYZE TABLE active_users")
    }

    private static func evidence(
        _ sql: any SQLConnection, _ rows: Int, _ count: Int?
    ) throws -> [TokenEvidence] {
        // Ten of the evidence are ten rows and a token without one; the rows are spread over the table.
        let step = max(1, rows / (count ?? rows / 10) / 10) * 10
        let found = try sql.query(
            "SELECT device_token FROM active_users WHERE id % \(step) = 0 AND id <= \(rows * 9 / 10) "
                + "UNION ALL SELECT UNHEX(SHA2(CONCAT('unknown', id), 256)) FROM active_users "
                + "WHERE id % \(step * 9) = 0 AND id <= \(rows * 9 / 10) ORDER BY 1")
        let june: Int64 = 1_717_200_000_000
        return (0..<found.count).compactMap { row in
            guard case .bytes(let bytes) = found[row, 0], let token = DeviceToken(bytes) else {
                return nil
            }
            let seconds = Int64(row) &* 7_919 % 8_000_000
            return TokenEvidence(token: token, time: EpochMilliseconds(june + seconds * 1_000))
        }
    }

    /// Writes the evidence into a table, by token, as the engine's floor needs it.
    private func stage() throws {
        try sql.run(
            "CREATE TABLE staging (token VARBINARY(100) PRIMARY KEY, dead DATETIME(3) NOT NULL)")
        let row = "(?, ?)"
        try sql.begin()
        for first in stride(from: 0, to: evidence.count, by: 500) {
            let block = evidence[first..<min(first + 500, evidence.count)]
            _ = try sql.execute(
                "INSERT INTO staging VALUES "
                    + repeatElement(row, count: block.count).joined(separator: ", "),
                block.flatMap { item -> [SQLValue] in
                    let clock = WallClock(microseconds: item.time.rawValue * 1_000)
                    return [.bytes(item.token.bytes), .wallClock(clock)]
                })
        }
        try sql.commit()
        try sql.run("CREATE TABLE kept SELECT * FROM active_users WHERE id % 10 = 0")
        try sql.run("ANALYZE TABLE staging")
    }

    /// Restores the table, and waits for the servers' background work. Rows are put back where any may have
    /// been removed.
    func restore(removed mayBeRemoved: Bool = true) throws {
        try sql.run(
            "UPDATE active_users SET invalidated_at = NULL, invalid_reason = NULL "
                + "WHERE invalidated_at IS NOT NULL")
        if mayBeRemoved { try sql.run("INSERT IGNORE INTO active_users SELECT * FROM kept") }
        for table in ["change", "part", "report", "batch"].map({ "pushsweep_" + $0 }) {
            try sql.run("TRUNCATE \(table)")
        }
        try settle()
    }

    /// Waits until old row versions are purged and changed pages are written, on all servers of a
    /// cluster, so that no run is slowed by the one before it.
    func settle() throws {
        let servers =
            try [sql]
            + BenchmarkServer.nodes.map {
                try Self.connection(
                    BenchmarkServer.settings(database: "mysql", on: .node($0)).settings)
            }
        let capacities = try servers.map { try Self.hurry($0) }
        for _ in 0..<600 where try servers.contains(where: Self.isBusy) { usleep(100_000) }
        for (server, capacity) in zip(servers, capacities) {
            try server.run(
                "SET GLOBAL innodb_max_dirty_pages_pct = 90, \(capacity)")
        }
    }

    /// Lets a server write all its changed pages; returns the assignments that end it.
    private static func hurry(_ server: any SQLConnection) throws -> String {
        let usual = try server.query("SELECT @@innodb_io_capacity, @@innodb_io_capacity_max")
        try server.run(
            "SET GLOBAL innodb_io_capacity_max = 40000, innodb_io_capacity = 20000, "
                + "innodb_max_dirty_pages_pct = 0, innodb_max_dirty_pages_pct_lwm = 0")
        return "innodb_io_capacity = \(usual[0, 0].count ?? 200), "
            + "innodb_io_capacity_max = \(usual[0, 1].count ?? 2_000)"
    }

    private static func isBusy(_ server: any SQLConnection) throws -> Bool {
        let rows = try server.query(
            "SHOW GLOBAL STATUS WHERE Variable_name IN ('Innodb_buffer_pool_pages_dirty', "
                + "'Innodb_history_list_length')")
        return (0..<rows.count).contains { (rows[$0, 1].count ?? 0) > 200 }
    }

    /// Writes the settings with which a process reads this table; its statements may take an hour.
    func settingsFile(in place: BenchmarkFolder) throws -> String {
        let password = place.file("password")
        try (settings.password?.reveal() ?? "").write(
            toFile: password, atomically: true, encoding: .utf8)
        chmod(password, 0o600)
        let file = place.file("pushsweep.yaml")
        try """
        state: \(place.file("state"))
        store:
          url: \(try BenchmarkServer.settings(database: database).address)
          password-file: \(password)
          read-timeout: 1h
        apps:
          - {name: chat, topic: com.example.chat, environment: production}

        """.write(toFile: file, atomically: true, encoding: .utf8)
        return file
    }

    /// The number of marks and a sum over them, and the number of entries in the ledger.
    func marks() throws -> String {
        let rows = try sql.query(
            "SELECT COUNT(*), SUM(CRC32(CONCAT(id, invalidated_at, invalid_reason))), "
                + "(SELECT COUNT(*) FROM pushsweep_change) FROM active_users "
                + "WHERE invalidated_at IS NOT NULL")
        return rows.row(0).map { $0.text ?? "\($0.count ?? -1)" }.joined(separator: " ")
    }

    /// A few numbers about the table and the ledger that differ when the content differs.
    func fingerprint() throws -> String {
        let rows = try sql.query(
            "SELECT (SELECT COUNT(*) FROM active_users), (SELECT COUNT(*) FROM pushsweep_change), "
                + "(SELECT SUM(CRC32(CONCAT(id, invalidated_at, invalid_reason))) FROM active_users "
                + "WHERE id % 10 = 0), (SELECT SUM(CRC32(CONCAT_WS('|', action, row_key, "
                + "before_image, evidence_at, source))) FROM pushsweep_change)")
        return rows.row(0).map { $0.text ?? $0.count.map(String.init) ?? "NULL" }
            .joined(separator: " ")
    }
}

/// Evidence that is in order already, as the journal returns it.
struct OrderedEvidence: EvidenceStream {
    var rest: ArraySlice<TokenEvidence>

    mutating func next(_ limit: Int) -> [TokenEvidence] {
        defer { rest = rest.dropFirst(limit) }
        return Array(rest.prefix(limit))
    }
}

/// The numbers from 1 to a count in a column `seq`, as the table after FROM. MySQL has no tables of
/// sequences.
func numbers(to count: Int, _ sql: any SQLConnection) throws -> String {
    if try sql.query("SELECT VERSION()").scalar?.text?.contains("MariaDB") == true {
        return "seq_1_to_\(count)"
    }
    let digits = (0...9).map { "SELECT \($0) AS d" }.joined(separator: " UNION ALL ")
    let places = 0..<String(count).count
    let sum = places.map { "d\($0).d * 1\(String(repeating: "0", count: $0))" }.joined(
        separator: " + ")
    let tables = places.map { "(\(digits)) AS d\($0)" }.joined(separator: ", ")
    return "(SELECT \(sum) + 1 AS seq FROM \(tables) WHERE \(sum) < \(count)) AS numbers"
}
