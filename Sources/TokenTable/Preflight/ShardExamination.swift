// What `check` says about the shards of a token table on Spider. Under `spider_internal_xa` a COMMIT prepares
// the transaction on each shard first. A crash between that and the end leaves prepared transactions: no
// timeout ends them, and they hold their locks until a person does. For this program either end is right,
// because the next run looks at the rows (see Settlement). So the setting gains nothing, and `check` says to
// switch it off.
//
// XA RECOVER lists the prepared transactions of one server and needs no right. The shards are asked through
// Spider's own function, which writes an answer into a temporary table. Without the right to make one, the
// finding names the statement for a person.

import Database
import TokenHygiene

extension TokenTable {
    /// Findings about the shards of the token table and what crashes left there. Empty for a table of
    /// another engine.
    ///
    /// - Throws: any failure of reading the settings of the connected server.
    func shardFindings(
        _ table: CatalogTable, _ server: ServerDescription
    ) throws(StoreFailure) -> [StoreFinding] {
        guard table.engine?.isSpider == true else { return [] }
        let (isTwoPhase, prepared, names) = try retries.retrying("asking Spider for its shards") {
            () throws(SQLFailure) in
            let isTwoPhase = try connection.query("SELECT @@GLOBAL.spider_internal_xa")
            let prepared = try connection.query("XA RECOVER FORMAT='SQL'")
            return (
                isTwoPhase.scalar?.count == 1,
                PreparedTransactions(server: "the Spider node", listed: prepared, column: 3),
                try shardNames(table.name)
            )
        }
        var findings: [StoreFinding] = []
        if isTwoPhase {
            findings.append(
                StoreFinding(
                    .warning,
                    "spider_internal_xa is ON: a commit over several shards is not atomic with it either, "
                        + "and a crash leaves prepared transactions that hold locks; switch it off, by "
                        + "SET GLOBAL spider_internal_xa=OFF and in the server's configuration"))
        }
        findings += [prepared.finding].compactMap { $0 }
        return findings + shardFindings(names, isTwoPhase, server.account)
    }

    /// Asks each shard for its prepared transactions.
    private func shardFindings(
        _ names: [String], _ isTwoPhase: Bool, _ account: String?
    ) -> [StoreFinding] {
        guard !names.isEmpty else {
            return [
                Self.unknown(
                    "the comments of the table name no shard by its server", isTwoPhase, cure: "")
            ]
        }
        var findings: [StoreFinding] = []
        for name in names {
            var kind: SQLFailure.Kind?
            do throws(StoreFailure) {
                let prepared = try retries.retrying("asking shard \(name)") {
                    () throws(SQLFailure) in
                    do throws(SQLFailure) {
                        return try preparedTransactions(on: name)
                    } catch {
                        kind = error.kind
                        throw error
                    }
                }
                findings += [prepared.finding].compactMap { $0 }
            } catch {
                guard error.code == .permission, case .server(let server) = settings.location else {
                    // Runs that meet rows of a shard that is away fail too.
                    let isAway = kind.map { [.lost, .unreachable, .overloaded].contains($0) }
                    findings.append(
                        StoreFinding(
                            isAway == true ? .failure(error.code) : .warning, error.sentence))
                    continue
                }
                let grant = shardRight(server).grant(to: account ?? server.user)
                return [
                    Self.unknown("the account may not ask them", isTwoPhase, cure: "\(grant), or ")
                ]
            }
        }
        guard findings.isEmpty else { return findings }
        return [
            StoreFinding(
                .ok, "no prepared transaction is on the shards \(names.joined(separator: ", "))")
        ]
    }

    /// The right to receive the answers of shards.
    private func shardRight(_ server: StoreLocation.Server) -> Privilege {
        Privilege(
            purpose: "ask shards of", privileges: "CREATE TEMPORARY TABLES",
            table: "\(connection.dialect.quoted(server.database)).*", probe: "")
    }

    /// The GRANT statement by which `check` may ask the shards of the token table; empty for a table of
    /// another engine.
    ///
    /// - Throws: any failure of reading the table's engine.
    package func shardGrants() throws(StoreFailure) -> [String] {
        guard case .server(let server) = settings.location,
            let name = try? TableName(settings.mapping.table)
        else { return [] }
        let engine = try retries.retrying("reading the engine of \(name)") {
            () throws(SQLFailure) in try Catalog(connection: connection).engine(name)
        }
        guard engine?.isSpider == true else { return [] }
        return [shardRight(server).grant(to: try session.describe().account ?? server.user)]
    }

    private static func unknown(
        _ reason: String, _ isTwoPhase: Bool, cure: String
    ) -> StoreFinding {
        StoreFinding(
            isTwoPhase ? .warning : .ok,
            "whether a crash left prepared transactions on the shards is not known, because \(reason); "
                + "\(cure)run XA RECOVER on each shard")
    }

    /// The shards of a table, by the names under which Spider knows their servers, in order. The server in
    /// the comment of the table is that of partitions without one.
    private func shardNames(_ table: TableName) throws(SQLFailure) -> [String] {
        let place: [SQLValue] = [table.schema.map(SQLValue.text) ?? .null, .text(table.name)]
        let condition = "WHERE TABLE_SCHEMA = COALESCE(?, DATABASE()) AND TABLE_NAME = ?"
        func named(_ statement: String) throws(SQLFailure) -> [[String]] {
            let comments = try connection.query("\(statement) \(condition)", place)
            return (0..<comments.count).map { ShardNames.named(in: comments[$0, 0].text ?? "") }
        }
        let usual = try named("SELECT TABLE_COMMENT FROM information_schema.TABLES").flatMap { $0 }
        let partitions = try named("SELECT PARTITION_COMMENT FROM information_schema.PARTITIONS")
        return Set(partitions.flatMap { $0.isEmpty ? usual : $0 }).sorted()
    }

    private func preparedTransactions(
        on shard: String
    ) throws(SQLFailure) -> PreparedTransactions {
        let name = "pushsweep_prepared"
        try connection.run("DROP TEMPORARY TABLE IF EXISTS \(name)")
        try connection.run(
            "CREATE TEMPORARY TABLE \(name) (format BIGINT, global_bytes INT, branch_bytes INT, "
                + "id VARCHAR(400)) ENGINE=MEMORY")
        _ = try connection.query(
            "SELECT SPIDER_DIRECT_SQL('XA RECOVER FORMAT=''SQL''', '\(name)', ?)",
            [.text("srv \"\(shard)\"")])
        let listed = try connection.query("SELECT id FROM \(name) ORDER BY id")
        try connection.run("DROP TEMPORARY TABLE \(name)")
        return PreparedTransactions(server: "shard \(shard)", listed: listed, column: 0)
    }
}

/// The prepared transactions of one server.
struct PreparedTransactions {
    private let server: String
    private let count: Int
    /// The id of the first, as XA COMMIT and XA ROLLBACK take it.
    private let first: String?

    /// Reads a list of them with the ids in a column.
    init(server: String, listed rows: SQLRows, column: Int) {
        self.server = server
        count = rows.count
        first = rows.count > 0 ? rows[0, column].text : nil
    }

    /// The finding; nil where there is none.
    var finding: StoreFinding? {
        guard count > 0 else { return nil }
        let what = count == 1 ? "a prepared transaction" : "\(count) prepared transactions"
        return StoreFinding(
            .warning,
            "\(server) has \(what), the first is \(first ?? "unnamed"): one that a crash left holds its "
                + "locks until a person ends it; if XA RECOVER FORMAT='SQL' still lists it there after a "
                + "minute, end it: as its transaction manager or mysql.spider_xa on the Spider node tells, "
                + "by XA COMMIT or XA ROLLBACK and its id; where it is one of this program, either is "
                + "right, since the next run makes up for it")
    }
}

/// The servers that the comment of a Spider table or partition names.
enum ShardNames {
    /// The names behind `srv` or `server`, for instance of `wrapper "mysql", srv "shard1 shard2"`.
    static func named(in comment: String) -> [String] {
        var names: [String] = []
        // Words and quoted values take turns.
        let parts = comment.split(omittingEmptySubsequences: false) { "\"'".contains($0) }
        for (place, part) in parts.enumerated() where place % 2 == 1 {
            let word = parts[place - 1].split { " ,\t\n".contains($0) }.last?.lowercased()
            guard word == "srv" || word == "server" else { continue }
            names += part.split(separator: " ").map(String.init)
        }
        return names
    }
}
