// The rows of the queue that carry given tokens, for a person who asks why a device got nothing. Without
// an index over its tokens only the newest rows are read, and the result says how many.

import APNsProtocol
import Database
import TokenHygiene
import TokenTable

/// The rows found, with the limits that were reached.
package struct QueueFound: Hashable, Sendable {
    /// The rows by token, newest first.
    package var rows: [DeviceToken: [QueuedRow]] = [:]
    /// Whether there are more rows than were read.
    package var isCut = false
    /// Without an index over the tokens: how many of the newest rows were looked at; nil for all.
    package var newest: Int?
    /// Whether the claims of senders could not be read, so that a claimed row looks pending.
    package var lacksClaims = false
    /// Whether the side table with the states could not be read.
    package var lacksStates = false
    /// Whether the time of queueing could not be read.
    package var lacksTimes = false
}

extension TokenTable {
    /// The most rows of the queue that are searched without an index.
    package static let mostQueueRowsSearched = 50_000
    /// The most rows of the queue that are read.
    package static let mostQueueRowsRead = 500

    /// The rows of the queue with given tokens. Nil where there is no queue and none is wanted.
    ///
    /// - Throws: `configuration` where the queue does not fit the settings; any failure of a query.
    package func queueHistory(
        of tokens: [DeviceToken], in partitions: [Partition]
    ) throws(StoreFailure) -> QueueFound? {
        let name = try TableName(settings.queue.table, setting: "store.push-queue.table")
        if !settings.wantsQueue {
            let known = try retries.retrying("reading the schema") { () throws(SQLFailure) in
                try Catalog(connection: connection).table(name)
            }
            if known == nil { return nil }
        }
        var filter = QueueFilter()
        filter.tokens = tokens
        var listing = try QueueListing(self, filter, in: partitions)
        var found = QueueFound(
            lacksClaims: listing.lacksClaims, lacksStates: listing.lacksStates,
            lacksTimes: listing.lacksTimes)
        var count = 0
        while count <= Self.mostQueueRowsRead {
            let rows = try listing.next()
            if rows.isEmpty { break }
            for row in rows.prefix(Self.mostQueueRowsRead - count) {
                if let token = row.token { found.rows[token, default: []].append(row) }
            }
            count += rows.count
        }
        found.isCut = count > Self.mostQueueRowsRead
        found.newest = listing.newest
        return found
    }
}
