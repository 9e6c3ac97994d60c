import APNsProtocol
import Database
import TokenHygiene
import TokenTable

/// A row of the queue, with its delivery state.
package struct QueuedRow: Hashable, Sendable {
    /// The row's key in the queue.
    package let key: Int64
    /// The device token; nil where the column holds none.
    package let token: DeviceToken?
    /// The app, by the table's value, and the environment; nil where the row fits none of the
    /// settings, or several.
    package let partition: Partition?
    /// The state as stored, or `claimed` where a sender holds the row. A row without a final state
    /// that another program marked as sent is `sent`.
    package let state: String
    /// APNs' reason, or the reason for which the row was skipped.
    package let reason: String?
    package let attempts: Int
    /// When the row was queued; nil where the table does not say.
    package let queued: EpochMilliseconds?
    /// Not to be sent before this time.
    package let notBefore: EpochMilliseconds?
    /// When the row got its final state.
    package let answered: EpochMilliseconds?
}

extension QueueLayout {
    /// The key in a value of the key column.
    ///
    /// - Throws: `configuration` for one that is no whole number of 64 bits.
    func rowKey(_ value: SQLValue?) throws(SQLFailure) -> Int64 {
        guard let key = value?.integer else {
            throw SQLFailure(
                kind: .configuration, code: 0,
                message: "a key of \(table) is no whole number of 64 bits")
        }
        return key
    }
}
