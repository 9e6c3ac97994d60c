import TokenHygiene

extension PushQueue {
    /// Writes down that a batch is about to be handed to the wire, and renews its lease. False: the
    /// lease had ended and others have the rows, so nothing of it may be sent.
    ///
    /// - Throws: any failure; then nothing of the batch may be sent either.
    package func handOver(_ claim: QueueClaim) throws(StoreFailure) -> Bool {
        try store.attempts.retrying("handing over rows of \(name)") { () throws(SQLFailure) in
            try connection.begin()
            guard let record = try ClaimRecord.lock(claim.id, connection), record.state.isOpen
            else {
                connection.rollBack()
                return false
            }
            let expiry = dialect.ownTime("expires_at")
                .value(record.now.adding(seconds: lease.seconds))
            _ = try connection.execute(
                "UPDATE pushsweep_claim SET state = 'handed', expires_at = ? WHERE id = ?",
                [expiry, .integer(claim.id)])
            try connection.commit()
            return true
        }
    }

    /// Prolongs the leases of all claims of this run, however many batches they are. To be called
    /// well before `QueueLease.seconds` are over, by any thread with a queue of its own.
    package func renewLeases() throws(StoreFailure) {
        try store.attempts.retrying("renewing the leases of run \(lease.run)") {
            () throws(SQLFailure) in
            let rows = try connection.query("SELECT \(dialect.now)")
            let expiry = dialect.ownTime("expires_at")
                .value(try dialect.instant(rows[0, 0]).adding(seconds: lease.seconds))
            _ = try connection.execute(
                "UPDATE pushsweep_claim SET expires_at = ? WHERE run = ? AND state IN ('held', 'handed')",
                [expiry, .text(lease.run)])
        }
    }

    /// Writes results of a claim down, all of them or none, in one transaction. Each row takes one
    /// result, the first; what is no row of the claim is passed over. After a lost connection the
    /// claim's own row tells whether they are committed, so nothing is written twice.
    ///
    /// - Throws: any failure that outlasts the tries; the same results may be handed in again with
    ///   the same claim.
    package func record(
        _ results: [DeliveryResult], of claim: inout QueueClaim
    ) throws(StoreFailure) -> ResultsOutcome {
        let groups = ResultGroups(results, of: claim.outstanding)
        guard !groups.all.isEmpty else { return .recorded(missing: 0) }
        let before = claim
        var after = claim
        after.outstanding = before.outstanding.subtracting(groups.all)
        after.written += 1
        let state = after.outstanding.isEmpty ? ClaimRecord.State.done : nil
        let rest = SQLValue.bytes(after.outstanding.encoded)
        var missing = 0
        let outcome = try store.attempts.retrying("writing results to \(name)") {
            () throws(SQLFailure) -> ResultsOutcome in
            try connection.begin()
            guard let record = try ClaimRecord.lock(before.id, connection), record.state != .taken
            else {
                connection.rollBack()
                return .leaseLost
            }
            guard record.written == before.written else {
                // Committed before, by a transaction whose answer was lost.
                connection.rollBack()
                return .recorded(missing: missing)
            }
            (missing, after.finished) = try settle(groups, before.finished, now: record.now)
            // A claim that is done stays until the next transaction, for its commit may be the one
            // whose answer is lost.
            _ = try connection.execute(
                "UPDATE pushsweep_claim SET written = written + 1, state = ?, row_keys = ? "
                    + "WHERE id = ?",
                [.text((state ?? record.state).rawValue), rest, .integer(before.id)])
            try removeFinishedClaims()
            try connection.commit()
            return .recorded(missing: missing)
        }
        guard case .recorded = outcome else { return outcome }
        finishedClaims = state == .done ? [claim.id] : []
        claim = after
        return outcome
    }

    /// Writes the results; gives how many rows there were no more, and the rows that have a final
    /// result now.
    private func settle(
        _ groups: ResultGroups, _ finished: KeySet, now: EpochMilliseconds
    ) throws(SQLFailure) -> (missing: Int, finished: KeySet) {
        var finished = finished
        var missing = 0
        for group in groups.groups {
            // A row that goes back was never written.
            guard group.outcome != .returned else { continue }
            let change = QueueStatements.Change(group.outcome, now: now)
            missing +=
                try group.keys.count
                - statements.settle(
                    group.keys, as: change, finished: finished, now: now, connection)
            if change.state.isFinal { finished = finished.union(group.keys) }
        }
        return (missing, finished)
    }

    private func removeFinishedClaims() throws(SQLFailure) {
        for id in finishedClaims {
            _ = try connection.execute(
                "DELETE FROM pushsweep_claim WHERE id = ?", [.integer(id)])
        }
    }

    /// Lets go of all rows of a claim that have no result yet and were not handed to the wire, so
    /// that anybody may claim them at once.
    package func giveBack(
        _ keys: [Int64], of claim: inout QueueClaim
    ) throws(StoreFailure) -> ResultsOutcome {
        try record(keys.map { DeliveryResult(key: $0, .returned) }, of: &claim)
    }
}

/// Results with the same consequence together, for they are one statement.
struct ResultGroups {
    /// The groups, the largest last: others are out of its way then.
    private(set) var groups: [(outcome: DeliveryResult.Outcome, keys: KeySet)] = []
    /// The keys of all.
    let all: KeySet

    /// Sorts results of rows in a set; the first of each row counts.
    init(_ results: [DeliveryResult], of rows: KeySet) {
        let ordered = results.indices.sorted {
            (results[$0].key, $0) < (results[$1].key, $1)
        }
        var places: [DeliveryResult.Outcome: Int] = [:]
        var keys: [[Int64]] = []
        var accepted: [Int64] = []
        accepted.reserveCapacity(results.count)
        var last: (outcome: DeliveryResult.Outcome, place: Int)?
        for index in ordered {
            let result = results[index]
            guard accepted.last != result.key, rows.contains(result.key) else { continue }
            accepted.append(result.key)
            let place: Int
            if let last, last.outcome == result.outcome {
                place = last.place
            } else if let known = places[result.outcome] {
                place = known
            } else {
                place = keys.count
                places[result.outcome] = place
                groups.append((result.outcome, KeySet()))
                keys.append([])
            }
            last = (result.outcome, place)
            keys[place].append(result.key)
        }
        all = KeySet(sorted: accepted)
        for place in groups.indices { groups[place].keys = KeySet(sorted: keys[place]) }
        groups.sort {
            ($0.keys.count, $0.keys.runs[0].lowerBound) < (
                $1.keys.count, $1.keys.runs[0].lowerBound
            )
        }
    }
}

extension QueueStatements.Change {
    init(_ outcome: DeliveryResult.Outcome, now: EpochMilliseconds) {
        switch outcome {
        case .sent: self.init(state: .sent, isAttempt: true)
        case .gone(let reason): self.init(state: .gone, reason: reason, isAttempt: true)
        case .failed(let reason): self.init(state: .failed, reason: reason, isAttempt: true)
        case .unknown(let reason): self.init(state: .unknown, reason: reason, isAttempt: true)
        case .retry(let seconds, let reason):
            self.init(
                state: .retry, reason: reason, notBefore: now.adding(seconds: max(seconds, 0)),
                isAttempt: true)
        case .skipped(let reason): self.init(state: .skipped, reason: reason.rawValue)
        case .returned: self.init(state: .pending)
        }
    }
}
