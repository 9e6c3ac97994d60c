import APNsProtocol
import Database
import Findings
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

    package init(run: String, host: String, seconds: Int = 120) {
        (self.run, self.host, self.seconds) = (run, host, seconds)
    }
}

/// A sender's position in the rows of one partition: low-water marks, so that finished rows are
/// not read again for every batch. At the end of the queue a position returns to the start,
/// because a row with a lower key may have been committed, or have become due, since then.
package struct QueueCursor: Hashable, Sendable {
    /// Of so many claims beside other senders, one begins with the oldest row of all.
    static let oldestEvery = 8

    /// The highest key read since the start, of all rows.
    private var position = Int64.min
    /// The highest key read since the start, of the sender's share.
    private var own = Int64.min
    /// Claims so far.
    private var claims = 0

    package init() {}

    /// A place to look for rows.
    struct Place {
        /// The share of the queue to look in; nil for all of it.
        var share: ClaimShare?
        /// The key after which to begin.
        var after = Int64.min
        /// The share that leaves the oldest rows of others to them; nil where none does.
        var yielding: ClaimShare?
    }

    /// Where to look for rows, in order, beside other senders with a share, or alone.
    func places(_ share: ClaimShare?) -> [Place] {
        guard let share else {
            // After the mark no row waits; before it a row may have become due.
            return position == .min ? [Place()] : [Place(after: position), Place()]
        }
        guard claims % Self.oldestEvery != Self.oldestEvery - 1 else { return [Place()] }
        let owned = [Place(share: share, after: own)] + (own > .min ? [Place(share: share)] : [])
        return owned + [Place(yielding: share), Place()]
    }

    /// Notes where a look has ended.
    mutating func reach(_ key: Int64, _ place: Place) {
        if place.share != nil { own = key } else { position = key }
        claims += key > .min ? 1 : 0
    }
}

/// A batch of rows that only its sender may send until the lease ends.
package struct Batch: Hashable, Sendable {
    /// The claim's id in `pushsweep_claim`.
    let id: Int64
    /// The app and environment of all rows of the batch.
    package let partition: Partition
    /// The claim's number, for what is kept about it outside the database.
    package var number: Int64 { id }
    /// The notifications to send, in the order of keys.
    package internal(set) var notifications: [PushNotification] = []
    /// The results of rows that must not be sent; they are written with the claim.
    package internal(set) var settled: [DeliveryResult] = []
    /// Keys of the rows without a result.
    var outstanding: KeySet
    /// Keys of the rows with a final result.
    var finished: KeySet

    /// Divides rows, in the order of their keys, by the tokens that must not be sent to.
    init(
        id: Int64, _ partition: Partition, _ rows: [DueRow] = [],
        skipping reasons: [DeviceToken: SkipReason] = [:]
    ) {
        (self.id, self.partition) = (id, partition)
        notifications.reserveCapacity(rows.count)
        for row in rows {
            let reason: SkipReason? = row.notification.map { reasons[$0.token] } ?? .malformed
            if let reason {
                settled.append(DeliveryResult(key: row.key, .skipped(reason)))
            } else if let notification = row.notification {
                notifications.append(notification)
            }
        }
        outstanding = KeySet(sorted: notifications.lazy.map(\.row))
        finished = KeySet(sorted: settled.lazy.map(\.key))
    }

    /// Divides a claim of which no row has a result after its first rows. The second part, nil without rows, is a claim
    /// with the id `rest`.
    func divided(after rows: Int, rest id: Int64) -> (slice: Batch, rest: Batch?) {
        guard rows < notifications.count else { return (self, nil) }
        return (part(id: self.id, notifications[..<rows]), part(id: id, notifications[rows...]))
    }

    private func part(id: Int64, _ rows: ArraySlice<PushNotification>) -> Batch {
        var part = Batch(id: id, partition)
        part.notifications = Array(rows)
        part.outstanding = KeySet(sorted: rows.lazy.map(\.row))
        part.finished = finished
        return part
    }

    /// Takes the notifications out, with their payloads; the batch keeps them without.
    package mutating func takePayloads() -> [PushNotification] {
        defer { for place in notifications.indices { notifications[place].payload = [] } }
        return notifications
    }

    /// The number of rows without a result.
    package var open: Int { outstanding.count }

    /// The number of all rows claimed, skipped ones included.
    package var claimed: Int { notifications.count + settled.count }
}

extension APNsID {
    /// The id of a row, from the queue's random part and the row's key. So it is known before the first
    /// attempt and is the same at each, without being written to any row. RFC 9562 section 5.8 (version
    /// 8): 60 random bits, then 60 bits of the key, which is readable in the last 15 digits.
    init(space: Int64, key: Int64) {
        let random = UInt64(bitPattern: space)
        self.init(
            // 48 bits, the version, 12 bits.
            high: (random >> 12 & 0xFFFF_FFFF_FFFF) << 16 | 0x8000 | random & 0xFFF,
            // The variant 10 and two zero bits, 60 bits of the key.
            low: 0x8000_0000_0000_0000 | UInt64(bitPattern: key) & 0x0FFF_FFFF_FFFF_FFFF)
    }
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

    /// The keys that all open claims hold in a queue, and the runs that hold them.
    static func openClaims(
        of queue: String, _ connection: any SQLConnection
    ) throws(SQLFailure) -> (keys: KeySet, runs: Set<String>) {
        let rows = try connection.query(
            "SELECT row_keys, id, run FROM pushsweep_claim "
                + "WHERE queue = ? AND state IN ('held', 'handed')", [.text(queue)])
        var claimed = KeySet()
        var runs: Set<String> = []
        for row in 0..<rows.count {
            claimed = claimed.union(try keys(rows[row, 0], of: rows[row, 1].integer ?? 0))
            if let run = rows[row, 2].text { runs.insert(run) }
        }
        return (claimed, runs)
    }

    /// Decodes the keys in a claim's row. Throws where they cannot be read.
    static func keys(_ value: SQLValue, of id: Int64) throws(SQLFailure) -> KeySet {
        guard case .bytes(let bytes) = value, let keys = KeySet(encoded: bytes) else {
            throw SQLFailure(
                kind: .other, code: 0,
                message: "row_keys of claim \(id) in pushsweep_claim cannot be read, so another "
                    + "program has changed it; stop all senders and delete that row, then its "
                    + "notifications wait again")
        }
        return keys
    }

    let state: State
    /// The keys of the rows without a result.
    let keys: KeySet
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
            keys: try keys(rows[0, 1], of: id), now: try dialect.instant(rows[0, 2]))
    }
}

extension PushQueue {
    /// The reason stored with rows whose claim ran out.
    private static let reason = "no answer before the lease ended"

    /// Takes the rows of claims whose lease has ended; their numbers by their new state. Rows that were
    /// never handed to the wire wait again (pending). The outcome of the other rows is unknown: with
    /// `resendUnknown` they are sent again under the same `apns-id` (retry), else they are closed as
    /// unknown. To be called before the first claim and at intervals after it.
    package func reclaimExpired(
        resendUnknown: Bool
    ) throws(StoreFailure) -> [DeliveryState: Int] {
        var reclaimed: [DeliveryState: Int] = [:]
        for claim in try expiredClaims() {
            guard let taken = try reclaim(claim, resendUnknown), taken.count > 0 else { continue }
            reclaimed[taken.state, default: 0] += taken.count
        }
        return reclaimed
    }

    private func expiredClaims() throws(StoreFailure) -> [Int64] {
        try store.retries.retrying("looking for leases of \(name) that ended") {
            () throws(SQLFailure) in
            let now = try begin()
            let time = dialect.ownTime("expires_at")
            let old = try connection.query(
                "SELECT id FROM pushsweep_claim WHERE queue = ? AND state IN ('taken', 'done') "
                    + "AND expires_at < ?",
                [.text(name), time.value(now.advanced(by: -86_400_000))])
            for row in 0..<old.count {
                _ = try connection.execute(
                    "DELETE FROM pushsweep_claim WHERE id = ? AND state IN ('taken', 'done')",
                    [old[row, 0]])
            }
            let ended = try connection.query(
                "SELECT id FROM pushsweep_claim WHERE queue = ? AND state IN ('held', 'handed') "
                    + "AND expires_at <= ? ORDER BY id", [.text(name), time.value(now)])
            try connection.commit()
            return (0..<ended.count).compactMap { ended[$0, 0].integer }
        }
    }

    /// Begins a transaction and reads the time of the database in it, so that no proxy sends the queries
    /// to a replica that lags.
    func begin() throws(SQLFailure) -> EpochMilliseconds {
        try connection.begin()
        return try dialect.instant(connection.query("SELECT \(dialect.now)")[0, 0])
    }

    /// The end of a lease that begins now, as a value of its column.
    func expiry(from now: EpochMilliseconds) -> SQLValue {
        dialect.ownTime("expires_at").value(now.advanced(by: Int64(lease.seconds) * 1_000))
    }

    private func reclaim(
        _ id: Int64, _ resendUnknown: Bool
    ) throws(StoreFailure) -> (state: DeliveryState, count: Int)? {
        var taken: (state: DeliveryState, count: Int)?
        try store.retries.retrying("reclaiming rows of \(name)") { () throws(SQLFailure) in
            try connection.begin()
            let rows = try connection.query(
                "SELECT state, row_keys, expires_at, taken_by, \(dialect.now) "
                    + "FROM pushsweep_claim WHERE id = ?" + dialect.rowLock, [.integer(id)])
            let state =
                rows.count > 0 ? ClaimRecord.State(rawValue: rows[0, 0].text ?? "") : nil
            guard let state, state.isOpen else {
                // Taken by this run, in a commit whose answer was lost, or by another run.
                if rows.count == 0 || rows[0, 3].text != lease.run { taken = nil }
                return connection.rollBack()
            }
            let now = try dialect.instant(rows[0, 4])
            taken = nil
            guard let expiry = dialect.ownTime("expires_at").mark(rows[0, 2]), expiry <= now
            else { return connection.rollBack() }
            let keys = try ClaimRecord.keys(rows[0, 1], of: id)
            var outcome = Outcome.returned
            var count = keys.count
            // Rows that were never handed over have not been written either.
            if state == .handed {
                outcome = Outcome(resendUnknown ? .retry : .unknown, reason: Self.reason)
                count = try statements.write(outcome, to: keys, now: now)
            }
            _ = try connection.execute(
                "UPDATE pushsweep_claim SET state = 'taken', taken_by = ? WHERE id = ?",
                [.text(lease.run), .integer(id)])
            taken = (outcome.state, count)
            try connection.commit()
        }
        return taken
    }
}
