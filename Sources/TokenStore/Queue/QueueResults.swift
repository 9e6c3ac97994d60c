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
    /// result, the first; what is no row of the claim is passed over. After a lost connection the claim's own row
    /// tells whether they are committed, so nothing is written twice.
    ///
    /// - Throws: any failure that outlasts the tries; the same results may be handed in again with
    ///   the same claim.
    package func record(
        _ results: [DeliveryResult], of claim: inout QueueClaim
    ) throws(StoreFailure) -> ResultsOutcome {
        var rest = claim.outstanding
        let results = results.filter { rest.remove($0.key) != nil }
        guard !results.isEmpty else { return .recorded(missing: 0) }
        let before = claim
        let isLast = rest.isEmpty
        let id = SQLValue.integer(claim.id)
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
            missing = results.count
            for (change, keys) in changes(results, now: record.now) {
                missing -= try statements.settle(
                    keys, of: before.id, as: change, now: record.now, connection)
            }
            // A claim that is done stays until the next transaction, for its commit may be the one
            // whose answer is lost.
            _ = try connection.execute(
                "UPDATE pushsweep_claim SET written = written + 1, state = ? WHERE id = ?",
                [.text((isLast ? ClaimRecord.State.done : record.state).rawValue), id])
            try removeFinishedClaims()
            try connection.commit()
            return .recorded(missing: missing)
        }
        guard case .recorded = outcome else { return outcome }
        finishedClaims = isLast ? [claim.id] : []
        claim.outstanding = rest
        claim.written += 1
        return outcome
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

    /// Results with the same consequence together, for they are one statement; in an order that does
    /// not change.
    private func changes(
        _ results: [DeliveryResult], now: EpochMilliseconds
    ) -> [(QueueStatements.Change, [Int64])] {
        var keys: [QueueStatements.Change: [Int64]] = [:]
        var order: [QueueStatements.Change] = []
        for result in results {
            let change = QueueStatements.Change(result.outcome, now: now)
            if keys[change] == nil { order.append(change) }
            keys[change, default: []].append(result.key)
        }
        return order.map { ($0, (keys[$0] ?? []).sorted()) }
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
