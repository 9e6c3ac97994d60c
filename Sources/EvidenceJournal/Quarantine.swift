import GRDB
import TokenHygiene

/// A feed of which a part is no evidence.
package struct QuarantinedFeed: Hashable, Sendable {
    /// The feed.
    package let feed: CapturedFeed
    /// Quarantined places in it.
    package let places: Int
    /// Bytes in all of them.
    package let bytes: Int
}

extension EvidenceJournal {
    /// Notes bytes of a feed that are no evidence. Noting them again changes nothing.
    package func quarantine(
        _ entries: [Quarantined], of feed: String
    ) throws(JournalFailure) {
        guard !entries.isEmpty else { return }
        try perform("quarantining parts of feed \(feed)") { db in
            try db.inTransaction(.immediate) {
                let statement = try db.cachedStatement(
                    sql: "INSERT OR REPLACE INTO quarantine VALUES (?, ?, ?, ?)")
                for entry in entries {
                    try statement.execute(
                        arguments: [feed, entry.offset, entry.length, entry.reason])
                }
                return .commit
            }
        }
    }

    /// What of a feed is quarantined, in feed order, at most `limit` places.
    package func quarantined(
        of feed: String, limit: Int = .max
    ) throws(JournalFailure) -> [Quarantined] {
        try perform("listing the quarantine of feed \(feed)") { db in
            try Row.fetchAll(
                db, sql: "SELECT * FROM quarantine WHERE feed = ? ORDER BY start LIMIT ?",
                arguments: [feed, limit]
            ).map { row in
                Quarantined(
                    offset: try row.value("start"), length: try row.value("length"),
                    reason: try row.value("reason"))
            }
        }
    }

    /// The feeds with quarantined bytes, oldest first.
    package func quarantinedFeeds() throws(JournalFailure) -> [QuarantinedFeed] {
        try perform("listing the quarantine") { db in
            try Row.fetchAll(
                db,
                sql: """
                    SELECT feed.*, COUNT(*) AS places, SUM(length) AS amount
                    FROM quarantine JOIN feed ON feed.id = quarantine.feed
                    GROUP BY feed.id ORDER BY feed.opened
                    """
            ).map { row in
                QuarantinedFeed(
                    feed: try CapturedFeed(row), places: try row.value("places"),
                    bytes: try row.value("amount"))
            }
        }
    }

    /// Takes note that somebody has looked at the quarantine of a feed; its bytes go with the next
    /// purge. Returns how many places there were.
    package func releaseQuarantine(of feed: String) throws(JournalFailure) -> Int {
        try perform("removing the quarantine of feed \(feed)") { db in
            try db.execute(sql: "DELETE FROM quarantine WHERE feed = ?", arguments: [feed])
            return db.changesCount
        }
    }
}
