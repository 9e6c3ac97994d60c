// A run that dies between the commit of the ledger and that of the checkpoint leaves a pending chunk (see
// Settlement), and the next run of the same table settles it. Nobody does where the table was renamed, or
// the settings name another table since. Such a chunk is reported by every run and by `check`, with what to do.

import APNsProtocol
import Database
import Encodings
import TokenHygiene

/// A part of a feed with a chunk whose entries are in the ledger while its rows may be changed or not.
package struct PendingFeed: Hashable, Sendable {
    /// The feed, as a UUID in text.
    package let feed: String
    /// The number of the part, from 0.
    package let part: Int
    /// The token table of the chunk, as it was named then.
    package let table: String
    /// The key columns by which the chunk's entries name its rows; nil where the chunk cannot be read.
    let key: String?
    /// The time of the chunk by the database's clock; nil where it is not known.
    package let since: EpochMilliseconds?
    /// Whether a run may be at work on it: it is younger than a minute.
    let isRecent: Bool

    /// The age in milliseconds from which a chunk counts as left by a run that died. A commit waits for
    /// locks and for nodes that come back, all of it for less than a minute.
    static let longestCommit: Int64 = 60_000

    /// Describes what stands in a checkpoint. `began` is the table in which the feed began, for a chunk
    /// that cannot be read.
    init(
        feed: String, part: Int, _ chunk: PendingChunk?, began: String,
        since: EpochMilliseconds? = nil, isRecent: Bool = false
    ) {
        (self.feed, self.part, self.since, self.isRecent) = (feed, part, since, isRecent)
        table = chunk?.table ?? began
        key = chunk?.key
    }

    /// The start of a sentence about it.
    private var beginning: String {
        let time = since.map { ", begun at \(RFC3339.text(milliseconds: $0.rawValue))" } ?? ""
        return "feed \(feed) has an unfinished chunk in table \(table)\(time)"
    }

    /// What prevents that it is settled with the rows of a table, and what to do; nil for nothing. The
    /// keys of another table, and other columns, could name other rows.
    func obstacle(_ layout: TableLayout) -> String? {
        let place = "WHERE feed = '\(feed)' AND part = \(part)"
        let discard =
            "run UPDATE pushsweep_feed SET pending = NULL \(place): its entries then stay in the "
            + "ledger, also where their rows were not changed"
        guard let key else {
            return "\(beginning), and cannot be read, since another version wrote it; use that "
                + "version until a run has ended with 0, or \(discard)"
        }
        guard table == layout.nameInLedger else {
            let name = layout.nameInLedger.replacing("'", with: "''")
            return "\(beginning), and store.active-users.table is \(layout.table); if \(table) was "
                + "renamed to it, run UPDATE pushsweep_feed SET pending = JSON_SET(pending, '$.table', "
                + "'\(name)') \(place); if it was not, a run whose settings name \(table) settles "
                + "it; if the rows of \(table) are gone for good, \(discard)"
        }
        guard key == layout.keyNames else {
            return "\(beginning), under the key \(key), and store.active-users.key is "
                + "\(layout.keyNames); set it back until a run has ended with 0; if that cannot be, "
                + discard
        }
        return nil
    }

    /// What a person has to know about it, where the settings name a table.
    package func sentence(_ layout: TableLayout) -> String {
        if let obstacle = obstacle(layout) { return obstacle }
        if isRecent { return "\(beginning): a run is committing it, or one has just failed" }
        let right = layout.commitsApart ? "" : ", and needs DELETE on pushsweep_change for that"
        return "\(beginning), which a failed run left; the next run that changes rows settles it"
            + right
    }
}

extension TokenTable {
    /// The pending chunks of all tables that share the ledger; none for a file, whose rows are always
    /// committed with it.
    ///
    /// - Throws: any failure of reading.
    package func pendingFeeds() throws(StoreFailure) -> [PendingFeed] {
        guard connection.dialect.engine == .mariaDB else { return [] }
        let dialect = connection.dialect
        let time = dialect.ownTime("changed_at")
        return try retries.retrying("looking for pending chunks") { () throws(SQLFailure) in
            let open = try connection.ledger.query(
                "SELECT feed, part, table_name, changed_at, \(dialect.now), pending "
                    + "FROM pushsweep_feed WHERE pending IS NOT NULL ORDER BY feed, part")
            var feeds: [PendingFeed] = []
            for row in 0..<open.count {
                guard let feed = open[row, 0].text, let part = open[row, 1].count,
                    let table = open[row, 2].text
                else { continue }
                let since = time.mark(open[row, 3])
                let now = try dialect.instant(open[row, 4]).rawValue
                feeds.append(
                    PendingFeed(
                        feed: feed, part: part, open[row, 5].text.flatMap(PendingChunk.init(json:)),
                        began: table, since: since,
                        isRecent: now - (since?.rawValue ?? 0) < PendingFeed.longestCommit))
            }
            return feeds
        }
    }

    /// Findings about pending chunks, for `check`.
    func pendingFindings(_ layout: TableLayout) throws(StoreFailure) -> [StoreFinding] {
        guard connection.dialect.engine == .mariaDB,
            try session.canRead("pushsweep_feed", "feed, part, table_name, changed_at, pending")
        else { return [] }
        return try pendingFeeds().filter { $0.table == layout.nameInLedger || !$0.isRecent }
            .map { feed in
                StoreFinding(feed.isRecent ? .ok : .warning, feed.sentence(layout))
            }
    }
}
