// A mapping may be wrong for weeks: another value for an app, another spelling of tokens, another table. Each report
// then finds no row, or one that cannot be judged, and changes nothing. Once the mapping is right, those reports are
// judged again, once for each mapping. A mapping is table, columns and values, as a digest; each batch knows all
// under which its reports were judged.
//
//   applied batch, mapping A: changed rows, newer | unknown, refused --the mapping is B--> the second kind moves
//   batch of the inlet `earlier`, filling --the last old batch is done--> waiting, and judged as any other; A B
//
// A report that a later registration answered is not among them: a column for registrations that is exchanged by
// mistake would mark every device that ever came back. A policy makes no row findable, so it is no part of the digest.
// All that move have one batch for each source, so that the guard looks at them as a whole. A run that is killed
// leaves a batch with what has moved, which is judged, and the rest moves into another one.

import APNsProtocol
import Database
import Findings
import TokenHygiene

extension Batches {
    /// The batches of an app of the settings whose reports were never judged under a mapping and of which some
    /// found no row that they could change, in the order in which they were heard. An undo that came after an older batch may be gone
    /// from the ledger, so none older than the retention is among them.
    ///
    /// - Throws: any failure of a query.
    package func judged(
        neverUnder mapping: String, about name: Partition
    ) throws(StoreFailure) -> [ReportBatch] {
        try read(
            "state = 'applied' AND app_name = ? AND environment = ? AND mappings IS NOT NULL AND "
                + "unknown_tokens + refused > 0 AND trimmed < 2 AND reports > removed AND opened_at > "
                + connection.dialect.now(adding: -Int(ReportRetention.days) * 86_400),
            [.text(name.app), .text(name.environment)]
        ).filter { !$0.source.isSuspicion && $0.isNew(mapping) }
    }

    /// Moves those reports of a batch that found no row they could change into another one, which is filled and made
    /// where it is not there yet, and notes that they are judged under `mapping`. A run that is killed leaves the rest in the old one.
    ///
    /// - Returns: the number of reports moved.
    /// - Throws: any failure of the database.
    package func moveUnmatched(
        of old: ReportBatch, to batch: ReportBatch, under mapping: String, lease: Lease?
    ) throws(StoreFailure) -> Int {
        let doing = "moving reports of batch \(old.id), which are judged again"
        let row = BatchRow(connection: connection)
        let known = try session.retries.retrying(doing, do: row.read(batch.id, locking: false))
        let start = Moved(reports: known?.reports ?? 0)
        var loop = session.chunkLoop()
        return try loop.run(from: start, isDone: \.isWhole, shouldStop: { false }) {
            (loop, moved) throws(StoreFailure) in
            try loop.commit(after: moved, doing: doing, checkpointOf: "batch \(batch.id)") {
                (size) throws(SQLFailure) in
                try move(size, from: old, to: batch, after: moved, mapping, lease)
            } checkpoint: { () throws(SQLFailure) in
                let reports = try row.read(batch.id, locking: false)?.reports ?? 0
                return reports == moved.reports ? moved : Moved(reports: reports)
            }
        }.reports - start.reports
    }

    /// How many reports the new batch has, behind which token the next are looked for, and whether the old batch
    /// has none left.
    private struct Moved: Equatable {
        var reports: Int
        var position: SQLValue = .bytes([])
        var isWhole = false
    }

    private func move(
        _ size: Int, from old: ReportBatch, to batch: ReportBatch, after moved: Moved,
        _ mapping: String, _ lease: Lease?
    ) throws(SQLFailure) -> ChunkOutcome<Moved> {
        try connection.begin()
        let row = BatchRow(connection: connection)
        guard try row.read(batch.id, locking: true)?.reports ?? 0 == moved.reports else {
            throw SQLFailure(
                kind: .conflict, code: 0, message: "the batch is not as this run left it")
        }
        let found = try connection.query(
            "SELECT token, state, MIN(number), MAX(number), COUNT(*) FROM pushsweep_report WHERE batch = ? AND token >= ? "
                + "AND \(ReportFilter.unmatched.condition) GROUP BY token, state ORDER BY token, state LIMIT \(size)",
            [.text(old.id), moved.position])
        var next = moved
        next.isWhole = found.count < size
        if found.count > 0 {
            let counts = try renumber(found, from: old, to: batch)
            next.reports += counts.values.reduce(0, +)
            next.position = found[found.count - 1, 0]
            try take(counts, from: old)
            try row.add(next.reports - moved.reports, to: batch, isLast: false)
            _ = try connection.execute(
                "UPDATE pushsweep_feed SET moved_to = ? WHERE feed = ? AND part = 0",
                [.text(batch.id), .text(old.id)])
        }
        if next.isWhole {
            _ = try connection.execute(
                "UPDATE pushsweep_feed SET mappings = ? WHERE feed = ? AND part = 0",
                [ReportBatch.stored(old.mappings + [mapping]), .text(old.id)])
        }
        try lease?.renew(connection)
        try connection.commit()
        return .committed(next, entries: found.count, bytes: 0)
    }

    /// Moves the reports of tokens and states, with numbers behind those that the new batch has of the same token.
    ///
    /// - Returns: the number of reports by state.
    private func renumber(
        _ found: SQLRows, from old: ReportBatch, to batch: ReportBatch
    ) throws(SQLFailure) -> [ReportState: Int] {
        let tokens = (0..<found.count).map { found[$0, 0] }
        var taken = try numbers(of: tokens, in: batch)
        var steps: [[Int]: [SQLValue]] = [:]
        var counts: [ReportState: Int] = [:]
        for row in 0..<found.count {
            guard let token = found.token(row, 0), let state = found[row, 1].count,
                let known = ReportState(rawValue: state), let first = found[row, 2].count,
                let last = found[row, 3].count, let count = found[row, 4].count
            else { throw StoredReports.unreadable }
            let next = taken[token, default: 0]
            taken[token] = next + last - first + 1
            steps[[state, next - first], default: []].append(found[row, 0])
            counts[known, default: 0] += count
        }
        var moved = 0
        for (step, tokens) in steps {
            for some in tokens.runs(of: StatementShape.longest) {
                let padded = StatementShape.padded(some)
                moved += try connection.execute(
                    "UPDATE pushsweep_report SET batch = ?, number = number + ?, state = 0, refusal = NULL, "
                        + "decided_at = NULL WHERE batch = ? AND token IN (\(placeholders(padded.count))) "
                        + "AND state = ?",
                    [.text(batch.id), .integer(Int64(step[1])), .text(old.id)] + padded
                        + [.integer(Int64(step[0]))])
            }
        }
        guard moved == counts.values.reduce(0, +) else {
            throw SQLFailure(
                kind: .conflict, code: 0,
                message: "\(moved) reports of batch \(old.id) moved where others were read")
        }
        return counts
    }

    /// The next number of each token of which a batch has reports.
    private func numbers(
        of tokens: [SQLValue], in batch: ReportBatch
    ) throws(SQLFailure) -> [DeviceToken: Int] {
        var numbers: [DeviceToken: Int] = [:]
        for some in tokens.runs(of: StatementShape.longest) {
            let padded = StatementShape.padded(some)
            let found = try connection.query(
                "SELECT token, MAX(number) FROM pushsweep_report WHERE batch = ? AND token IN "
                    + "(\(placeholders(padded.count))) GROUP BY token", [.text(batch.id)] + padded)
            for row in 0..<found.count {
                guard let token = found.token(row, 0), let last = found[row, 1].count else {
                    throw StoredReports.unreadable
                }
                numbers[token] = last + 1
            }
        }
        return numbers
    }

    /// Takes moved reports out of the counts of a batch, so that each counts once.
    private func take(_ counts: [ReportState: Int], from old: ReportBatch) throws(SQLFailure) {
        func count(_ state: ReportState) -> SQLValue { .integer(Int64(counts[state] ?? 0)) }
        _ = try connection.execute(
            "UPDATE pushsweep_feed SET reports = reports - ?, unknown_tokens = unknown_tokens - ?, "
                + "refused = refused - ? WHERE feed = ? AND part = 0",
            [
                .integer(Int64(counts.values.reduce(0, +))), count(.unknown), count(.refused),
                .text(old.id),
            ])
    }

    /// Lets a batch be judged into which reports have moved.
    ///
    /// - Throws: any failure of the database.
    package func closeMoved(_ batch: ReportBatch) throws(StoreFailure) {
        _ = try change(batch.id, to: .waiting, from: [.filling])
    }
}

extension ReportBatch {
    /// Whether its reports were never judged under a mapping, and not under so many that somebody seems to change it
    /// each hour.
    fileprivate func isNew(_ mapping: String) -> Bool {
        !mappings.isEmpty && !mappings.contains(mapping) && mappings.count < Self.mostMappings
    }

    /// Whether a sweep judges reports again that found no row, under a mapping of today.
    package func isJudgedAgain(under mapping: String, at now: EpochMilliseconds) -> Bool {
        state == .applied && !source.isSuspicion && isNew(mapping)
            && now.distance(from: opened) < ReportRetention.days * 86_400_000
    }
}
