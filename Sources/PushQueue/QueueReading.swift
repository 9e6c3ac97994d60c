import Database
import TokenHygiene
import TokenTable

/// The effect that a run would have on the rows due now, determined without claiming any.
package struct QueuePreview: Hashable, Sendable {
    /// The number of rows that a run would send.
    package internal(set) var sendable = 0
    /// The number of rows that a run would skip, by reason.
    package internal(set) var skipped: [SkipReason: Int] = [:]
    /// Whether the preview read every row that is due.
    package internal(set) var isComplete = false

    /// The number of rows that the preview read.
    package var rows: Int { sendable + skipped.values.reduce(0, +) }
}

extension TokenTable {
    /// Rows per read.
    private static let previewBatch = 2_000

    /// Judges the first rows of a partition that are due, at most `limit`, as a claim would. Reads
    /// only and needs no right except SELECT.
    package func previewClaims(
        _ partition: Partition, limit: Int = .max, shouldStop: () -> Bool = { false }
    ) throws(StoreFailure) -> QueuePreview {
        let layout = try queueLayout()
        var scan = try QueueScan(layout, connection.dialect, partition)
        if !layout.delivery.isInRow { scan.readsDelivery = try canReadDelivery() }
        let seesClaims = try canReadClaims()
        var preview = QueuePreview()
        var position = Int64.min
        while preview.rows < limit && !preview.isComplete && !shouldStop() {
            let size = min(limit - preview.rows, Self.previewBatch)
            let batch = try retries.retrying("reading rows of \(layout.table)") {
                () throws(SQLFailure) in
                let now = try connection.dialect.instant(
                    connection.query("SELECT \(connection.dialect.now)")[0, 0])
                let claimed = seesClaims ? try claimedKeys(layout) : KeySet()
                return try scan.read(
                    after: position, limit: size, except: claimed, now: now, space: 0, connection)
            }
            position = batch.last ?? position
            preview.isComplete = batch.isAtEnd
            let judged = try judged(batch.rows, partition)
            preview.sendable += judged.notifications.count
            for row in judged.skipped { preview.skipped[row.reason, default: 0] += 1 }
        }
        return preview
    }

    /// Whether `pushsweep_delivery` exists and the account may read it.
    func canReadDelivery() throws(StoreFailure) -> Bool {
        try session.canRead("pushsweep_delivery", "queue_key, state, answered_at")
    }

    /// Whether `pushsweep_claim` exists and the account may read it.
    private func canReadClaims() throws(StoreFailure) -> Bool {
        try session.canRead("pushsweep_claim", "queue, state, row_keys")
    }

    private func claimedKeys(_ layout: QueueLayout) throws(SQLFailure) -> KeySet {
        try ClaimRecord.claimedKeys(of: layout.name, connection)
    }
}
