import APNsProtocol
import Database
import TokenHygiene
import TokenTable

extension PushQueue {
    /// Records that a batch is about to be handed to the wire, and renews its lease. False: the
    /// lease had ended and other senders have the rows, so no row of the batch may be sent.
    ///
    /// - Throws: any failure; then no row of the batch may be sent either.
    package func handOver(_ claim: QueueClaim) throws(StoreFailure) -> Bool {
        try store.retries.retrying("handing over rows of \(name)") { () throws(SQLFailure) in
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

    /// Renews the leases of all claims of this run by one UPDATE. To be called well before
    /// `QueueLease.seconds` have passed, by any thread with its own queue.
    package func renewLeases() throws(StoreFailure) {
        try store.retries.retrying("renewing the leases of run \(lease.run)") {
            () throws(SQLFailure) in
            try connection.begin()
            let rows = try connection.query("SELECT \(dialect.now)")
            let expiry = dialect.ownTime("expires_at")
                .value(try dialect.instant(rows[0, 0]).adding(seconds: lease.seconds))
            _ = try connection.execute(
                "UPDATE pushsweep_claim SET expires_at = ? WHERE run = ? AND state IN ('held', 'handed')",
                [expiry, .text(lease.run)])
            try connection.commit()
        }
    }

    /// Writes results of a claim, all of them or none, in one transaction. Each row takes its first
    /// result; results of rows outside the claim are ignored. The claim's own row lists the rows
    /// without a result. So after a commit whose answer was lost no result is written twice, by
    /// this call or by a later one with the same results and more.
    ///
    /// - Throws: any failure that outlasts the tries; the same results may be passed again with the
    ///   same claim.
    package func record(
        _ results: [DeliveryResult], of claim: inout QueueClaim
    ) throws(StoreFailure) -> ResultsOutcome {
        let groups = ResultGroups(results, of: claim.outstanding)
        guard !groups.all.isEmpty else { return .recorded(missing: 0) }
        let before = claim
        var after = claim
        after.outstanding = before.outstanding.subtracting(groups.all)
        var missing = 0
        var isDone = false
        let outcome = try store.retries.retrying("writing results to \(name)") {
            () throws(SQLFailure) -> ResultsOutcome in
            try connection.begin()
            guard let record = try ClaimRecord.lock(before.id, connection), record.state != .taken
            else {
                connection.rollBack()
                return .leaseLost
            }
            let rest = record.keys.subtracting(groups.all)
            isDone = rest.isEmpty
            guard rest != record.keys else {
                // Committed before, by a transaction whose answer was lost.
                connection.rollBack()
                return .recorded(missing: missing)
            }
            (missing, after.finished) = try write(
                groups, of: record.keys, before.finished, now: record.now)
            try update(before.id, record, rest: rest)
            try removeFinishedClaims()
            try connection.commit()
            return .recorded(missing: missing)
        }
        guard case .recorded = outcome else { return outcome }
        finishedClaims = isDone ? [claim.id] : []
        claim = after
        return outcome
    }

    /// Removes the rows that now have a result from a claim. Detects a change by another sender
    /// where an engine does not honour the lock. A finished claim stays until the next transaction,
    /// because its commit may be the one whose answer is lost.
    func update(
        _ id: Int64, _ record: ClaimRecord, rest: KeySet
    ) throws(SQLFailure) {
        let state = rest.isEmpty ? ClaimRecord.State.done : record.state
        let keys = SQLValue.bytes(rest.encoded)
        let isUpdated = try connection.changesRow(
            "UPDATE pushsweep_claim SET state = ?, row_keys = ? WHERE id = ? AND row_keys = ?",
            [.text(state.rawValue), keys, .integer(id), record.encodedKeys]
        ) { () throws(SQLFailure) in
            try connection.query(
                "SELECT row_keys FROM pushsweep_claim WHERE id = ?", [.integer(id)]
            ).scalar == keys
        }
        guard isUpdated else {
            throw SQLFailure(kind: .conflict, code: 0, message: "the claim was changed by another")
        }
    }

    /// Writes the results of rows that have none. Returns the number of rows that no longer exist,
    /// and the rows that now have a final result.
    func write(
        _ groups: ResultGroups, of open: KeySet, _ finished: KeySet, now: EpochMilliseconds
    ) throws(SQLFailure) -> (missing: Int, finished: KeySet) {
        var finished = finished
        var missing = 0
        for group in groups.groups {
            let keys = group.keys.intersection(open)
            // A row that is returned was never written.
            guard group.outcome != .returned, !keys.isEmpty else { continue }
            let change = QueueStatements.Change(group.outcome, now: now)
            missing +=
                try keys.count
                - statements.write(change, to: keys, finished: finished, now: now)
            if change.state.isFinal { finished = finished.union(keys) }
        }
        return (missing, finished)
    }

    /// Removes the claims whose last results are certainly committed.
    func removeFinishedClaims() throws(SQLFailure) {
        for id in finishedClaims {
            _ = try connection.execute(
                "DELETE FROM pushsweep_claim WHERE id = ?", [.integer(id)])
        }
    }

    /// Releases the rows of a claim that have no result yet and were not handed to the wire, so
    /// that any sender may claim them at once.
    package func giveBack(
        _ keys: [Int64], of claim: inout QueueClaim
    ) throws(StoreFailure) -> ResultsOutcome {
        try record(keys.map { DeliveryResult(key: $0, .returned) }, of: &claim)
    }
}

/// Results grouped by outcome, because each outcome is one statement.
struct ResultGroups {
    /// The groups, the largest last: by then the other groups are finished, and its runs may pass
    /// over them.
    private(set) var groups: [(outcome: DeliveryResult.Outcome, keys: KeySet)] = []
    /// The keys of all groups.
    let all: KeySet

    /// Groups the results of the rows in a set; the first result of each row counts.
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
