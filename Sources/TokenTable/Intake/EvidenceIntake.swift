// What is asked of `pushsweep_evidence`, besides taking its rows (see `TakenRows`).

import APNsProtocol
import Database
import Findings
import TokenHygiene

/// Asks `pushsweep_evidence` and `pushsweep_intake`.
package struct EvidenceIntake {
    static let columns = EvidenceRow.columns.joined(separator: ", ")

    let session: DatabaseSession
    var connection: any SQLConnection { session.connection }

    /// Works on the database of a token table.
    package init(_ table: TokenTable) { session = table.session }

    /// The most rows of one transaction. A large batch is applied faster, because more
    /// of its tokens are neighbours in the index. Nobody waits for the rows; but other writers wait for the
    /// transaction where a file has one writer at a time, or where a Galera cluster applies it on every node.
    package var mostRows: Int {
        connection.certifiesCommits || connection.dialect.engine == .sqlite ? 20_000 : 100_000
    }

    /// Whether there are rows to decide by.
    ///
    /// - Throws: `permission` where the account may not read them, or nobody knows whether the table is there; any other
    ///   failure of a query.
    package func decides() throws(StoreFailure) -> Bool {
        try session.decides(
            by: .evidence, Self.columns, to: "looking for reports of other senders")
    }

    /// Whether the account sees the table; an installation without other senders may lack it.
    ///
    /// - Throws: any failure of a query.
    package func visibility() throws(StoreFailure) -> TableVisibility {
        try session.visibility(of: PushsweepTable.evidence.name, Self.columns)
    }

    /// The number of rows that wait and have some words for an app and environment, or of all.
    ///
    /// - Throws: any failure of a query.
    package func waiting(naming words: Set<Partition>? = nil) throws(StoreFailure) -> Int {
        if words?.isEmpty == true { return 0 }
        let values = words?.flatMap { [SQLValue.text($0.app), .text($0.environment)] } ?? []
        let terms = words?.map { _ in "(app = ? AND environment = ?)" }.joined(separator: " OR ")
        let which = terms.map { " WHERE \($0)" } ?? ""
        return try session.retries.retrying(
            "counting the rows of pushsweep_evidence",
            do: connection.query("SELECT COUNT(*) FROM pushsweep_evidence" + which, values)
                .scalar?.count ?? 0)
    }

    /// The number of the last row; nil where there is none.
    ///
    /// - Throws: any failure of a query.
    package func lastNumber() throws(StoreFailure) -> Int64? {
        try session.retries.retrying(
            "looking for the last row of pushsweep_evidence",
            do: connection.query("SELECT MAX(id) FROM pushsweep_evidence").scalar?.integer)
    }

    /// The number that is near the end of `id`: half of all numbers. A sender that inserts a number of its
    /// own can reach it with one row, the count of the rows never does.
    static let exhausted: UInt64 = 1 << 62

    /// Why no sender can insert for long, and the statement that mends it; nil where there are numbers
    /// left. Taking the rows does not bring their numbers back.
    ///
    /// - Throws: any failure of a query.
    package func exhaustion() throws(StoreFailure) -> String? {
        let table = PushsweepTable.evidence.name
        let isServer = connection.dialect.engine == .mariaDB
        let used = try session.retries.retrying("reading the numbers of \(table)") {
            () throws(SQLFailure) -> UInt64 in
            // information_schema has the number of a day ago on MySQL.
            let answer = try connection.query(
                isServer
                    ? "SHOW CREATE TABLE \(table)"
                    : "SELECT '', ' AUTO_INCREMENT=' || seq FROM sqlite_sequence "
                        + "WHERE name = '\(table)'")
            guard answer.count > 0, let text = answer[0, 1].text,
                let start = text.ranges(of: ") ENGINE").last?.lowerBound ?? text.indices.first,
                let found = text[start...].firstMatch(of: /\sAUTO_INCREMENT=(\d+)/)
            else { return 0 }
            return UInt64(found.1) ?? .max
        }
        guard used >= Self.exhausted else { return nil }
        return
            "a sender inserted a row with a number of its own into \(table), so its numbers are used up "
            + "and no sender can insert: once a sweep has taken the rows, as an administrator run: "
            + "\(renumbering); the next sweep does so where it may (docs/evidence.md)"
    }

    /// The statement after which the numbers go on behind the last row that is there.
    private var renumbering: String {
        let table = PushsweepTable.evidence.name
        return connection.dialect.engine == .mariaDB
            ? "ALTER TABLE \(table) AUTO_INCREMENT = 1"
            : "UPDATE sqlite_sequence SET seq = 0 WHERE name = '\(table)'"
    }

    /// Gives the table its numbers back, once no row is left that uses them up; false where one is left.
    ///
    /// - Throws: `permission` with the GRANT where the account may not; any other failure.
    package func renumber() throws(StoreFailure) -> Bool {
        let table = PushsweepTable.evidence.name
        do {
            let isDone = try session.retries.retrying("numbering \(table) anew") {
                () throws(SQLFailure) -> Bool in
                let left = try connection.query(
                    "SELECT COUNT(*) FROM \(table) WHERE id >= \(Self.exhausted)")
                guard left.scalar?.count == 0 else { return false }
                try connection.run(renumbering)
                return true
            }
            guard isDone else { return false }
        } catch {
            guard error.code == .permission,
                let grant = try session.grant({ $0.numbering(.evidence) })
            else { throw error }
            throw StoreFailure(
                .permission,
                "numbering \(table) anew: a sender used up its numbers with one of its own, so no sender "
                    + "can insert, and the account may not mend it; as an administrator run: \(grant); "
                    + "or once: \(renumbering); then sweep again")
        }
        return try exhaustion() == nil
    }

    /// Some of the waiting rows, without taking them: the first ones, or those after a number, in the order of
    /// their numbers.
    ///
    /// - Throws: any failure of a query.
    package func peek(after id: Int64?, limit: Int) throws(StoreFailure) -> [EvidenceRow] {
        try session.retries.retrying(
            "reading pushsweep_evidence",
            do: rows(
                connection.query(
                    "SELECT \(Self.columns) FROM pushsweep_evidence\(Self.behind(id).sql) ORDER BY id "
                        + "LIMIT \(limit)", Self.behind(id).values)))
    }

    /// The condition of the rows behind a number; none from the first row on. No number stands for the first,
    /// because a row may have the least there is.
    static func behind(_ id: Int64?) -> BoundSQL {
        id.map { (" WHERE id > ?", [.integer($0)]) } ?? ("", [])
    }

    /// The most rows that are searched for tokens.
    package static let mostSearched = 20_000

    /// The rows that wait about given tokens, among the oldest `mostSearched`, at most `limit`, with
    /// whether others were not looked at. Tokens have any spelling, so each row is read.
    ///
    /// - Throws: any failure of a query.
    package func waiting(
        about tokens: Set<DeviceToken>, limit: Int
    ) throws(StoreFailure) -> (rows: [DeviceToken: [EvidenceRow]], isCut: Bool) {
        try session.retries.retrying("searching pushsweep_evidence") { () throws(SQLFailure) in
            var ids: [(id: SQLValue, token: DeviceToken)] = []
            var (last, searched) = (Int64?.none, 0)
            var isAtEnd = false
            while !isAtEnd, searched < Self.mostSearched, ids.count < limit {
                let page = try connection.query(
                    "SELECT id, device_token FROM pushsweep_evidence\(Self.behind(last).sql) ORDER BY id "
                        + "LIMIT 2000", Self.behind(last).values)
                for row in 0..<page.count {
                    last = page[row, 0].integer ?? last
                    guard let token = page[row, 1].spelledToken, tokens.contains(token) else {
                        continue
                    }
                    ids.append((page[row, 0], token))
                }
                searched += page.count
                isAtEnd = page.count < 2_000
            }
            var found: [DeviceToken: [EvidenceRow]] = [:]
            for (id, token) in ids.prefix(limit) {
                found[token, default: []] += try rows(
                    connection.query(
                        "SELECT \(Self.columns) FROM pushsweep_evidence WHERE id = ?", [id]))
            }
            return (found, !isAtEnd || ids.count > limit)
        }
    }

    func rows(_ found: SQLRows) throws(SQLFailure) -> [EvidenceRow] {
        try found.require(width: 9)
        return (0..<found.count).map { EvidenceRow(found.row($0), connection.dialect) }
    }
}
