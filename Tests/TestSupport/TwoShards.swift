import Database

/// A table whose rows are in two databases, as on shards: each statement goes to both, and a COMMIT
/// can reach one of them only. It passes rows on and takes no new ones, so nothing can be inserted.
package final class TwoShards: SQLConnection {
    private let shards: [any SQLConnection]
    /// The number of the COMMIT, from 1, that reaches the first shard only and then fails.
    private let halfCommit: Int?
    private let kind: SQLFailure.Kind
    /// Number of COMMITs so far.
    package private(set) var commits = 0

    package init(_ shards: [any SQLConnection], halfCommit: Int?, kind: SQLFailure.Kind = .lost) {
        self.shards = shards
        self.halfCommit = halfCommit
        self.kind = kind
    }

    package var dialect: SQLDialect { shards[0].dialect }

    package func connect() throws(SQLFailure) {
        for shard in shards { try shard.connect() }
    }

    package func query(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> SQLRows {
        guard sql.contains("active_users"), !sql.contains("information_schema") else {
            return try shards[0].query(sql, parameters)
        }
        var joined = SQLRows(width: 1)
        for (place, shard) in shards.enumerated() {
            let rows = try shard.query(sql, parameters)
            if place == 0 { joined = SQLRows(width: rows.width, names: rows.names) }
            for row in 0..<rows.count { rows.row(row).forEach { joined.append($0) } }
        }
        return joined
    }

    package func execute(_ sql: String, _ parameters: [SQLValue]) throws(SQLFailure) -> Int {
        var found = 0
        for shard in shards { found += try shard.execute(sql, parameters) }
        return found
    }

    package func run(_ sql: String) throws(SQLFailure) {
        // As Spider answers.
        if sql.contains("SAVEPOINT") {
            throw SQLFailure(kind: .other, code: 1_178, message: "no savepoints")
        }
        if sql == "COMMIT" {
            commits += 1
            if commits == halfCommit {
                try shards[0].run(sql)
                try shards[1].run("ROLLBACK")
                throw SQLFailure(kind: kind, code: 1_158, message: "a shard is gone")
            }
        }
        for shard in shards { try shard.run(sql) }
    }

    package func describe() throws(SQLFailure) -> ServerDescription { try shards[0].describe() }
}
