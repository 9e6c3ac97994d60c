// What is judged again becomes a new batch, so that its changes have a checkpoint and a ledger of their own: the table,
// the columns or the policy may be other ones now. The reports move, each is in one batch only, and the new batch is in
// `filling` until the last old one is done. A run that is killed leaves the rest in the old ones.
//
// Several batches may say something of one token. Its reports are numbered anew then, behind those that are there.

import APNsProtocol
import Database
import Findings
import TokenHygiene

extension Batches {
    /// Moves reports of a batch into another one, which is filled and made where it is not there yet: all of them for a
    /// replay, else those that found no row, which are judged under `mapping` from then on.
    ///
    /// - Returns: the number of reports moved.
    /// - Throws: any failure of the database.
    package func move(
        _ which: ReportFilter, of old: ReportBatch, to batch: ReportBatch,
        under mapping: String? = nil, lease: Lease?
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
                try move(which, size, from: old, to: batch, after: moved, mapping, lease)
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
        _ which: ReportFilter, _ size: Int, from old: ReportBatch, to batch: ReportBatch,
        after moved: Moved, _ mapping: String?, _ lease: Lease?
    ) throws(SQLFailure) -> ChunkOutcome<Moved> {
        try connection.begin()
        let row = BatchRow(connection: connection)
        guard try row.read(batch.id, locking: true)?.reports ?? 0 == moved.reports else {
            throw SQLFailure(
                kind: .conflict, code: 0, message: "the batch is not as this run left it")
        }
        let found = try connection.query(
            "SELECT token, state, MIN(number), MAX(number), COUNT(*) FROM pushsweep_report WHERE batch = \(ReportBatch.ofName) AND token >= ? "
                + "AND \(which.condition) GROUP BY token, state ORDER BY token, state LIMIT \(size)",
            [.text(old.id), moved.position])
        var next = moved
        next.isWhole = found.count < size
        if found.count > 0 {
            if try row.read(batch.id, locking: false) == nil {
                try row.insert(batch, 0, nil, isLast: false)
            }
            let counts = try renumber(found, from: old, to: batch)
            next.reports += counts.values.reduce(0, +)
            next.position = found[found.count - 1, 0]
            try take(counts, from: old, into: batch, which)
            try row.move(batch, to: next.reports, nil, isLast: false)
            if mapping != nil {
                try LedgerParts(connection: connection).inherit(from: old.id, into: batch.id)
            }
        }
        if next.isWhole, let mapping {
            try LedgerParts(connection: connection).note(mapping, of: old.id, by: batch.run)
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
                    "UPDATE pushsweep_report SET batch = \(ReportBatch.ofName), number = number + ?, state = 0, refusal = NULL, "
                        + "changed_at = evidence_at WHERE batch = \(ReportBatch.ofName) AND token IN (\(placeholders(padded.count))) "
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
                "SELECT token, MAX(number) FROM pushsweep_report WHERE batch = \(ReportBatch.ofName) AND token IN "
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

    /// Takes moved reports out of a batch. Of a replay its counts stay, since the ledger has changes of them; reports
    /// that changed nothing count where they are.
    private func take(
        _ counts: [ReportState: Int], from old: ReportBatch, into batch: ReportBatch,
        _ which: ReportFilter
    ) throws(SQLFailure) {
        func count(_ state: ReportState) -> SQLValue { .integer(Int64(counts[state] ?? 0)) }
        let all = SQLValue.integer(Int64(counts.values.reduce(0, +)))
        let (change, values) =
            which == .unmatched
            ? (
                "moved_to = ?, reports = reports - ?, unknown_tokens = unknown_tokens - ?, "
                    + "refused = refused - ?",
                [.text(batch.id), all, count(.unknown), count(.refused)]
            )
            : (
                // A replay names the batch by its origin.
                "removed = removed + ?, moved_to = COALESCE(?, moved_to)",
                [all, batch.origin == nil ? .text(batch.id) : .null]
            )
        _ = try connection.execute(
            "UPDATE pushsweep_batch SET \(change) WHERE name = ?",
            values + [.text(old.id)])
    }

    /// Lets a batch be judged into which reports have moved.
    ///
    /// - Throws: any failure of the database.
    package func closeMoved(_ batch: ReportBatch) throws(StoreFailure) {
        _ = try change(batch.id, to: .waiting, from: [.filling])
    }
}
