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
    /// The token table, as it was named then.
    package let table: String
    /// The time of the chunk by the database's clock; nil where it is not known.
    package let since: EpochMilliseconds?
    /// Whether a run may be at work on it: it is younger than a minute.
    let isRecent: Bool
    /// Whether the account sees a table of that name.
    let isSeen: Bool

    /// The age in milliseconds from which a chunk counts as left by a run that died. A commit waits for
    /// locks and for nodes that come back, all of it for less than a minute.
    static let longestCommit: Int64 = 60_000

    /// The start of a sentence about it.
    private var beginning: String {
        let time = since.map { " at \(RFC3339.text(milliseconds: $0.rawValue))" } ?? ""
        return "feed \(feed) has an unfinished chunk in table \(table), begun\(time)"
    }

    /// What a person has to know about it, where the settings name `table`.
    package func sentence(settings name: TableName) -> String {
        if table == name.description {
            return isRecent
                ? "\(beginning): a run is committing it, or one has just failed"
                : "\(beginning), which a failed run left; the next run that changes rows settles it"
        }
        return isSeen
            ? "\(beginning), and store.active-users.table is \(name); a run whose settings name "
                + "\(table) settles it"
            : "\(beginning), which this account does not see, and store.active-users.table is \(name); "
                + Self.cure(renamed: table, to: name.description)
    }

    /// What to do about a chunk of a table that has another name now, or is gone.
    static func cure(renamed old: String, to new: String) -> String {
        "if \(old) was renamed to it, run UPDATE pushsweep_feed SET table_name = '\(new)' WHERE "
            + "table_name = '\(old)', and the next run settles it; if \(old) is gone for good, run "
            + "UPDATE pushsweep_feed SET pending = NULL WHERE table_name = '\(old)'"
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
                "SELECT feed, part, table_name, changed_at, \(dialect.now) FROM pushsweep_feed "
                    + "WHERE pending IS NOT NULL ORDER BY feed, part")
            let catalog = Catalog(connection: connection)
            var seen: [String: Bool] = [:]
            var feeds: [PendingFeed] = []
            for row in 0..<open.count {
                guard let feed = open[row, 0].text, let part = open[row, 1].count,
                    let table = open[row, 2].text
                else { continue }
                let since = time.mark(open[row, 3])
                let now = try dialect.instant(open[row, 4]).rawValue
                let isSeen: Bool
                if let known = seen[table] {
                    isSeen = known
                } else if let name = try? TableName(table) {
                    isSeen = try catalog.table(name) != nil
                } else {
                    isSeen = false
                }
                seen[table] = isSeen
                feeds.append(
                    PendingFeed(
                        feed: feed, part: part, table: table, since: since,
                        isRecent: now - (since?.rawValue ?? 0) < PendingFeed.longestCommit,
                        isSeen: isSeen))
            }
            return feeds
        }
    }

    /// Findings about pending chunks, for `check`.
    func pendingFindings(_ layout: TableLayout) throws(StoreFailure) -> [StoreFinding] {
        guard connection.dialect.engine == .mariaDB,
            try session.canRead("pushsweep_feed", "feed, part, table_name, changed_at, pending")
        else { return [] }
        return try pendingFeeds().filter { $0.table == layout.table.description || !$0.isRecent }
            .map { feed in
                StoreFinding(
                    feed.isRecent ? .ok : .warning, feed.sentence(settings: layout.table))
            }
    }
}
