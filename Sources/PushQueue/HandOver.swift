// A row that is handed over may be on the wire, so the outcome of a killed sender's rows is unknown from then on. A
// sender that handed over a thousand rows and was killed at once would lose what it never sent. So it hands over a
// slice at a time, as its streams become free:
//
//   claim 7  held    1...1000
//     hand over 40:   claim 7  handed  1...40       one transaction; the rest keeps a lease of its own
//                     claim 8  held    41...1000
//     hand over 20:   claim 8  handed  41...60
//                     claim 9  held    61...1000
//
// No key is in two claims or in none at any moment, so no other sender can claim a row of the rest.

import APNsProtocol
import Database
import Findings
import TokenHygiene
import TokenTable

extension PushQueue {
    /// What a hand-over came to.
    package struct HandOver: Hashable, Sendable {
        /// The rows that are handed over.
        package let slice: Batch
        /// The rows that stay held, under a claim of their own; nil where none do.
        package let rest: Batch?
        /// The database's time.
        package let now: EpochMilliseconds
    }

    /// Records that the first rows of a claim are about to be handed to the wire, at most `rows`, and renews the lease.
    /// In the same transaction a claim of its own gets the rest, so that a killed sender leaves no more rows of unknown
    /// outcome than it could have sent. Nil: the lease had ended and other senders have the rows, so none may be sent.
    ///
    /// - Throws: any failure; then no row of the claim may be sent either.
    package func handOver(_ claim: Batch, rows: Int) throws(StoreFailure) -> HandOver? {
        let (slice, rest) = claim.divided(
            after: max(rows, 1), rest: Int64.random(in: 1...Int64.max))
        return try store.retries.retrying("handing over rows of \(name)") {
            () throws(SQLFailure) -> HandOver? in
            try connection.begin()
            guard let record = try ClaimRecord.lock(claim.id, connection), record.state.isOpen
            else {
                // An earlier try may have made it by a commit whose answer was lost.
                if let rest { try remove(rest) }
                try connection.commit()
                return nil
            }
            let handedOver = HandOver(slice: slice, rest: rest, now: record.now)
            // A commit whose answer was lost.
            guard record.state == .held else {
                connection.rollBack()
                return handedOver
            }
            _ = try connection.execute(
                "UPDATE pushsweep_claim SET state = 'handed', expires_at = ?, row_keys = ? WHERE id = ?",
                [
                    expiry(from: record.now), .bytes(slice.outstanding.encoded),
                    .integer(claim.id),
                ])
            if let rest { try insertClaim(rest.id, .held, rest.outstanding, record.now) }
            try connection.commit()
            return handedOver
        }
    }

    private func remove(_ claim: Batch) throws(SQLFailure) {
        _ = try connection.execute(
            "DELETE FROM pushsweep_claim WHERE id = ? AND run = ? AND state = 'held'",
            [.integer(claim.id), .text(lease.run)])
    }

    /// Renews the leases of all claims of this run by one UPDATE. To be called well before
    /// `QueueLease.seconds` have passed, by any thread with its own queue.
    ///
    /// - Returns: the numbers of the claims that the run still has.
    package func renewLeases() throws(StoreFailure) -> Set<Int64> {
        try store.retries.retrying("renewing the leases of run \(lease.run)") {
            () throws(SQLFailure) in
            let now = try begin()
            _ = try connection.execute(
                "UPDATE pushsweep_claim SET expires_at = ? WHERE run = ? AND state IN ('held', 'handed')",
                [expiry(from: now), .text(lease.run)])
            let open = try connection.query(
                "SELECT id FROM pushsweep_claim WHERE run = ? AND state IN ('held', 'handed')",
                [.text(lease.run)])
            try connection.commit()
            return Set((0..<open.count).compactMap { open[$0, 0].integer })
        }
    }
}
