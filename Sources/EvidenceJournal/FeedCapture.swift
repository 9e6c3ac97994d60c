import APNsProtocol
import Database
import Encodings
import FoundationEssentials
import TokenHygiene

/// A feed that a run is reading. It takes raw bytes and returns once they are durable.
package final class FeedCapture {
    /// The name of the feed, a random UUID.
    package let id: String
    /// Number of bytes stored so far.
    package private(set) var bytes = 0
    private let journal: EvidenceJournal
    private var arriving: ArrivingBytes?

    /// - Parameter bytes: number of bytes that the journal has of the feed.
    init(id: String, bytes: Int = 0, journal: EvidenceJournal) {
        (self.id, self.bytes, self.journal) = (id, bytes, journal)
    }

    /// A place for the bytes of a source that forgets them, from its socket until `append` has them.
    ///
    /// - Parameter capacity: the most bytes that are read and not yet appended.
    /// - Throws: `permission`, `cannotCreate`, `inputOutput`; then the feed is abandoned.
    package func arrival(capacity: Int) throws(JournalFailure) -> ArrivingBytes {
        do {
            let made = try ArrivingBytes(of: id, capacity: capacity, in: journal.folder)
            arriving = made
            return made
        } catch {
            try abandon()
            throw error
        }
    }

    /// Stores the next bytes of the feed. They are durable when this returns.
    ///
    /// - Throws: `inputOutput`; then it is unknown whether these bytes are durable.
    package func append(_ chunk: UnsafeRawBufferPointer) throws(JournalFailure) {
        try append(Array(chunk))
    }

    func append(_ chunk: [UInt8]) throws(JournalFailure) {
        guard !chunk.isEmpty else { return }
        let (id, offset) = (id, bytes)
        try journal.perform("keeping \(chunk.count) bytes of feed \(id)") { db in
            try db.transaction {
                try db.change(
                    """
                    INSERT INTO chunk (feed, start, bytes)
                    VALUES (\(id), \(offset), \(SQLValue.bytes(chunk)))
                    """)
                try db.change("UPDATE feed SET bytes = \(offset + chunk.count) WHERE id = \(id)")
            }
        }
        bytes += chunk.count
    }

    /// Ends the capture. The feed is pending then, or held for the given cause.
    package func close(
        _ end: CaptureEnd, at now: EpochMilliseconds, heldBecause cause: String? = nil
    ) throws(JournalFailure) {
        try journal.change(
            "closing feed \(id)",
            """
            UPDATE feed SET state = \(cause == nil ? FeedState.pending : .held), end = \(end),
            closed = \(now), cause = \(cause) WHERE id = \(id)
            """)
        arriving?.remove()
    }

    /// Removes the feed. It is for a gateway that was never reached, so there are no bytes to keep.
    package func abandon() throws(JournalFailure) {
        precondition(bytes == 0, "a feed with bytes is never abandoned")
        try journal.discard(id)
        arriving?.remove()
    }
}

extension EvidenceJournal {
    /// Opens a capture, before the first byte of a list is read.
    package func beginFeed(
        run: String, partition: Partition, source: String, at now: EpochMilliseconds
    ) throws(JournalFailure) -> FeedCapture {
        let id = UUID().uuidString.lowercased()
        try change(
            "opening a feed in the journal",
            """
            INSERT INTO feed (id, run, app, environment, source, opened, state)
            VALUES (\(id), \(run), \(partition.app), \(partition.environment), \(source), \(now),
                \(FeedState.reading))
            """)
        return FeedCapture(id: id, journal: self)
    }

    /// The feeds in the given states, oldest first.
    package func feeds(_ states: FeedState...) throws(JournalFailure) -> [CapturedFeed] {
        // A feed with an unknown state is fetched too, so that it is reported and not skipped.
        try rows(
            "listing the feeds of the journal",
            """
            SELECT * FROM feed WHERE state IN (\(list: states.map(\.rawValue)))
            OR state NOT IN (\(list: FeedState.allCases.map(\.rawValue))) ORDER BY opened, rowid
            """, CapturedFeed.init)
    }

    /// The feed with a name.
    ///
    /// - Throws: `unknownFeed` when the journal has no feed of this name.
    package func feed(_ id: String) throws(JournalFailure) -> CapturedFeed {
        let found = try rows(
            "looking for feed \(id) in the journal", "SELECT * FROM feed WHERE id = \(id)",
            CapturedFeed.init)
        guard let found = found.first else {
            throw JournalFailure(
                .unknownFeed,
                "looking for feed \(id.isEmpty ? "''" : id): neither the database nor the journal of this "
                    + "host has one of this name; give the whole name, as holds list --format json, quarantine list "
                    + "and the reports of runs print it")
        }
        return found
    }

    /// Removes a feed with all its bytes. Its evidence is lost unless it is kept elsewhere.
    package func discard(_ id: String) throws(JournalFailure) {
        try perform("removing feed \(id) from the journal") { db in
            try db.transaction {
                for place: JournalSQL in [
                    "quarantine WHERE feed", "chunk WHERE feed", "feed WHERE id",
                ] {
                    try db.change("DELETE FROM \(place) = \(id)")
                }
            }
        }
        try giveRoomBack()
    }

    /// Checks that the journal still has the bytes of a feed.
    ///
    /// - Throws: `unknownFeed` when the retention period has ended, or when the journal never had the
    ///   feed.
    private func ensureBytes(of id: String) throws(JournalFailure) {
        guard try feed(id).isPurged else { return }
        throw JournalFailure(
            .unknownFeed,
            "reading feed \(id) from the journal: it was applied, and its bytes were dropped "
                + "\(Self.retentionDays) days later; nothing can be done with it any more"
        )
    }

    /// Passes the bytes of a feed to a body, in order, in the chunks in which they were stored.
    ///
    /// - Throws: the errors of the body, and `JournalFailure`, also when the bytes were deleted.
    package func forEachChunk(
        of feed: String, _ body: (UnsafeRawBufferPointer) throws -> Void
    ) throws {
        try ensureBytes(of: feed)
        var start = 0
        while let chunk = try chunk(of: feed, at: start) {
            // Chunks are never empty when written, and an empty one would make this loop endless.
            guard !chunk.isEmpty else {
                throw JournalFailure(
                    .inputOutput,
                    "reading feed \(feed) from the journal: \(Refusal.column("bytes"))")
            }
            try chunk.withUnsafeBytes(body)
            start += chunk.count
        }
    }

    private func chunk(of feed: String, at start: Int) throws(JournalFailure) -> [UInt8]? {
        try perform("reading feed \(feed) from the journal") { db in
            let found = try db.query(
                "SELECT bytes FROM chunk WHERE feed = ? AND start = ?",
                [.text(feed), .integer(Int64(start))]
            ).scalar
            // Any other value is read as an empty chunk, which the caller refuses.
            guard let found else { return nil }
            if case .bytes(let bytes) = found { return bytes }
            return []
        }
    }

    /// Records that the database has all of a feed, also what it has in quarantine. Its bytes are kept for the
    /// retention period from `now` on.
    package func noteApplied(_ feed: String, at now: EpochMilliseconds) throws(JournalFailure) {
        try perform("noting feed \(feed) as applied") { db in
            try db.transaction {
                try db.change("DELETE FROM quarantine WHERE feed = \(feed)")
                try db.change(
                    """
                    UPDATE feed SET state = \(FeedState.applied), cause = NULL, settled = \(now)
                    WHERE id = \(feed)
                    """)
            }
        }
    }
}
