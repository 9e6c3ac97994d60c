import Database
import TokenHygiene

/// A range of bytes in a captured feed that is not evidence. The bytes stay in the journal unchanged.
package struct Quarantined: Codable, Hashable, Sendable {
    /// Offset of the first byte in the feed, from 0.
    package let offset: Int
    /// Number of bytes.
    package let length: Int
    /// Why the bytes are not evidence.
    package let reason: String

    package init(offset: Int, length: Int, reason: String) {
        self.offset = offset
        self.length = length
        self.reason = reason
    }
}

/// A feed with quarantined bytes, and their number.
package struct QuarantinedFeed: Hashable, Sendable {
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
            try db.transaction {
                for entry in entries {
                    try db.change(
                        """
                        INSERT OR REPLACE INTO quarantine
                        VALUES (\(feed), \(entry.offset), \(entry.length), \(entry.reason))
                        """)
                }
            }
        }
    }

    /// The quarantined places of a feed, in feed order, at most `limit`.
    package func quarantined(
        of feed: String, limit: Int = .max
    ) throws(JournalFailure) -> [Quarantined] {
        try rows(
            "listing the quarantine of feed \(feed)",
            "SELECT * FROM quarantine WHERE feed = \(feed) ORDER BY start LIMIT \(limit)"
        ) { row in
            Quarantined(
                offset: try row.value("start"), length: try row.value("length"),
                reason: try row.value("reason"))
        }
    }

    /// The feeds with quarantined bytes, oldest first.
    package func quarantinedFeeds() throws(JournalFailure) -> [QuarantinedFeed] {
        try rows(
            "listing the quarantine",
            """
            SELECT feed.*, COUNT(*) AS places, SUM(length) AS amount
            FROM quarantine JOIN feed ON feed.id = quarantine.feed
            GROUP BY feed.id ORDER BY feed.opened
            """
        ) { row in
            QuarantinedFeed(
                feed: try CapturedFeed(row), places: try row.value("places"),
                bytes: try row.value("amount"))
        }
    }

    /// Records that a person has looked at the quarantine of a feed. A feed of lines that could not be used
    /// has nothing else, so its bytes are deleted at once, those of another feed with the feed. Returns the
    /// number of places.
    package func releaseQuarantine(of feed: String) throws(JournalFailure) -> Int {
        let places = try perform("removing the quarantine of feed \(feed)") { db in
            try db.transaction {
                let places = try db.change("DELETE FROM quarantine WHERE feed = \(feed)")
                let purged = try db.change(
                    """
                    UPDATE feed SET purged = 1 WHERE id = \(feed)
                    AND kind = \(EvidenceSource.unusable) AND state = \(FeedState.applied)
                    """)
                if purged > 0 { try db.change("DELETE FROM chunk WHERE feed = \(feed)") }
                return places
            }
        }
        try giveRoomBack()
        return places
    }
}
