import APNsProtocol
import Database
import TokenHygiene
import TokenTable

/// The holder of claims and the length of their lease.
package struct QueueLease: Hashable, Sendable {
    /// The run, as a UUID in text.
    package let run: String
    /// The name of the host.
    package let host: String
    /// Seconds until other senders may take the rows, unless the lease is renewed.
    package let seconds: Int

    /// Makes the lease of one run on one host.
    package init(run: String, host: String, seconds: Int = 120) {
        self.run = run
        self.host = host
        self.seconds = seconds
    }
}

/// A sender's position in the rows of one partition: a low-water mark, so that finished rows are
/// not read again for every batch. At the end of the queue the position returns to the start,
/// because a row with a lower key may have been committed, or have become due, since then.
package struct QueueCursor: Hashable, Sendable {
    /// The highest key read since the start.
    var position = Int64.min

    /// Begins at the lowest key.
    package init() {}
}

/// A batch of rows that only its sender may send until the lease ends.
package struct QueueClaim: Hashable, Sendable {
    /// The claim's id in `pushsweep_claim`.
    let id: Int64
    /// The app and environment of all rows of the batch.
    package let partition: Partition
    /// The notifications to send, in the order of keys.
    package internal(set) var notifications: [QueuedNotification]
    /// The number of rows that were claimed and skipped at once, by reason.
    package internal(set) var skipped: [SkipReason: Int] = [:]
    /// Keys of the rows without a result.
    var outstanding: KeySet
    /// Keys of the rows with a final result.
    var finished = KeySet()
    let lease: QueueLease

    /// Releases the payload of the notification at an index. The caller needs it no longer.
    package mutating func dropPayload(_ index: Int) { notifications[index].payload = [] }

    /// The number of rows without a result.
    package var open: Int { outstanding.count }

    /// The number of all rows claimed, skipped ones included.
    package var claimed: Int { notifications.count + skipped.values.reduce(0, +) }
}

/// The outcome of writing results.
package enum ResultsOutcome: Hashable, Sendable {
    /// The results are committed; `missing` rows had been deleted from the queue before.
    case recorded(missing: Int)
    /// The lease had ended and another sender has taken the rows. No result was written.
    case leaseLost
}

/// The numbers of rows taken from claims whose lease had ended, by their new state.
package struct ReclaimedRows: Hashable, Sendable {
    /// Rows that were never handed to the wire and wait again.
    package internal(set) var returned = 0
    /// Rows of unknown outcome that wait to be sent again under the same `apns-id`.
    package internal(set) var resent = 0
    /// Rows of unknown outcome, closed as unknown.
    package internal(set) var unknown = 0

    /// Starts with all numbers at 0.
    package init() {}
}

/// The row of `pushsweep_claim`: the lease of a batch and its fence. A transaction that changes
/// rows of the batch first locks this row and checks that the claim still belongs to its run.
struct ClaimRecord {
    /// The stage of a claim; it decides who may change the rows.
    enum State: String {
        /// A sender holds the rows and has not begun to send.
        case held
        /// A sender holds the rows and may have sent any of them.
        case handed
        /// Every row has its result.
        case done
        /// The rows were taken away after the lease ended. The claim's row stays for a day, so that
        /// its sender can detect that.
        case taken

        /// Whether the claim still holds rows.
        var isOpen: Bool { self == .held || self == .handed }
    }

    /// The keys that all open claims hold in a queue.
    static func claimedKeys(
        of queue: String, _ connection: any SQLConnection
    ) throws(SQLFailure) -> KeySet {
        let rows = try connection.query(
            "SELECT row_keys, id FROM pushsweep_claim "
                + "WHERE queue = ? AND state IN ('held', 'handed')", [.text(queue)])
        var claimed = KeySet()
        for row in 0..<rows.count {
            claimed = claimed.union(try keys(rows[row, 0], of: rows[row, 1].integer ?? 0))
        }
        return claimed
    }

    /// Decodes the keys in a claim's row. Throws where they cannot be read.
    static func keys(_ value: SQLValue, of id: Int64) throws(SQLFailure) -> KeySet {
        guard case .bytes(let bytes) = value, let keys = KeySet(encoded: bytes) else {
            throw SQLFailure(
                kind: .other, code: 0,
                message: "row_keys of claim \(id) in pushsweep_claim cannot be read, so somebody "
                    + "else has changed it; stop all senders and delete that row, then its "
                    + "notifications wait again")
        }
        return keys
    }

    let state: State
    /// The keys of the rows without a result.
    let keys: KeySet
    /// The same keys as encoded in the claim's row.
    let encodedKeys: SQLValue
    /// The database's time, read before any wait for the lock.
    let now: EpochMilliseconds

    /// Reads and locks a claim; nil where it does not exist.
    static func lock(
        _ id: Int64, _ connection: any SQLConnection
    ) throws(SQLFailure) -> ClaimRecord? {
        let dialect = connection.dialect
        let rows = try connection.query(
            "SELECT state, row_keys, \(dialect.now) FROM pushsweep_claim WHERE id = ?"
                + dialect.rowLock, [.integer(id)])
        guard rows.count > 0 else { return nil }
        try rows.require(width: 3)
        return ClaimRecord(
            state: State(rawValue: rows[0, 0].text ?? "") ?? .taken,
            keys: try keys(rows[0, 1], of: id), encodedKeys: rows[0, 1],
            now: try dialect.instant(rows[0, 2]))
    }
}

extension EpochMilliseconds {
    /// The instant `seconds` later.
    func adding(seconds: Int) -> EpochMilliseconds {
        EpochMilliseconds(rawValue + Int64(clamping: seconds) * 1_000)
    }
}
