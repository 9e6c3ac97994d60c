import GRDB
import TokenHygiene

/// A range of bytes in a captured feed that is not evidence. The bytes stay in the journal unchanged.
package struct Quarantined: Hashable, Sendable {
    /// Offset of the first byte in the feed, from 0.
    package let offset: Int
    /// Number of bytes.
    package let length: Int
    /// Why the bytes are not evidence.
    package let reason: String

    /// Describes a range of bytes of a feed.
    package init(offset: Int, length: Int, reason: String) {
        self.offset = offset
        self.length = length
        self.reason = reason
    }
}

/// A feed with quarantined bytes, and their number.
package struct QuarantinedFeed: Hashable, Sendable {
    /// The feed.
    package let feed: CapturedFeed
    /// Number of quarantined places in it.
    package let places: Int
    /// Number of bytes in all these places.
    package let bytes: Int
}

extension EvidenceJournal {
    /// Records a place with bytes that are not evidence. Recording it again changes nothing.
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

    /// The quarantined places of a feed, in feed order, at most `limit`.
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

    /// Records that a person has looked at the quarantine of a feed. A feed of lines that could not be used
    /// has nothing else, so its bytes are deleted at once, those of another feed with the feed. Returns the
    /// number of places.
    package func releaseQuarantine(of feed: String) throws(JournalFailure) -> Int {
        let places = try perform("removing the quarantine of feed \(feed)") { db in
            var places = 0
            try db.inTransaction(.immediate) {
                try db.execute(sql: "DELETE FROM quarantine WHERE feed = ?", arguments: [feed])
                places = db.changesCount
                try db.execute(
                    sql: "UPDATE feed SET purged = 1 WHERE id = ? AND kind = ? AND state = ?",
                    arguments: [
                        feed, EvidenceSource.unusable.rawValue, FeedState.applied.rawValue,
                    ])
                if db.changesCount > 0 {
                    try db.execute(sql: "DELETE FROM chunk WHERE feed = ?", arguments: [feed])
                }
                return .commit
            }
            return places
        }
        try giveRoomBack()
        return places
    }
}
