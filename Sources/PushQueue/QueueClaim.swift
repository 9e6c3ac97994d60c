import APNsProtocol
import Database
import TokenHygiene
import TokenTable

/// Who claims, and for how long.
package struct QueueLease: Hashable, Sendable {
    /// The run, as a UUID in text.
    package let run: String
    /// The machine.
    package let host: String
    /// Seconds until others may take the rows, unless the lease is renewed.
    package let seconds: Int

    /// States a lease.
    package init(run: String, host: String, seconds: Int = 120) {
        self.run = run
        self.host = host
        self.seconds = seconds
    }
}

/// Where a sender is in one partition's rows: a low-water mark, so that rows that are done are not
/// read again for every batch. At the end of the queue it goes back to the start, because a row with
/// a lower key may have been committed, or have become due, in the meantime.
package struct QueueCursor: Hashable, Sendable {
    /// Rows up to this key were looked at since the start.
    var position = Int64.min

    /// Stands at the start.
    package init() {}
}

/// A batch of rows that nobody else may send until its lease ends.
package struct QueueClaim: Hashable, Sendable {
    /// The claim's number in the database.
    let id: Int64
    /// The partition.
    package let partition: Partition
    /// What is to be sent, in the order of keys.
    package internal(set) var notifications: [QueuedNotification]
    /// Rows that were claimed and at once skipped, by reason.
    package internal(set) var skipped: [SkipReason: Int] = [:]
    /// Keys of the rows without a result.
    var outstanding: KeySet
    /// Keys of the rows with a final one.
    var finished = KeySet()
    let lease: QueueLease

    /// Lets go of the payload of the notification at an index, which nothing here needs any more.
    package mutating func dropPayload(_ index: Int) { notifications[index].payload = [] }

    /// Rows without a result.
    package var open: Int { outstanding.count }

    /// All rows claimed.
    package var claimed: Int { notifications.count + skipped.values.reduce(0, +) }
}

/// What came of writing results.
package enum ResultsOutcome: Hashable, Sendable {
    /// They are committed; so many rows had been deleted by somebody in the meantime.
    case recorded(missing: Int)
    /// The lease had ended and somebody else has taken the rows: nothing was written.
    case leaseLost
}

/// What became of rows whose sender is gone.
package struct ReclaimedRows: Hashable, Sendable {
    /// Never handed to the wire: waiting again.
    package internal(set) var returned = 0
    /// Outcome unknown, waiting to be sent again under the same `apns-id`.
    package internal(set) var resent = 0
    /// Outcome unknown, closed.
    package internal(set) var unknown = 0

    /// Starts with none.
    package init() {}
}

/// The row of `pushsweep_claim`: the lease of a batch and its fence. Whoever changes rows of the
/// batch locks it first and looks whether it is still his.
struct ClaimRecord {
    /// Who may do what with the rows.
    enum State: String {
        /// Held by a sender that has not begun to send.
        case held
        /// Held by a sender that may have sent any of it.
        case handed
        /// Every row has its result.
        case done
        /// Taken away after the lease ended. The row stays a day, so that the sender can tell.
        case taken

        /// Whether the claim still has rows.
        var isOpen: Bool { self == .held || self == .handed }
    }

    /// The keys that somebody holds in a queue.
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

    /// The keys in a claim's row.
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
    /// The rows without a result.
    let keys: KeySet
    /// The same as they stand there.
    let encodedKeys: SQLValue
    /// The database's time, before any wait for the lock.
    let now: EpochMilliseconds

    /// Reads and locks a claim; nil where there is none.
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
    /// The instant so many seconds later.
    func adding(seconds: Int) -> EpochMilliseconds {
        EpochMilliseconds(rawValue + Int64(clamping: seconds) * 1_000)
    }
}
