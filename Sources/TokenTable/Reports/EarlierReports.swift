// A mapping may be wrong for weeks: another value for an app, another spelling of tokens, another column. Each report
// then finds no row, or a row that seems to have registered later, and is decided, and changes nothing. Once the
// mapping is right, those reports are judged again, once for each terms. The terms are policy, table, columns and
// values, as a digest; each batch knows all under which its reports were judged.
//
//   applied batch, terms A: changed rows | changed nothing --the terms are B--> its reports of the second kind move
//   batch of the inlet `earlier`, filling --the last old batch is done--> waiting, and judged as any other, terms A B
//
// All that move have one batch for each source, so that the guard looks at them as a whole. A run that is killed
// leaves a batch with what has moved, which is judged, and the rest moves into another one. Reports that changed a
// row stay where the ledger finds them.

import APNsProtocol
import Database
import TokenHygiene

extension Batches {
    /// What became of reports that changed nothing, although other terms might have made them change something.
    private static let unchanged: [ReportState] = [.newer, .unknown, .refused]

    private static let isUnchanged =
        "state IN (\(unchanged.map { "\($0.rawValue)" }.joined(separator: ", ")))"

    /// The batches of an app of the settings whose reports were never judged under some terms and of which some
    /// changed nothing, in the order in which they were heard. An undo that came after an older batch may be gone
    /// from the ledger, so none older than the retention is among them.
    ///
    /// - Throws: any failure of a query.
    package func judged(
        neverUnder terms: String, about name: Partition
    ) throws(StoreFailure) -> [ReportBatch] {
        try read(
            "state = 'applied' AND app_name = ? AND environment = ? AND terms IS NOT NULL AND "
                + "terms NOT LIKE ? AND newer + unknown_tokens + refused > 0 AND trimmed < 2 AND "
                + "reports > removed AND opened_at > "
                + connection.dialect.now(adding: -Int(ReportRetention.days) * 86_400),
            [.text(name.app), .text(name.environment), .text("%\(terms)%")]
        ).filter { !$0.source.isSuspicion }
    }

    /// Moves those reports of a batch that changed nothing into another one, which is filled and made where it is
    /// not there yet, and notes that they are judged under `terms`. A run that is killed leaves the rest in the old one.
    ///
    /// - Returns: the number of reports moved.
    /// - Throws: any failure of the database.
    package func moveUnchanged(
        of old: ReportBatch, to batch: ReportBatch, under terms: String, lease: Lease?
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
                try move(size, from: old, to: batch, after: moved, terms, lease)
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
        _ terms: String, _ lease: Lease?
    ) throws(SQLFailure) -> ChunkOutcome<Moved> {
        try connection.begin()
        let row = BatchRow(connection: connection)
        guard try row.read(batch.id, locking: true)?.reports ?? 0 == moved.reports else {
            throw SQLFailure(
                kind: .conflict, code: 0, message: "the batch is not as this run left it")
        }
        let found = try connection.query(
            "SELECT token, state, MIN(number), MAX(number), COUNT(*) FROM pushsweep_report WHERE batch = ? AND token >= ? "
                + "AND \(Self.isUnchanged) GROUP BY token, state ORDER BY token, state LIMIT \(size)",
            [.text(old.id), moved.position])
        var next = moved
        next.isWhole = found.count < size
        if found.count > 0 {
            let counts = try renumber(found, from: old, to: batch)
            next.reports += counts.values.reduce(0, +)
            next.position = found[found.count - 1, 0]
            try take(counts, from: old)
            try row.add(next.reports - moved.reports, to: batch, isLast: false)
        }
        if next.isWhole {
            _ = try connection.execute(
                "UPDATE pushsweep_feed SET terms = ? WHERE feed = ? AND part = 0",
                [ReportBatch.stored(old.terms + [terms]), .text(old.id)])
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
            "UPDATE pushsweep_feed SET reports = reports - ?, newer = newer - ?, "
                + "unknown_tokens = unknown_tokens - ?, refused = refused - ? WHERE feed = ? AND part = 0",
            [
                .integer(Int64(counts.values.reduce(0, +))), count(.newer), count(.unknown),
                count(.refused), .text(old.id),
            ])
    }

    /// Lets a batch be judged into which reports have moved.
    ///
    /// - Throws: any failure of the database.
    package func closeMoved(_ batch: ReportBatch) throws(StoreFailure) {
        _ = try change(batch.id, to: .waiting, from: [.filling])
    }
}
