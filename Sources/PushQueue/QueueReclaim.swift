import Database
import TokenHygiene
import TokenTable

extension PushQueue {
    /// The reason stored with rows whose claim ran out.
    private static let reason = "no answer before the lease ended"

    /// Takes the rows of claims whose lease has ended. Rows that were never handed to the wire wait
    /// again. The outcome of the other rows is unknown: with `resendUnknown` they are sent again
    /// under the same `apns-id`, else they are closed as unknown. To be called before the first
    /// claim and at intervals after it.
    package func reclaimExpired(resendUnknown: Bool) throws(StoreFailure) -> ReclaimedRows {
        let claims = try expiredClaims()
        var reclaimed = ReclaimedRows()
        for claim in claims { try reclaim(claim, resendUnknown, &reclaimed) }
        return reclaimed
    }

    private func expiredClaims() throws(StoreFailure) -> [Int64] {
        try store.retries.retrying("looking for leases of \(name) that ended") {
            () throws(SQLFailure) in
            let rows = try connection.query("SELECT \(dialect.now)")
            let now = try dialect.instant(rows[0, 0])
            let time = dialect.ownTime("expires_at")
            let old = try connection.query(
                "SELECT id FROM pushsweep_claim WHERE queue = ? AND state IN ('taken', 'done') "
                    + "AND expires_at < ?",
                [.text(name), time.value(now.adding(seconds: -86_400))])
            for row in 0..<old.count {
                _ = try connection.execute(
                    "DELETE FROM pushsweep_claim WHERE id = ? AND state IN ('taken', 'done')",
                    [old[row, 0]])
            }
            let ended = try connection.query(
                "SELECT id FROM pushsweep_claim WHERE queue = ? AND state IN ('held', 'handed') "
                    + "AND expires_at <= ? ORDER BY id", [.text(name), time.value(now)])
            return (0..<ended.count).compactMap { ended[$0, 0].integer }
        }
    }

    private func reclaim(
        _ id: Int64, _ resendUnknown: Bool, _ reclaimed: inout ReclaimedRows
    ) throws(StoreFailure) {
        var taken: (state: DeliveryState, count: Int)?
        try store.retries.retrying("taking back rows of \(name)") { () throws(SQLFailure) in
            try connection.begin()
            let rows = try connection.query(
                "SELECT state, row_keys, expires_at, taken_by, \(dialect.now) "
                    + "FROM pushsweep_claim WHERE id = ?" + dialect.rowLock, [.integer(id)])
            guard rows.count > 0, let expiry = dialect.ownTime("expires_at").mark(rows[0, 2])
            else {
                taken = nil
                return connection.rollBack()
            }
            guard let state = ClaimRecord.State(rawValue: rows[0, 0].text ?? ""), state.isOpen
            else {
                // Taken by this run, in a commit whose answer was lost, or by another run.
                if rows[0, 3].text != lease.run { taken = nil }
                return connection.rollBack()
            }
            let now = try dialect.instant(rows[0, 4])
            guard expiry <= now else {
                taken = nil
                return connection.rollBack()
            }
            let keys = try ClaimRecord.keys(rows[0, 1], of: id)
            var change = QueueStatements.Change(state: .pending)
            var count = keys.count
            // Rows that were never handed over have not been written either.
            if state == .handed {
                change = QueueStatements.Change(
                    state: resendUnknown ? .retry : .unknown, reason: Self.reason, isAttempt: true)
                count = try statements.close(keys, as: change, now: now, connection)
            }
            _ = try connection.execute(
                "UPDATE pushsweep_claim SET state = 'taken', taken_by = ? WHERE id = ?",
                [.text(lease.run), .integer(id)])
            taken = (change.state, count)
            try connection.commit()
        }
        guard let taken else { return }
        switch taken.state {
        case .pending: reclaimed.returned += taken.count
        case .retry: reclaimed.resent += taken.count
        default: reclaimed.unknown += taken.count
        }
    }
}
