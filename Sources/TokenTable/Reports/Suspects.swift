import APNsProtocol
import Database
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
    /// How often APNs said so.
    package let times: Int
    /// When one of these reports was last heard, by the database's clock.
    fileprivate let heard: EpochMilliseconds
}

/// The suspects of one app, environment and reason.
package struct SuspectCount: Hashable, Sendable {
    package let partition: Partition
    package let reason: String
    package let tokens: Int
    package let first: EpochMilliseconds
    package let last: EpochMilliseconds
}

/// The suspects of a database.
package struct Suspects {
    /// Days for which a suspect is kept after a report about it was last heard.
    package static let days: Int64 = 30
    private static let columns =
        "token, app, environment, reason, first_at, last_at, times, changed_at"

    private let table: TokenTable
    private var connection: any SQLConnection { table.connection }

    /// The suspects in the database of a token table.
    package init(_ table: TokenTable) { self.table = table }

    /// Whether the account sees them.
    ///
    /// - Throws: any failure of a query.
    package func visibility() throws(StoreFailure) -> TableVisibility {
        try table.session.visibility(of: PushsweepTable.suspect.name, Self.columns)
    }

    /// How many there are by app, environment and reason.
    ///
    /// - Throws: any failure of a query.
    package func counts() throws(StoreFailure) -> [SuspectCount] {
        let time = connection.dialect.ownTime("last_at")
        return try table.retries.retrying("counting suspects") { () throws(SQLFailure) in
            let rows = try connection.query(
                "SELECT app, environment, reason, COUNT(*), MIN(first_at), MAX(last_at) FROM pushsweep_suspect "
                    + "GROUP BY app, environment, reason ORDER BY app, environment, reason")
            try rows.require(width: 6)
            return (0..<rows.count).compactMap { row in
                guard let first = time.mark(rows[row, 4]), let last = time.mark(rows[row, 5])
                else { return nil }
                return SuspectCount(
                    partition: rows.partition(row, 0), reason: rows.string(row, 2),
                    tokens: rows[row, 3].count ?? 0, first: first, last: last)
            }
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

    private func suspects(_ rows: SQLRows) -> [Suspect] {
        let time = connection.dialect.ownTime("last_at")
        return (0..<rows.count).compactMap { row in
            guard let token = rows.token(row, 0), let first = time.mark(rows[row, 4]),
                let last = time.mark(rows[row, 5]), let heard = time.mark(rows[row, 7])
            else { return nil }
            return Suspect(
                token: token, partition: rows.partition(row, 1), reason: rows.string(row, 3),
                first: first, last: last, times: rows[row, 6].count ?? 1, heard: heard)
        }
    }

    /// Notes tokens, each once, in their order, within the transaction that removes their reports. `now` is of the
    /// database's clock.
    static func write(
        _ suspects: [TokenEvidence], _ partition: Partition, _ source: EvidenceSource,
        at now: EpochMilliseconds, on connection: any SQLConnection
    ) throws(SQLFailure) {
        let time = connection.dialect.ownTime("last_at")
        // A row that is repeated to fill a list would count twice.
        let lengths = [StatementShape.longestLinear, 32, 8, 4, 2, 1]
        var rest = suspects[...]
        while let length = lengths.first(where: { $0 <= rest.count }) {
            let sql = connection.dialect.insertion(
                "pushsweep_suspect", key: ["token", "app", "environment"],
                columns: ["reason", "first_at", "last_at", "times", "changed_at"], rows: length
            ) { present, inserted, column in
                let isLater = "\(inserted("last_at")) >= \(present("last_at"))"
                let isEarlier = "\(inserted("first_at")) < \(present("first_at"))"
                return switch column {
                case "changed_at": inserted(column)
                case "times": "\(present(column)) + \(inserted(column))"
                case "first_at":
                    "CASE WHEN \(isEarlier) THEN \(inserted(column)) ELSE \(present(column)) END"
                default: "CASE WHEN \(isLater) THEN \(inserted(column)) ELSE \(present(column)) END"
                }
            }
            var values: [SQLValue] = []
            for item in rest.prefix(length) {
                values += [
                    .bytes(item.token.bytes), .text(partition.app), .text(partition.environment),
                    .text(source.rawValue), time.value(item.time), time.value(item.time),
                    .integer(Int64(item.statements)), time.value(now),
                ]
            }
            _ = try connection.execute(sql, values)
            rest = rest.dropFirst(length)
        }
    }
}

extension Suspects {
    /// Removes those of which nothing was heard for 30 days before `now`, which is of the database's clock, and
    /// those that no living row has any more. Of an app that is not among `partitions` only the old ones go.
    ///
    /// - Throws: any failure of the database; what is removed stays removed.
    package func trim(
        at now: EpochMilliseconds, _ partitions: some Collection<Partition>,
        lease: Lease? = nil, shouldStop: () -> Bool = { false }
    ) throws(StoreFailure) {
        let old = now.advanced(by: -Self.days * 86_400_000)
        var loop = table.session.chunkLoop()
        let doing = "removing suspects whose time is over"
        _ = try loop.run(
            from: [SQLValue]?.some([.bytes([]), .text(""), .text("")]), isDone: { $0 == nil },
            shouldStop: shouldStop
        ) { (loop, start) throws(StoreFailure) in
            let place = start ?? []
            let (page, end) = try table.retries.retrying(doing) { () throws(SQLFailure) in
                let rows = try connection.query(
                    "SELECT \(Self.columns) FROM pushsweep_suspect WHERE token > ? OR token = ? AND "
                        + "(app > ? OR app = ? AND environment > ?) ORDER BY token, app, environment "
                        + "LIMIT \(StatementShape.longest)",
                    [place[0], place[0], place[1], place[1], place[2]])
                let isFull = rows.count == StatementShape.longest
                return (
                    suspects(rows), isFull ? Array(rows.row(rows.count - 1).prefix(3)) : nil
                )
            }
            var gone = page.filter { $0.heard < old }
            for partition in partitions {
                let own = page.filter { $0.partition == partition && $0.heard >= old }
                let living = try living(own.map(\.token), in: partition)
                gone += own.filter { !living.contains($0.token) }
            }
            return try loop.commit(after: start, doing: doing, checkpointOf: "suspects") {
                (_) throws(SQLFailure) in
                try remove(gone, lease)
                return .committed(end, entries: page.count, bytes: 0)
            } checkpoint: {
                start
            }
        }
    }

    private func remove(_ gone: [Suspect], _ lease: Lease?) throws(SQLFailure) {
        try connection.begin()
        let time = connection.dialect.ownTime("last_at")
        for suspect in gone {
            // One that APNs called bad again meanwhile stays.
            _ = try connection.execute(
                "DELETE FROM pushsweep_suspect WHERE token = ? AND app = ? AND environment = ? AND changed_at = ?",
                [
                    .bytes(suspect.token.bytes), .text(suspect.partition.app),
                    .text(suspect.partition.environment), time.value(suspect.heard),
                ])
        }
        try lease?.renew(connection)
        try connection.commit()
    }

    /// The tokens that living rows of a partition have.
    private func living(
        _ tokens: [DeviceToken], in partition: Partition
    ) throws(StoreFailure) -> Set<DeviceToken> {
        guard !tokens.isEmpty else { return [] }
        let lookup = try table.tokenStatuses(in: partition)
        return try table.retries.retrying("looking for the rows of suspects") {
            () throws(SQLFailure) in
            Set(try lookup.statuses(of: tokens).filter { $0.value == .living }.keys)
        }
    }
}
