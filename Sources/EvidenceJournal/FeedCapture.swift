import APNsProtocol
import Foundation
import GRDB
import TokenHygiene

/// A feed being read: takes raw bytes and returns once they are durable.
package final class FeedCapture {
    /// The feed's name, a random UUID.
    package let id: String
    /// Bytes kept so far.
    package private(set) var bytes = 0
    private let journal: EvidenceJournal

    fileprivate init(id: String, journal: EvidenceJournal) {
        self.id = id
        self.journal = journal
    }

    /// Keeps the next bytes of the feed; they are on disk when this returns.
    ///
    /// - Throws: `inputOutput`; then nothing about these bytes may be assumed.
    package func append(_ chunk: UnsafeRawBufferPointer) throws(JournalFailure) {
        guard let start = chunk.baseAddress, !chunk.isEmpty else { return }
        // GRDB binds Data without copying it again; the pointer outlives the statement.
        let data = Data(
            bytesNoCopy: UnsafeMutableRawPointer(mutating: start), count: chunk.count,
            deallocator: .none)
        let (id, offset) = (id, bytes)
        try journal.perform("keeping \(chunk.count) bytes of feed \(id)") { db in
            try db.inTransaction(.immediate) {
                try db.cachedStatement(
                    sql: "INSERT INTO chunk (feed, start, bytes) VALUES (?, ?, ?)"
                ).execute(arguments: [id, offset, data])
                try db.cachedStatement(sql: "UPDATE feed SET bytes = ? WHERE id = ?")
                    .execute(arguments: [offset + chunk.count, id])
                return .commit
            }
        }
        bytes += chunk.count
    }

    /// Ends the capture: from here on the feed is pending, or held for the cause given.
    package func close(
        _ end: CaptureEnd, at now: EpochMilliseconds, heldBecause cause: String? = nil
    ) throws(JournalFailure) {
        let state = cause == nil ? FeedState.pending : .held
        let id = id
        try journal.perform("closing feed \(id)") { db in
            try db.execute(
                sql: "UPDATE feed SET state = ?, end = ?, closed = ?, cause = ? WHERE id = ?",
                arguments: [state.rawValue, end.rawValue, now.rawValue, cause, id])
        }
    }

    /// Takes the feed back: the gateway was never reached, so there is nothing to remember.
    package func abandon() throws(JournalFailure) {
        precondition(bytes == 0, "a feed with bytes is never abandoned")
        let id = id
        try journal.perform("removing the empty feed \(id)") { db in
            try db.execute(sql: "DELETE FROM feed WHERE id = ?", arguments: [id])
        }
    }
}

extension EvidenceJournal {
    /// Opens a capture before the gateway is asked for its list, or of answers of APNs when the
    /// first has come.
    package func beginFeed(
        run: String, partition: Partition, source: String, kind: EvidenceSource = .feedback,
        at now: EpochMilliseconds
    ) throws(JournalFailure) -> FeedCapture {
        let id = UUID().uuidString.lowercased()
        try perform("opening a feed in the journal") { db in
            try db.execute(
                sql: """
                    INSERT INTO feed (id, run, app, environment, source, opened, state, kind)
                    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                    """,
                arguments: [
                    id, run, partition.app, partition.environment, source, now.rawValue,
                    FeedState.reading.rawValue, kind.rawValue,
                ])
        }
        return FeedCapture(id: id, journal: self)
    }

    /// The feeds in a state, oldest first.
    package func feeds(_ states: FeedState...) throws(JournalFailure) -> [CapturedFeed] {
        try perform("listing the feeds of the journal") { db in
            // A state that is none of ours is fetched too, to be told rather than passed over.
            let all = FeedState.allCases
            return try Row.fetchAll(
                db,
                sql: """
                    SELECT * FROM feed WHERE state IN (\(databaseQuestionMarks(count: states.count)))
                    OR state NOT IN (\(databaseQuestionMarks(count: all.count)))
                    ORDER BY opened, rowid
                    """,
                arguments: StatementArguments((states + all).map(\.rawValue))
            ).map(CapturedFeed.init)
        }
    }

    /// A feed by its name.
    ///
    /// - Throws: `unknownFeed` where the journal has none of this name.
    package func feed(_ id: String) throws(JournalFailure) -> CapturedFeed {
        let found = try perform("looking for feed \(id) in the journal") { db in
            try Row.fetchOne(db, sql: "SELECT * FROM feed WHERE id = ?", arguments: [id])
                .map(CapturedFeed.init)
        }
        guard let found else {
            throw JournalFailure(
                .unknownFeed,
                "looking for feed \(id.isEmpty ? "''" : id): the journal has none of this name; give the whole "
                    + "one, as quarantine list and check print it and the reports of runs")
        }
        return found
    }

    /// Removes a feed with all its bytes. What it says is gone, unless it is kept elsewhere.
    package func discard(_ id: String) throws(JournalFailure) {
        try perform("removing feed \(id) from the journal") { db in
            try db.inTransaction(.immediate) {
                for table in ["quarantine", "chunk"] {
                    try db.execute(sql: "DELETE FROM \(table) WHERE feed = ?", arguments: [id])
                }
                try db.execute(sql: "DELETE FROM feed WHERE id = ?", arguments: [id])
                return .commit
            }
        }
    }

    /// Makes sure that the bytes of a feed were not dropped after the retention.
    ///
    /// - Throws: `unknownFeed`, also where the journal never had the feed.
    package func ensureBytes(of id: String) throws(JournalFailure) {
        guard try feed(id).isPurged else { return }
        throw JournalFailure(
            .unknownFeed,
            "reading feed \(id) from the journal: it was applied or discarded, and its bytes were "
                + "dropped \(Self.retentionDays) days later; nothing can be done with it any more"
        )
    }

    /// Lends the bytes of a feed in order, in the pieces in which they were kept.
    ///
    /// - Throws: what the body throws, and `JournalFailure`, also where the bytes were dropped.
    package func forEachChunk(
        of feed: String, _ body: (UnsafeRawBufferPointer) throws -> Void
    ) throws {
        try ensureBytes(of: feed)
        var start = 0
        while let chunk = try chunk(of: feed, at: start) {
            // An empty piece was never written, and reading on from it would never end.
            guard !chunk.isEmpty else {
                throw JournalFailure(
                    .inputOutput,
                    "reading feed \(feed) from the journal: \(UnreadableRow(column: "bytes"))")
            }
            try chunk.withUnsafeBytes(body)
            start += chunk.count
        }
    }

    private func chunk(of feed: String, at start: Int) throws(JournalFailure) -> Data? {
        try perform("reading feed \(feed) from the journal") { db in
            try Data.fetchOne(
                db.cachedStatement(sql: "SELECT bytes FROM chunk WHERE feed = ? AND start = ?"),
                arguments: [feed, start])
        }
    }

    /// Moves a feed on after the database has confirmed it, or holds it for a person, or takes note
    /// that a person dropped it. The retention of an applied or discarded feed begins at `now`.
    package func settle(
        _ feed: String, as state: FeedState, cause: String? = nil, gate: GuardGate? = nil,
        at now: EpochMilliseconds
    ) throws(JournalFailure) {
        try perform("noting feed \(feed) as \(state.rawValue)") { db in
            try db.execute(
                sql: "UPDATE feed SET state = ?, cause = ?, gate = ?, settled = ? WHERE id = ?",
                arguments: [state.rawValue, cause, gate?.rawValue, now.rawValue, feed])
        }
    }
}
