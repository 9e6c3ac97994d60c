// What only sorting shows: tokens in several rows, and users without a living token. The database
// sorts, because it may have an index in the right order. Each statement groups the whole table, so
// it takes as long as one sorted pass and may need a longer `store.read-timeout`.

import APNsProtocol
import Database
import Findings
import TokenHygiene

/// Tokens that several rows have.
package struct SharedTokens: Hashable, Sendable {
    /// Tokens of more than one row.
    package var tokens = 0
    /// Rows beyond the first of these.
    package var rows = 0
    /// Tokens whose rows have several users; nil where no column of users is known.
    package var ofSeveralUsers: Int?
    /// Tokens whose rows have several environments.
    package var inSeveralEnvironments = 0
}

/// The users of one partition by the number of their living tokens.
package struct TokensPerUser: Hashable, Sendable {
    /// The number of users by number of living tokens, at most `most`.
    package var users: [Int: Int] = [:]
    /// Numbers from here on are counted as one.
    package static let most = 6
}

/// Examines a table by sorting it.
package struct DeepAudit {
    private let table: TokenTable
    private let rows: SendableRows
    private let user: String?
    private var layout: TableLayout { rows.layout }
    private var dialect: SQLDialect { rows.dialect }

    /// Prepares the examination. `partitions` are those of the settings, with apps by the table's
    /// value; `user` is the column of users, where one is known.
    ///
    /// - Throws: `configuration` where the table does not fit the settings; any failure of a query.
    package init(
        _ table: TokenTable, _ partitions: [Partition], user: String?
    ) throws(StoreFailure) {
        self.table = table
        self.user = user
        let layout = try table.layout()
        var countsSide = false
        if layout.mark == nil { countsSide = try table.canReadTokenMarks() }
        rows = try table.sendableRows(partitions, countingSideMarks: countsSide)
    }

    private var isToken: String { (rows.platform + rows.tokenTerms).joined(separator: " AND ") }

    /// The column of tokens in the form in which equal tokens are equal.
    private var token: String {
        layout.token.encoding == .hex
            ? "LOWER(RTRIM(\(rows.hexText)))" : rows.column(layout.token.name)
    }

    /// Counts the tokens that several rows have, over all partitions. One token of two apps is of
    /// different devices as far as APNs says, so rows are compared within an app.
    ///
    /// - Throws: any failure of the query.
    package func sharedTokens() throws(StoreFailure) -> SharedTokens {
        let app = layout.app.map { rows.column($0.name) }
        let environments = layout.environment.map { "COUNT(DISTINCT \(rows.column($0.name)))" }
        let users = user.map { "COUNT(DISTINCT \(rows.column($0)))" }
        let groups = [app, token].compactMap { $0 }.joined(separator: ", ")
        let sql =
            "SELECT COUNT(*), COALESCE(SUM(n - 1), 0), COALESCE(SUM(u > 1), 0), "
            + "COALESCE(SUM(e > 1), 0) FROM (SELECT COUNT(*) AS n, \(users ?? "0") AS u, "
            + "\(environments ?? "0") AS e FROM \(layout.table.sql(dialect)) "
            + "WHERE \(isToken) GROUP BY \(groups) HAVING COUNT(*) > 1) AS shared"
        return try table.retries.retrying("looking for tokens in several rows") {
            () throws(SQLFailure) in
            let found = try table.connection.query(sql)
            try found.require(width: 4)
            return SharedTokens(
                tokens: found[0, 0].count ?? 0, rows: found[0, 1].count ?? 0,
                ofSeveralUsers: users == nil ? nil : found[0, 2].count ?? 0,
                inSeveralEnvironments: found[0, 3].count ?? 0)
        }
    }

    /// Counts the users of a partition by their living tokens; nil where no column of users is known.
    ///
    /// - Throws: any failure of the query.
    package func tokensPerUser(in partition: Partition) throws(StoreFailure) -> TokensPerUser? {
        guard let user else { return nil }
        let selection = try layout.selection(of: partition).condition(dialect, alias: prefix)
        let sql =
            "SELECT CASE WHEN n > \(TokensPerUser.most) THEN \(TokensPerUser.most) ELSE n END AS tokens, "
            + "COUNT(*) FROM (\(living(of: user, selection.sql))) AS counted GROUP BY tokens"
        return try table.retries.retrying("counting the tokens of each user") {
            () throws(SQLFailure) in
            let found = try table.connection.query(sql, selection.values)
            try found.require(width: 2)
            var counts = TokensPerUser()
            for row in 0..<found.count {
                counts.users[found[row, 0].count ?? 0] = found[row, 1].count ?? 0
            }
            return counts
        }
    }

    /// Passes each user of a partition without a living token to a body, in the order of the column.
    ///
    /// - Throws: any failure of a query, and the errors of the body.
    package func usersWithoutToken(
        in partition: Partition, shouldStop: () -> Bool = { false }, _ body: (String) throws -> Void
    ) throws {
        guard let user else { return }
        let selection = try layout.selection(of: partition).condition(dialect, alias: prefix)
        let name = rows.column(user)
        var last: SQLValue?
        let page = 10_000
        while !shouldStop() {
            let from = last == nil ? "" : " AND \(name) > ?"
            let sql =
                "SELECT k FROM (\(living(of: user, selection.sql + from))) AS counted WHERE n = 0 "
                + "ORDER BY k LIMIT \(page)"
            let found = try table.retries.retrying("listing users without a living token") {
                () throws(SQLFailure) in
                try table.connection.query(sql, selection.values + (last.map { [$0] } ?? []))
            }
            for row in 0..<found.count {
                let value = found[row, 0]
                try body(value.text ?? value.integer.map(String.init) ?? "")
            }
            guard found.count == page else { return }
            last = found[page - 1, 0]
        }
    }

    private var prefix: String { "\(layout.table.sql(dialect))." }

    /// Each user with the number of living tokens.
    private func living(of user: String, _ condition: String) -> String {
        let name = rows.column(user)
        let isSendable = rows.terms.map { "(\($0))" }.joined(separator: " AND ")
        return "SELECT \(name) AS k, SUM(CASE WHEN \(isSendable) THEN 1 ELSE 0 END) AS n"
            + " FROM \(layout.table.sql(dialect)) "
            + "WHERE \(name) IS NOT NULL\(condition) GROUP BY \(name)"
    }
}
