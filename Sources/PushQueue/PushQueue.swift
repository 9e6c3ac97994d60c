import APNsProtocol
import Database
import TokenHygiene
import TokenTable

// Several senders on several hosts share one queue. Each row is sent by one of them, and no row is lost
// when a sender is killed:
//
//   pending --claim--> claimed --hand over--> (may be on the wire) --results--> sent, gone, failed,
//      ^                  |                           |                         skipped, unknown, retry
//      |                  | lease ended               | lease ended
//      +------------------+                           +--> unknown, or retry under the same apns-id
//
// A claim is one row of `pushsweep_claim`: run, lease, the keys of its rows without a result, and
// whether its batch was handed to the wire. The queue's own rows do not change with a claim; each is
// written once, with its result. So claiming, renewing, handing over or taking away a batch of a thousand
// rows writes one row. Every transaction that writes results first locks the claim's row and checks that
// the claim still belongs to this run (the fence). It then removes the keys from the claim and counts
// itself there, so that a commit whose answer was lost is neither repeated nor given up.
//
// Claims must not overlap. Each claim reads the numbers of the last claims, then the claimed keys, then the
// waiting rows, in this order, and replaces the numbers near its rows, if they are still the same
// (`ClaimShares`). If a result is committed between the reads, its row appears as claimed and is left for
// the next claim. In the other order the row could appear as waiting and be sent twice.
//
// Everything that decides a claim is read in the claim's own transaction: the claims of others, the rows
// that are due, and what the token table says of each token. A proxy that sends plain SELECTs to a replica
// must leave a transaction whole, so a replica that lags decides nothing. `QueueClaiming` says more.
//
// A claim that was never handed over returns to the queue when its lease ends. In a claim that was handed
// over, every row without a result has an unknown outcome.

/// One sender's access to the queue: one connection, used by one thread.
package final class PushQueue {
    let store: TokenTable
    let layout: QueueLayout
    let lease: QueueLease
    let statements: QueueStatements
    /// The random part of the queue's `apns-id`s.
    private var space: Int64?
    /// The senders that were at work lately.
    var senders: LivingSenders
    /// The lookups of tokens so far, by partition.
    var lookups: [Partition: TokenStatusLookup] = [:]
    /// Claims whose last results are certainly committed and whose rows are no longer needed.
    var finishedClaims: [Int64] = []

    var connection: any SQLConnection { store.connection }
    var dialect: SQLDialect { connection.dialect }
    var name: String { layout.name }

    /// Opens the queue of a store for one run. Throws `configuration` if the table does not fit the
    /// settings.
    package init(_ store: TokenTable, _ lease: QueueLease) throws(StoreFailure) {
        self.store = store
        self.lease = lease
        senders = LivingSenders(own: lease.run)
        layout = try store.queueLayout()
        statements = QueueStatements(layout: layout, connection: store.connection)
    }

    /// The random part of the queue's `apns-id`s. The first sender of the queue creates it, and the
    /// guards of claims.
    func apnsSpace() throws(StoreFailure) -> Int64 {
        if let space { return space }
        let known = try store.retries.retrying("naming the notifications of \(name)") {
            () throws(SQLFailure) -> Int64 in
            func read() throws(SQLFailure) -> Int64? {
                try connection.query(
                    "SELECT apns_space FROM pushsweep_queue WHERE name = ?", [.text(name)]
                ).scalar?.integer
            }
            // In a transaction, so that no proxy sends the query to a replica that lags.
            try connection.begin()
            if let known = try read(),
                try ClaimGuards(of: name, space: known, connection) != nil
            {
                connection.rollBack()
                return known
            }
            do throws(SQLFailure) {
                _ = try connection.execute(
                    "INSERT INTO pushsweep_queue (name, apns_space) VALUES (?, ?)",
                    [.text(name), .integer(Int64.random(in: 0..<1 << 60))])
            } catch {
                guard error.isDuplicate else { throw error }
            }
            guard let known = try read() else {
                throw SQLFailure(
                    kind: .other, code: 0, message: "a row of pushsweep_queue was not kept")
            }
            try ClaimGuards.make(space: known, connection)
            try connection.commit()
            return known
        }
        space = known
        return known
    }
}

extension TokenTable {
    /// The queue's settings, resolved against the database.
    func queueLayout() throws(StoreFailure) -> QueueLayout {
        let table = try withHidden(settings.queue.judgedByDefault, of: queueTable())
        return try seeingColumns(of: table.name) { () throws(StoreFailure) in
            try QueueResolver(
                mapping: settings.queue, environmentValues: settings.mapping.environmentValues,
                table: table, dialect: connection.dialect
            ).layout()
        }
    }

    /// The queue's table as the database describes it.
    func queueTable() throws(StoreFailure) -> CatalogTable {
        let setting = "store.push-queue.table"
        return try session.catalogTable(
            TableName(settings.queue.table, setting: setting), setting: setting,
            cure: "run `pushsweep schema apply`, which makes it where an app has a provider or the "
                + "settings name this table")
    }

    /// The tokens of a partition that must not be sent to, with the reasons.
    func skipReasons(
        of tokens: [DeviceToken], in partition: Partition
    ) throws(StoreFailure) -> [DeviceToken: SkipReason] {
        let lookup = try tokenStatuses(in: partition)
        return try retries.retrying("looking up tokens in \(settings.mapping.table)") {
            () throws(SQLFailure) in
            try lookup.skipReasons(of: tokens)
        }
    }
}

extension TokenStatusLookup {
    /// The tokens that must not be sent to, with the reasons.
    func skipReasons(
        of tokens: [DeviceToken]
    ) throws(SQLFailure) -> [DeviceToken: SkipReason] {
        try statuses(of: tokens).compactMapValues { status in
            switch status {
            case .living: nil
            case .stale: .stale
            case .unknown: .unknown
            }
        }
    }
}

/// Rows of the queue, divided into those that may be sent and those that must not.
struct VettedRows {
    /// The rows that may be sent, in the order of their keys.
    private(set) var notifications: [QueuedNotification] = []
    /// The other rows, with their results.
    private(set) var skipped: [(key: Int64, reason: SkipReason)] = []

    /// Divides rows by the tokens that must not be sent to.
    init(_ rows: [DueRow], _ reasons: [DeviceToken: SkipReason]) {
        notifications.reserveCapacity(rows.count)
        for row in rows {
            guard let notification = row.notification else {
                skipped.append((row.key, .malformed))
                continue
            }
            if let reason = reasons[notification.token] {
                skipped.append((row.key, reason))
            } else {
                notifications.append(notification)
            }
        }
    }
}
