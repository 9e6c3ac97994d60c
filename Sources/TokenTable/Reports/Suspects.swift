import APNsProtocol
import Database
import Findings
import TokenHygiene

/// A token that APNs called bad and that a living row has.
package struct Suspect: Hashable, Sendable {
    package let token: DeviceToken
    /// The app, by the table's value, and the environment.
    package let partition: Partition
    /// The reason of the latest report.
    package let reason: String
    package let first: EpochMilliseconds
    package let last: EpochMilliseconds
    /// How often APNs said so, as far as it is known not to be the same answer.
    package let times: Int
    /// When APNs last accepted it or called it dead, as far as it was heard: then it is of this app and environment.
    package let accepted: EpochMilliseconds?
    /// Whether APNs accepted it after it had called it bad, so that nothing is left of the suspicion.
    package var isCleared: Bool { accepted.map { $0 > last } ?? false }
    /// What APNs last said of it in the other environment; nil where it was not asked there.
    package let elsewhere: Elsewhere?

    /// An answer about a token in the other environment.
    package struct Elsewhere: Hashable, Sendable {
        /// `accepted`, or what calls it dead or bad.
        package let answer: EvidenceSource
        package let time: EpochMilliseconds
        /// Whether APNs knows the token there, so that it belongs there.
        package var isKnown: Bool { !answer.isSuspicion }

        package init(answer: EvidenceSource, time: EpochMilliseconds) {
            (self.answer, self.time) = (answer, time)
        }
    }

    /// When one of these reports was last heard, by the database's clock.
    let heard: EpochMilliseconds
    /// The digest of the mapping under which it was last called bad; nil where nobody knows.
    let mapping: String?
}

/// What one batch says of a token that APNs called bad.
struct BadToken {
    let token: DeviceToken
    let reason: String
    let first: EpochMilliseconds
    let last: EpochMilliseconds
    /// Number of reports.
    let times: Int
    /// See `Suspect.accepted`.
    var accepted: EpochMilliseconds?
    /// See `Suspect.elsewhere`.
    var elsewhere: Suspect.Elsewhere?
    /// See `Suspect.mapping`.
    var mapping: String?
}

extension BadToken {
    /// What is known of a suspect, of which nothing counts again.
    init(
        _ suspect: Suspect, accepted: EpochMilliseconds? = nil,
        elsewhere: Suspect.Elsewhere? = nil
    ) {
        self.init(
            token: suspect.token, reason: suspect.reason, first: suspect.first, last: suspect.last,
            times: 0, accepted: accepted, elsewhere: elsewhere, mapping: suspect.mapping)
    }
}

/// The suspects of one app, environment and reason.
package struct SuspectCount: Hashable, Sendable {
    package let partition: Partition
    package let reason: String
    package let tokens: Int
    /// Those that APNs accepted or called dead before: their app and environment are right.
    package let accepted: Int
    /// Those that APNs knows in the other environment, and those that it calls bad there too.
    package let elsewhere: Int
    package let neither: Int
    package let first: EpochMilliseconds
    package let last: EpochMilliseconds
}

/// The suspects of a database.
package struct Suspects {
    /// Days for which a suspect is kept after a report about it was last heard.
    package static let days: Int64 = 30
    /// Days for which a suspect is news, for the gate before a send and for metrics.
    package static let recentDays: Int64 = 7
    static let columns =
        "token, app, environment, reason, first_at, last_at, times, changed_at, accepted_at, elsewhere, elsewhere_at, mapping"
    /// Whether nothing has cleared the suspicion. Where both times are one it is not known which came first.
    static let isOpen = "(accepted_at IS NULL OR accepted_at <= last_at)"

    let table: TokenTable
    var connection: any SQLConnection { table.connection }

    /// The suspects in the database of a token table.
    package init(_ table: TokenTable) { self.table = table }

    /// Whether there are any to decide by.
    ///
    /// - Throws: `permission` where the account may not read them, or nobody knows whether they are there; any other
    ///   failure of a query.
    package func decides() throws(StoreFailure) -> Bool {
        try table.session.decides(
            by: .suspect, Self.columns, to: "looking for tokens that APNs called bad")
    }

    /// Whether the account sees them.
    ///
    /// - Throws: any failure of a query.
    package func visibility() throws(StoreFailure) -> TableVisibility {
        try table.session.visibility(of: PushsweepTable.suspect.name, Self.columns)
    }

    /// How many there are by app, environment and reason, of those of which something new was heard since a time of the
    /// database's clock.
    ///
    /// - Throws: any failure of a query.
    package func counts(
        since: EpochMilliseconds = EpochMilliseconds(0)
    ) throws(StoreFailure) -> [SuspectCount] {
        let time = connection.dialect.ownTime("last_at")
        // Of a token that APNs knew here too, nothing follows from the other environment.
        func elsewhere(_ condition: String) -> String {
            "SUM(CASE WHEN accepted_at IS NULL AND elsewhere \(condition) THEN 1 ELSE 0 END)"
        }
        let bad = Self.bad(connection.dialect)
        return try table.retries.retrying("counting suspects") { () throws(SQLFailure) in
            let rows = try connection.query(
                "SELECT app, environment, reason, COUNT(*), MIN(first_at), MAX(last_at), COUNT(accepted_at), "
                    + "\(elsewhere("NOT IN (\(bad))")), \(elsewhere("IN (\(bad))")) "
                    + "FROM pushsweep_suspect WHERE \(Self.isOpen) AND changed_at >= ? "
                    + "GROUP BY app, environment, reason ORDER BY app, environment, reason",
                [time.value(since)])
            try rows.require(width: 9)
            return (0..<rows.count).compactMap { row in
                guard let first = time.mark(rows[row, 4]), let last = time.mark(rows[row, 5])
                else { return nil }
                return SuspectCount(
                    partition: rows.partition(row, 0), reason: rows.string(row, 2),
                    tokens: rows[row, 3].count ?? 0, accepted: rows[row, 6].count ?? 0,
                    elsewhere: rows[row, 7].count ?? 0, neither: rows[row, 8].count ?? 0,
                    first: first, last: last)
            }
        }
    }

    /// Whether there are any.
    ///
    /// - Throws: any failure of the query.
    package func isEmpty() throws(StoreFailure) -> Bool {
        try table.retries.retrying("looking for suspects") { () throws(SQLFailure) in
            try connection.query("SELECT 1 FROM pushsweep_suspect LIMIT 1").count == 0
        }
    }

    /// Those among given tokens that are suspected of an app, by the table's value, and environment, and of which
    /// something new was heard since a time of the database's clock; with `neverKnown` only those that APNs neither
    /// accepted nor called dead before.
    ///
    /// - Throws: any failure of a query.
    package func open(
        among tokens: [DeviceToken], of partition: Partition,
        since: EpochMilliseconds = EpochMilliseconds(0), neverKnown: Bool = false
    ) throws(StoreFailure) -> Set<DeviceToken> {
        let found = try among(Set(tokens).sorted()).filter {
            $0.partition == partition && !$0.isCleared
                && $0.heard >= since
                && !(neverKnown && $0.accepted != nil)
        }
        return Set(found.map(\.token))
    }

    /// Those behind a token of an app, by the table's value, and environment, cleared ones too, in the order of tokens; empty
    /// at the end.
    ///
    /// - Throws: any failure of a query.
    package func page(
        of partition: Partition, after token: DeviceToken?
    ) throws(StoreFailure) -> [Suspect] {
        try table.retries.retrying("reading suspects") { () throws(SQLFailure) in
            let rows = try connection.query(
                "SELECT \(Self.columns) FROM pushsweep_suspect WHERE token > ? AND app = ? AND environment = ? "
                    + "ORDER BY token LIMIT \(StatementShape.longest)",
                [.bytes(token?.bytes ?? []), .text(partition.app), .text(partition.environment)])
            return suspects(rows)
        }
    }

    /// Those among given tokens, in the order of token, app and environment.
    ///
    /// - Throws: any failure of a query.
    package func among(_ tokens: [DeviceToken]) throws(StoreFailure) -> [Suspect] {
        try table.retries.retrying("looking for suspects") { () throws(SQLFailure) in
            var found: [Suspect] = []
            for some in tokens.runs(of: StatementShape.longest) {
                let padded = StatementShape.padded(some.map { SQLValue.bytes($0.bytes) })
                let rows = try connection.query(
                    "SELECT \(Self.columns) FROM pushsweep_suspect WHERE token IN "
                        + "(\(placeholders(padded.count))) ORDER BY token, app, environment", padded
                )
                found += suspects(rows)
            }
            return found
        }
    }

    /// Those among tokens, which are in order, that are suspected under any app.
    package static func known(
        among tokens: [DeviceToken], on connection: any SQLConnection
    ) throws(SQLFailure) -> Set<DeviceToken> {
        var found: Set<DeviceToken> = []
        for some in tokens.runs(of: StatementShape.longest) {
            let padded = StatementShape.padded(some.map { SQLValue.bytes($0.bytes) })
            let rows = try connection.query(
                "SELECT token FROM pushsweep_suspect WHERE token IN (\(placeholders(padded.count)))",
                padded)
            for row in 0..<rows.count { if let token = rows.token(row, 0) { found.insert(token) } }
        }
        return found
    }

    /// Those among tokens that are suspected in an app, by the table's value, and environment, locked.
    static func locked(
        among tokens: [DeviceToken], in partition: Partition, on connection: any SQLConnection
    ) throws(SQLFailure) -> [DeviceToken: Suspect] {
        let padded = StatementShape.padded(tokens.map { SQLValue.bytes($0.bytes) })
        let rows = try connection.query(
            "SELECT \(columns) FROM pushsweep_suspect WHERE app = ? AND environment = ? AND token IN "
                + "(\(placeholders(padded.count)))\(connection.dialect.rowLock)",
            [.text(partition.app), .text(partition.environment)] + padded)
        return Dictionary(
            suspects(rows, connection.dialect).map { ($0.token, $0) }, uniquingKeysWith: { $1 })
    }

    /// Notes answers of one environment, in the order of tokens and each once, beside those of the tokens that are
    /// suspected in the other one, within a transaction. An answer that is earlier than the one known changes nothing.
    static func note(
        _ answers: [(token: DeviceToken, answer: Suspect.Elsewhere)],
        elsewhere partition: Partition,
        at now: EpochMilliseconds, on connection: any SQLConnection
    ) throws(SQLFailure) {
        guard let home = partition.elsewhere else { return }
        let known = try locked(among: answers.map(\.token), in: home, on: connection)
        guard !known.isEmpty else { return }
        try write(
            answers.compactMap { token, answer in
                known[token].map { BadToken($0, elsewhere: answer) }
            }, home, at: now, on: connection)
    }

    func suspects(_ rows: SQLRows) -> [Suspect] {
        Self.suspects(rows, connection.dialect)
    }

    static func suspects(_ rows: SQLRows, _ dialect: SQLDialect) -> [Suspect] {
        let time = dialect.ownTime("last_at")
        return (0..<rows.count).compactMap { row in
            guard let token = rows.token(row, 0), let first = time.mark(rows[row, 4]),
                let last = time.mark(rows[row, 5]), let heard = time.mark(rows[row, 7])
            else { return nil }
            return Suspect(
                token: token, partition: rows.partition(row, 1), reason: rows.string(row, 3),
                first: first, last: last, times: rows[row, 6].count ?? 1,
                accepted: time.mark(rows[row, 8]), elsewhere: elsewhere(rows, row, time),
                heard: heard, mapping: rows[row, 11].text)
        }
    }

    private static func elsewhere(
        _ rows: SQLRows, _ row: Int, _ time: TimeColumn
    ) -> Suspect.Elsewhere? {
        guard let word = rows[row, 9].text, let answer = EvidenceSource(rawValue: word),
            let at = time.mark(rows[row, 10])
        else { return nil }
        return Suspect.Elsewhere(answer: answer, time: at)
    }

    /// Notes tokens, each once, in their order, within the transaction that removes their reports. `now` is of the
    /// database's clock. A report that is no later than the last one known counts no second time and keeps nothing
    /// alive: a sender may report all its failures again, each hour.
    static func write(
        _ suspects: [BadToken], _ partition: Partition, at now: EpochMilliseconds,
        on connection: any SQLConnection
    ) throws(SQLFailure) {
        let time = connection.dialect.ownTime("last_at")
        // A row that is repeated to fill a list would count twice.
        let lengths = [StatementShape.longestLinear, 32, 8, 4, 2, 1]
        var rest = suspects[...]
        while let length = lengths.first(where: { $0 <= rest.count }) {
            let sql = connection.dialect.insertion(
                "pushsweep_suspect", key: ["token", "app", "environment"],
                columns: [
                    "reason", "first_at", "times", "changed_at", "accepted_at", "elsewhere_at",
                    "elsewhere", "mapping", "last_at",
                ],
                rows: length
            ) { present, inserted, column in
                let isLater = "\(inserted("last_at")) > \(present("last_at"))"
                let isEarlier = "\(inserted("first_at")) < \(present("first_at"))"
                return switch column {
                case "times":
                    "\(present(column)) + CASE WHEN \(isLater) THEN \(inserted(column)) ELSE 0 END"
                case "first_at":
                    "CASE WHEN \(isEarlier) THEN \(inserted(column)) ELSE \(present(column)) END"
                case "elsewhere", "elsewhere_at":
                    "CASE WHEN \(Self.isNewsElsewhere(present, inserted, connection.dialect)) "
                        + "THEN \(inserted(column)) ELSE \(present(column)) END"
                case "accepted_at":
                    "CASE WHEN \(present(column)) IS NULL OR \(inserted(column)) > \(present(column)) "
                        + "THEN \(inserted(column)) ELSE \(present(column)) END"
                default: "CASE WHEN \(isLater) THEN \(inserted(column)) ELSE \(present(column)) END"
                }
            }
            var values: [SQLValue] = []
            for item in rest.prefix(length) {
                values += [
                    .bytes(item.token.bytes), .text(partition.app), .text(partition.environment),
                    .text(item.reason), time.value(item.first), .integer(Int64(item.times)),
                    time.value(now), item.accepted.map { time.value($0) } ?? .null,
                    item.elsewhere.map { time.value($0.time) } ?? .null,
                    item.elsewhere.map { .text($0.answer.rawValue) } ?? .null,
                    item.mapping.map { .text($0) } ?? .null, time.value(item.last),
                ]
            }
            _ = try connection.execute(sql, values)
            rest = rest.dropFirst(length)
        }
    }

    /// Whether an answer of the other environment takes the place of the one that is there. A token is of one environment
    /// for ever, so an answer that knows it goes before one that calls it bad, whatever the times: that may have come
    /// from a wrong gateway. Of two of a kind the later one counts. It reads so before and after the time is set, which
    /// a server does first.
    private static func isNewsElsewhere(
        _ present: (String) -> String, _ inserted: (String) -> String, _ dialect: SQLDialect
    ) -> String {
        let (known, new) = (present("elsewhere"), inserted("elsewhere"))
        let isLater = "\(present("elsewhere_at")) <= \(inserted("elsewhere_at"))"
        let bad = "(\(bad(dialect)))"
        return
            "\(new) IS NOT NULL AND (\(known) IS NULL OR \(new) NOT IN \(bad) AND (\(known) IN \(bad) OR \(isLater)) "
            + "OR \(new) IN \(bad) AND \(known) IN \(bad) AND \(isLater))"
    }

    /// What calls a token bad, as a list in SQL.
    private static func bad(_ dialect: SQLDialect) -> String {
        EvidenceSource.allCases.filter(\.isSuspicion).map { dialect.literal($0.rawValue) }
            .joined(separator: ", ")
    }
}
