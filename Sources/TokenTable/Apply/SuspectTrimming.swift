import APNsProtocol
import Database
import Findings
import TokenHygiene

extension Suspects {
    /// Removes those of which nothing was heard for 30 days before `now`, which is of the database's clock, and
    /// those that no living row has any more. Where a row is depends on the mapping, so a suspect goes by that alone under
    /// which it was last called bad: `mappings` are the digests of this host, by the table's value of an app and the
    /// environment. Of all others only the old ones go. Writes down of those that stay when APNs called them dead, here or in the other environment: a 410 may come after the 400.
    ///
    /// - Throws: any failure of the database; what is removed stays removed.
    package func trim(
        at now: EpochMilliseconds, _ mappings: [Partition: String],
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
                    "SELECT \(Self.columns) FROM pushsweep_suspect WHERE token >= ? AND (token > ? "
                        + "OR app > ? OR app = ? AND environment > ?) ORDER BY token, app, environment "
                        + "LIMIT \(StatementShape.longest)",
                    [place[0], place[0], place[1], place[1], place[2]])
                let isFull = rows.count == StatementShape.longest
                return (
                    suspects(rows), isFull ? Array(rows.row(rows.count - 1).prefix(3)) : nil
                )
            }
            var gone = page.filter { $0.heard < old }
            var known: [(Partition, [BadToken])] = []
            for (partition, mapping) in mappings {
                let own = page.filter {
                    $0.partition == partition && $0.heard >= old && $0.mapping == mapping
                }
                let living = try living(own.map(\.token), in: partition)
                gone += own.filter { !living.contains($0.token) }
                known.append(
                    (partition, try self.known(own.filter { living.contains($0.token) }, partition))
                )
            }
            return try loop.commit(after: start, doing: doing, checkpointOf: "suspects") {
                (_) throws(SQLFailure) in
                try remove(gone, known, at: now, lease)
                return .committed(end, entries: page.count, bytes: 0)
            } checkpoint: {
                start
            }
        }
    }

    /// Those of some suspects that APNs has called dead here or in the other environment, as far as it is not written
    /// down.
    private func known(
        _ suspects: [Suspect], _ partition: Partition
    ) throws(StoreFailure) -> [BadToken] {
        guard !suspects.isEmpty else { return [] }
        let dead = try deaths(of: suspects, in: partition)
        let elsewhere = try deaths(of: suspects, in: partition.elsewhere)
        return suspects.compactMap { suspect in
            var known = BadToken(suspect)
            if let time = dead[suspect.token], suspect.accepted.map({ $0 < time }) ?? true {
                known.accepted = time
            }
            if let time = elsewhere[suspect.token],
                suspect.elsewhere.map({ !$0.isKnown || $0.time < time }) ?? true
            {
                known.elsewhere = Suspect.Elsewhere(answer: .unregistered, time: time)
            }
            return known.accepted == nil && known.elsewhere == nil ? nil : known
        }
    }

    /// When APNs last called tokens of suspects dead in an app, by the table's value, and environment, as far as reports
    /// and the ledger have it.
    ///
    /// - Throws: any failure of a query.
    package func deaths(
        of suspects: [Suspect], in partition: Partition?
    ) throws(StoreFailure) -> [DeviceToken: EpochMilliseconds] {
        guard let partition, !suspects.isEmpty else { return [:] }
        return try table.retries.retrying("looking for the deaths of suspects") {
            () throws(SQLFailure) in
            try Self.calledDead(suspects.map(\.token), partition, on: connection)
        }
    }

    private func remove(
        _ gone: [Suspect], _ known: [(Partition, [BadToken])], at now: EpochMilliseconds,
        _ lease: Lease?
    ) throws(SQLFailure) {
        try connection.begin()
        for (partition, tokens) in known {
            try Self.write(tokens, partition, at: now, on: connection)
        }
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

    /// When APNs last called tokens dead, as far as reports and the ledger have it: then it knew them.
    static func calledDead(
        _ tokens: [DeviceToken], _ partition: Partition, on connection: any SQLConnection
    ) throws(SQLFailure) -> [DeviceToken: EpochMilliseconds] {
        let padded = StatementShape.padded(tokens.map { SQLValue.bytes($0.bytes) })
        let sources = EvidenceSource.deaths.map { connection.dialect.literal($0.rawValue) }
            .joined(separator: ", ")
        let time = connection.dialect.ownTime("evidence_at")
        var known: [DeviceToken: EpochMilliseconds] = [:]
        for (tables, condition) in [
            (
                "pushsweep_report AS t JOIN pushsweep_batch AS f ON f.number = t.batch",
                "(f.state IN ('applying', 'applied') OR f.state = 'filling' AND t.state > 0)"
            ),
            (
                "pushsweep_change AS t JOIN pushsweep_part AS f ON f.number = t.part",
                "t.seq >= 0 AND t.action IN ('mark', 'advance', 'delete')"
            ),
        ] {
            let rows = try connection.query(
                "SELECT t.token, MAX(t.evidence_at) FROM \(tables) "
                    + "WHERE f.app = ? AND f.environment = ? AND f.source IN (\(sources)) "
                    + "AND \(condition) AND t.token IN (\(placeholders(padded.count))) GROUP BY t.token",
                [.text(partition.app), .text(partition.environment)] + padded)
            for row in 0..<rows.count {
                guard let token = rows.token(row, 0), let at = time.mark(rows[row, 1]) else {
                    continue
                }
                known[token] = max(known[token] ?? at, at)
            }
        }
        return known
    }
}
