// A person who discards a batch says no to each of its tokens. So a discard has two steps: one statement takes the
// batch out of everybody's reach, and chunks of a transaction each note its tokens (see `SparedTokens`):
//
//   held or waiting --one UPDATE--> discarding, since asked_at --chunk--> last_token --last chunk--> discarded
//
// All tokens are noted with the time of the first step, whenever the last of them is. Whoever is killed between two
// chunks leaves the rest to the next run, which completes such batches before it judges.

import APNsProtocol
import Database
import Encodings
import Findings
import TokenHygiene

extension Batches {
    /// Discards a batch that is in a state, with the reason in a person's words; false where it is in another one,
    /// or another run has discarded it. From then on it belongs to the run that did. One in `filling` is discarded
    /// only while the database has no report of it.
    ///
    /// - Throws: any failure of the database. Then nobody judges the batch any more if it is `discarding`, and the next
    ///   run completes it.
    package func discard(
        _ id: String, in state: BatchState = .held, because reason: String, run: String
    ) throws(StoreFailure) -> Bool {
        let isTaken = try session.retries.retrying("changing batch \(id)") {
            () throws(SQLFailure) in
            try connection.begin()
            let changed = try connection.execute(
                "UPDATE pushsweep_batch SET state = ?, run = ?, asked_at = "
                    + "\(connection.dialect.now), last_token = NULL, changed_at = \(connection.dialect.now) "
                    + "WHERE name = ? AND state = ? AND (state <> 'filling' OR reports = 0)",
                [
                    .text(BatchState.discarding.rawValue), .text(run), .text(id),
                    .text(state.rawValue),
                ])
            if changed > 0 {
                try HoldRow(connection: connection).set(
                    "decision = ?", [.text(reason.cut)], of: id)
                try connection.commit()
                return true
            }
            connection.rollBack()
            // The answer to an earlier try may have been lost.
            let found = try connection.query(
                "SELECT 1 FROM pushsweep_batch WHERE name = ? AND state IN ('discarding', "
                    + "'discarded') AND run = ?", [.text(id), .text(run)])
            return found.count > 0
        }
        if isTaken { try completeDiscard(of: id) }
        return isTaken
    }

    /// Completes what somebody began to discard.
    ///
    /// - Throws: any failure of the database; what is noted stays noted.
    package func completeDiscards(lease: Lease? = nil) throws(StoreFailure) {
        for batch in try all(.discarding) { try completeDiscard(of: batch.id, lease) }
    }

    /// How far the tokens of a batch are noted.
    private struct Noted: Equatable {
        var position: DeviceToken?
        var isWhole: Bool
    }

    private func completeDiscard(of id: String, _ lease: Lease? = nil) throws(StoreFailure) {
        let doing = "noting what was discarded with batch \(id)"
        var loop = session.chunkLoop()
        let start = try session.retries.retrying(doing, do: noted(of: id, locking: false))
        _ = try loop.run(from: start, isDone: \.isWhole, shouldStop: { false }) {
            (loop, start) throws(StoreFailure) in
            try loop.commit(after: start, doing: doing, checkpointOf: "batch \(id)") {
                (size) throws(SQLFailure) in
                try note(size, of: id, after: start, lease)
            } checkpoint: { () throws(SQLFailure) in
                try noted(of: id, locking: false)
            }
        }
    }

    private func noted(of id: String, locking: Bool) throws(SQLFailure) -> Noted {
        let found = try BatchRow(connection: connection).read(id, locking: locking)
        return Noted(position: found?.last, isWhole: found?.state != .discarding)
    }

    private func note(
        _ size: Int, of id: String, after start: Noted, _ lease: Lease?
    ) throws(SQLFailure) -> ChunkOutcome<Noted> {
        try connection.begin()
        guard try noted(of: id, locking: true) == start,
            let batch = try ReportBatch.named(id, connection)
        else {
            throw SQLFailure(
                kind: .conflict, code: 0, message: "the batch is not as this run left it")
        }
        let page = try StoredReports.page(
            of: id, after: start.position, limit: size, on: connection)
        if EvidenceSource.ofMarks.contains(batch.source) || batch.source == .grace,
            let asked = batch.asked
        {
            let notes = page.map {
                SparingNotes.Note(token: $0.token, partition: batch.partition, until: $0.time)
            }
            let writer = SparingNotes(connection: connection, run: batch.run)
            try writer.add(notes, .discarded, at: asked)
            // Rows that were due stay, as those that an undo brings back.
            if batch.source == .grace { try writer.add(notes, .undid, at: asked) }
        }
        let next = Noted(
            position: page.last?.token ?? start.position, isWhole: page.count < size)
        _ = try connection.execute(
            "UPDATE pushsweep_batch SET state = ?, last_token = ?, changed_at = \(connection.dialect.now) "
                + "WHERE name = ?",
            [
                .text((next.isWhole ? BatchState.discarded : .discarding).rawValue),
                next.isWhole ? .null : next.position.map { .bytes($0.bytes) } ?? .null, .text(id),
            ])
        try lease?.renew(connection)
        try connection.commit()
        return .committed(next, entries: page.count, bytes: 0)
    }
}

extension String {
    /// What fits into the column of a cause.
    var cut: String { String(String.UnicodeScalarView(unicodeScalars.prefix(1_024))) }
}
