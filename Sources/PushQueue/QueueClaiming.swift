// The transaction of a claim. A notification must not go to a token that was removed, and a row that is
// skipped is never sent. So everything that decides is read in the transaction of the claim itself, from
// its first statement: the time, the claims of others, the rows that are due, and what the token table
// says of each token. The results of skipped rows are committed with the claim.
//
// Behind a proxy that splits reads from writes this matters. Such a proxy may answer a SELECT outside a
// transaction from a replica that lags by seconds, where a new token is unknown and a removed one lives.
// It sends a transaction to the primary as a whole.
//
// A commit whose answer is lost may take effect later: on a server that waits for its replica, or on a node
// that is held up, while the sender already tries again over another connection. So all tries of a claim have
// one id. Where an earlier try is unclear, each later one first looks for that id:
//
//   unclear --the id is there--> the keys in it say which try it was: its rows are the claim
//           --the id is free--> the next try takes it, or nothing is due: an empty claim takes it
//
// The id is a primary key, so a server lets one wait for the other, and a cluster certifies one of them. What
// takes the id first is the claim, and an unclear try after that comes to nothing. Without the last step a
// claim could lock rows that no sender sends, as long as its run renews its leases.
//
// The reads of the token table lock nothing. A lock on a token's row would make its registration wait, and
// would not help: a row that is marked after the look is a row that is marked after the claim.

import APNsProtocol
import Database
import Findings
import TokenHygiene
import TokenTable

extension PushQueue {
    /// Claims the next rows of a partition that wait and are due, at most `limit`, and skips those
    /// whose token must not be sent to. Nil: no row is due, or `shouldStop` ended the tries after
    /// another sender was first. A claim without notifications had rows to skip only.
    ///
    /// - Throws: `busy`, `unreachable` and similar failures after the usual tries, but none because
    ///   others are first, as long as they make progress; `configuration` where a proxy splits
    ///   transactions. Rows of a committed claim return to the queue when its lease ends.
    package func claim(
        _ partition: Partition, limit: Int, from cursor: inout QueueCursor,
        shouldStop: () -> Bool = { false }
    ) throws(StoreFailure) -> Batch? {
        var attempt = ClaimAttempt(
            partition: partition, reader: try DueRowReader(layout, connection, partition),
            lookup: try lookup(of: partition), space: try apnsSpace(), limit: max(limit, 1),
            cursor: cursor, reached: cursor)
        guard let batch = try perform(&attempt, shouldStop) else { return nil }
        cursor = attempt.reached
        finishedClaims = batch.outstanding.isEmpty ? [batch.id] : []
        return batch
    }

    private func lookup(of partition: Partition) throws(StoreFailure) -> TokenStatusLookup {
        if let known = lookups[partition] { return known }
        let lookup = try store.tokenStatuses(in: partition)
        lookups[partition] = lookup
        return lookup
    }

    /// What a claim is tried with, and what its tries found out.
    private struct ClaimAttempt {
        let id = Int64.random(in: 1...Int64.max)
        let partition: Partition
        let reader: DueRowReader
        let lookup: TokenStatusLookup
        let space: Int64
        let limit: Int
        /// Where the claim begins to read.
        let cursor: QueueCursor
        /// Where the last try ended.
        var reached: QueueCursor
        /// The batches of tries whose commits had no answer, by the keys that their claims would have.
        var unclear: [[UInt8]: Batch] = [:]
    }

    /// Tries until a claim is committed or no row is due. A lost race is no failure: other senders
    /// have claimed rows meanwhile.
    private func perform(
        _ attempt: inout ClaimAttempt, _ shouldStop: () -> Bool
    ) throws(StoreFailure) -> Batch? {
        let doing = "claiming rows of \(name)"
        var race = ClaimRace(store.session.pacing)
        while true {
            var loss: SQLFailure?
            let claimed = try store.retries.retrying(doing) {
                () throws(SQLFailure) -> Batch? in
                loss = nil
                do throws(SQLFailure) {
                    return try claimRows(&attempt, &race)
                } catch {
                    guard error.kind == .conflict else { throw error }
                    connection.rollBack()
                    loss = error
                    return nil
                }
            }
            guard let loss else { return claimed }
            if shouldStop() { return nil }
            try race.lost(loss, doing: doing)
        }
    }

    /// One try, in one transaction.
    private func claimRows(
        _ attempt: inout ClaimAttempt, _ race: inout ClaimRace
    ) throws(SQLFailure) -> Batch? {
        try connection.begin()
        if let earlier = try committedEarlier(attempt) {
            connection.rollBack()
            return earlier
        }
        guard let guards = try ClaimGuards(of: name, space: attempt.space, connection) else {
            throw SQLFailure(
                kind: .other, code: 0,
                message: "rows of the queue in pushsweep_queue were deleted; run again")
        }
        race.look(guards)
        let others = try ClaimRecord.openClaims(of: name, connection)
        senders.note(others.runs, at: store.session.pacing.monotonic())
        attempt.reached = attempt.cursor
        let rows = try read(&attempt, except: others.keys, now: guards.now)
        guard !rows.isEmpty else {
            try exclude(&attempt, guards.now)
            return nil
        }
        let reasons = try attempt.lookup.skipReasons(of: rows.compactMap { $0.notification?.token })
        let batch = Batch(id: attempt.id, attempt.partition, rows, skipping: reasons)
        let keys = KeySet(sorted: rows.lazy.map(\.key))
        try guards.replace(ClaimGuards.guards(of: keys), by: attempt.id, connection)
        try insert(batch, guards.now)
        try commit(batch, of: &attempt)
        return batch
    }

    /// Commits a claim, and keeps its rows in mind where the answer is lost.
    private func commit(
        _ batch: Batch, of attempt: inout ClaimAttempt
    ) throws(SQLFailure) {
        do throws(SQLFailure) {
            try connection.commit()
        } catch {
            // A conflict has rolled it back.
            if error.kind != .conflict { attempt.unclear[batch.outstanding.encoded] = batch }
            throw error
        }
    }

    /// The rows of an earlier try whose commit took effect although its answer was lost.
    private func committedEarlier(_ attempt: ClaimAttempt) throws(SQLFailure) -> Batch? {
        guard !attempt.unclear.isEmpty else { return nil }
        let keys = try connection.query(
            "SELECT row_keys FROM pushsweep_claim WHERE id = ?", [.integer(attempt.id)])
        guard keys.count > 0, case .bytes(let encoded) = keys[0, 0] else { return nil }
        return attempt.unclear[encoded]
    }

    /// Ends a try that found nothing due. The id of unclear tries is taken by an empty claim, so that
    /// none of them can take effect afterwards.
    private func exclude(
        _ attempt: inout ClaimAttempt, _ now: EpochMilliseconds
    ) throws(SQLFailure) {
        guard !attempt.unclear.isEmpty else { return connection.rollBack() }
        let nothing = Batch(id: attempt.id, attempt.partition)
        try insert(nothing, now)
        try commit(nothing, of: &attempt)
        finishedClaims = [attempt.id]
    }

    /// The rows to claim: of this sender's share, or of the rest.
    private func read(
        _ attempt: inout ClaimAttempt, except claimed: KeySet, now: EpochMilliseconds
    ) throws(SQLFailure) -> [DueRow] {
        func read(
            _ limit: Int, _ share: ClaimShare?, after start: Int64
        ) throws(SQLFailure) -> (rows: [DueRow], position: Int64) {
            var position = start
            var found = DueRowReader.Found()
            while found.rows.isEmpty && !found.isAtEnd {
                found = try attempt.reader.read(
                    after: position, limit: limit, except: claimed, now: now,
                    space: attempt.space, share: share)
                position = found.last ?? position
            }
            return (found.rows, found.isAtEnd ? .min : position)
        }
        for place in attempt.cursor.places(senders.share) {
            var start = place.after
            if let share = place.yielding, let first = try read(1, nil, after: start).rows.first {
                start = share.yielded(first.key)
            }
            let found = try read(attempt.limit, place.share, after: start)
            attempt.reached.reach(found.position, place)
            if !found.rows.isEmpty { return found.rows }
        }
        return []
    }

    /// Writes the claim, and the results of its rows that are skipped.
    private func insert(
        _ batch: Batch, _ now: EpochMilliseconds
    ) throws(SQLFailure) {
        let state = batch.outstanding.isEmpty ? ClaimRecord.State.done : .held
        try insertClaim(batch.id, state, batch.outstanding, now)
        let groups = ResultGroups(batch.settled, of: batch.finished)
        _ = try write(groups, of: batch.finished, KeySet(), now: now)
        try removeFinishedClaims()
    }

    /// Inserts the row of a claim.
    ///
    /// - Throws: a conflict where another try has inserted it.
    func insertClaim(
        _ id: Int64, _ state: ClaimRecord.State, _ rows: KeySet, _ now: EpochMilliseconds
    ) throws(SQLFailure) {
        do throws(SQLFailure) {
            _ = try connection.execute(
                "INSERT INTO pushsweep_claim (id, queue, run, host, state, expires_at, row_keys) "
                    + "VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    .integer(id), .text(name), .text(lease.run),
                    .text(String(lease.host.prefix(255))), .text(state.rawValue), expiry(from: now),
                    .bytes(rows.encoded),
                ])
        } catch {
            guard error.isDuplicate else { throw error }
            throw SQLFailure(kind: .conflict, code: error.code, message: "the claim exists")
        }
    }
}
