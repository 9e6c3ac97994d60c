// APNs answers 400 where a token is none of the environment or of the topic. That is no death: the same device
// may be reached under the other environment, or with another certificate. So such reports never change a row.
// They make a token suspect, one row for each token that the table has, whatever comes: a wrong certificate
// makes every token bad, each hour.
//
// They come in batches like those of 410s, and each chunk moves its reports into the suspects:
//
//   waiting --begin--> applying --chunk: suspects written, reports removed--> applying --last--> applied
//
// The batch counts how many fitted a living row (`applied`), a dead one (`already`) and none (`unknown`). No
// guard is asked. A suspect is gone when its row is gone or dead, or 30 days after it was last heard of.
//
// A 200, or a 410, shows that the token is of this app and environment. A 400 after that blames our credentials or
// settings, one without it the token. So a suspect has the time of the last such answer: from 410s that the reports and
// the ledger have, and from 200s, of which those about suspects alone come here, as batches of their own. All other
// 200s are forgotten where they are read.
//
// An answer of the other environment about a suspect's token is kept with the suspect, whatever it says: where APNs knows
// the token there, the row is under the wrong environment.

import APNsProtocol
import Database
import Findings
import TokenHygiene

/// Moves the reports of one batch into `pushsweep_suspect`.
struct SuspectRun {
    private let application: BatchApplication
    private let table: TokenTable
    private let layout: TableLayout
    private let lookup: TokenStatusLookup
    private let checkpoint: BatchCheckpoint
    private let now: EpochMilliseconds

    private var connection: any SQLConnection { table.connection }

    init(_ application: BatchApplication, _ table: TokenTable) throws(StoreFailure) {
        (self.application, self.table) = (application, table)
        layout = try table.layout()
        lookup = try table.tokenStatuses(in: application.partition)
        checkpoint = BatchCheckpoint(batch: application.batch, connection: table.connection)
        now = try table.session.databaseTime()
    }

    /// Moves what is left, until `shouldStop` returns true after a chunk.
    func run(
        shouldStop: () -> Bool, report: (BatchProgress) -> Void
    ) throws(StoreFailure) -> BatchProgress {
        var loop = table.session.chunkLoop()
        let doing = "noting the suspects of batch \(application.batch)"
        return try loop.run(
            from: begin(doing), isDone: \.isApplied, shouldStop: shouldStop, report: report
        ) { (loop, progress) throws(StoreFailure) in
            try loop.commit(
                after: progress, doing: doing, checkpointOf: "batch \(application.batch)"
            ) { (size) throws(SQLFailure) in
                try commit(size, after: progress)
            } checkpoint: { () throws(SQLFailure) in
                try checkpoint.read(locking: false) ?? BatchProgress()
            }
        }
    }

    private func begin(_ doing: String) throws(StoreFailure) -> BatchProgress {
        var found: BatchState?
        let progress = try table.retries.retrying(doing) {
            () throws(SQLFailure) -> BatchProgress? in
            try connection.begin()
            found = try checkpoint.state(locking: true)
            guard found == .waiting || found == .applying || found == .applied else {
                connection.rollBack()
                return nil
            }
            if found == .waiting { try checkpoint.begin(application) }
            try application.lease?.renew(connection)
            let progress = try checkpoint.read(locking: false) ?? BatchProgress()
            try connection.commit()
            return progress
        }
        guard let progress else { throw .unfit(application.batch, found) }
        return progress
    }

    private func commit(
        _ size: Int, after progress: BatchProgress
    ) throws(SQLFailure) -> ChunkOutcome<BatchProgress> {
        try connection.begin()
        guard try checkpoint.read(locking: true) == progress else {
            throw SQLFailure(kind: .conflict, code: 0, message: "another run moved the batch")
        }
        let chunk = try page(after: progress.position, size)
        var next = progress
        for some in chunk.runs(of: StatementShape.longest) {
            let judged =
                application.source == .accepted ? try accepted(some) : try judged(some)
            next.counts += judged.counts
            try Suspects.write(
                judged.suspects, application.partition, at: now, on: connection)
            let answers = some.map {
                (
                    token: $0.token,
                    answer: Suspect.Elsewhere(answer: application.source, time: $0.last)
                )
            }
            try Suspects.note(
                answers, elsewhere: application.partition, at: now, on: connection)
        }
        if let first = chunk.first, let last = chunk.last {
            let reports = chunk.reduce(0) { $0 + $1.times }
            let removed = try connection.execute(
                "DELETE FROM pushsweep_report WHERE batch = \(ReportBatch.ofName) AND token BETWEEN ? AND ?",
                [.text(application.batch), .bytes(first.token.bytes), .bytes(last.token.bytes)])
            guard removed == reports else {
                throw SQLFailure(
                    kind: .conflict, code: 0,
                    message: "\(removed) reports were removed where \(reports) were read")
            }
            _ = try connection.execute(
                "UPDATE pushsweep_batch SET removed = removed + ? WHERE name = ?",
                [.integer(Int64(removed)), .text(application.batch)])
        }
        next.position = chunk.last?.token ?? progress.position
        next.isApplied = chunk.count < size
        try checkpoint.update(next, application)
        try application.lease?.renew(connection)
        try connection.commit()
        return .committed(next, entries: chunk.count, bytes: 0)
    }

    /// The next tokens of the batch.
    private func page(
        after position: DeviceToken?, _ size: Int
    ) throws(SQLFailure) -> [BadToken] {
        let time = connection.dialect.ownTime("evidence_at")
        let rows = try connection.query(
            "SELECT token, MIN(evidence_at), MAX(evidence_at), COUNT(*) FROM pushsweep_report WHERE batch = \(ReportBatch.ofName) "
                + "AND token > ? GROUP BY token ORDER BY token LIMIT \(size)",
            [.text(application.batch), .bytes(position?.bytes ?? [])])
        try rows.require(width: 4)
        return try (0..<rows.count).map { (row) throws(SQLFailure) in
            guard let token = rows.token(row, 0), let first = time.mark(rows[row, 1]),
                let last = time.mark(rows[row, 2])
            else { throw StoredReports.unreadable }
            return BadToken(
                token: token, reason: application.source.rawValue, first: first, last: last,
                times: rows[row, 3].count ?? 1, mapping: application.mapping)
        }
    }

    /// The tokens of a list that living rows have, and the counts of all.
    private func judged(
        _ list: ArraySlice<BadToken>
    ) throws(SQLFailure) -> (suspects: [BadToken], counts: Counts) {
        let statuses = try lookup.statuses(of: list.map(\.token))
        let known = try Suspects.calledDead(
            list.map(\.token), application.partition, on: connection)
        var (suspects, counts) = ([BadToken](), Counts())
        for var item in list {
            item.accepted = known[item.token]
            switch statuses[item.token] ?? .unknown {
            case .unknown: counts.unknown += item.times
            case .stale: counts.already += item.times
            case .living:
                counts.applied += item.times
                suspects.append(item)
            }
        }
        return (suspects, counts)
    }

    /// The suspects that a list of accepted tokens clears, as they are known, and the counts of all.
    private func accepted(
        _ list: ArraySlice<BadToken>
    ) throws(SQLFailure) -> (suspects: [BadToken], counts: Counts) {
        let known = try Suspects.locked(
            among: list.map(\.token), in: application.partition, on: connection)
        var (suspects, counts) = ([BadToken](), Counts())
        for item in list {
            guard let suspect = known[item.token] else {
                counts.unknown += item.times
                continue
            }
            counts.applied += item.times
            suspects.append(BadToken(suspect, accepted: item.last))
        }
        return (suspects, counts)
    }
}

extension TokenTable {
    /// Moves the reports of a batch that call tokens bad, or accept suspected ones, into `pushsweep_suspect`. The
    /// next call continues where one was stopped.
    ///
    /// - Throws: any failure; what is moved stays moved.
    package func noteSuspects(
        _ application: BatchApplication, shouldStop: () -> Bool = { false },
        report: (BatchProgress) -> Void = { _ in }
    ) throws(StoreFailure) -> BatchProgress {
        try SuspectRun(application, self).run(shouldStop: shouldStop, report: report)
    }
}
