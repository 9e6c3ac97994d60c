import APNsProtocol
import Database
import Encodings
import FoundationEssentials
import TokenHygiene

/// A list that a run is reading. It takes raw bytes and returns once they are durable.
package final class ListCapture {
    /// The name of the list, a random UUID.
    package let id: String
    /// Number of bytes stored so far.
    package private(set) var bytes = 0
    private let journal: EvidenceJournal
    private var arriving: ArrivingBytes?

    /// - Parameter bytes: number of bytes that the journal has of the list.
    init(id: String, bytes: Int = 0, journal: EvidenceJournal) {
        (self.id, self.bytes, self.journal) = (id, bytes, journal)
    }

    /// A place for the bytes of a source that forgets them, from its socket until `append` has them.
    ///
    /// - Parameter capacity: the most bytes that are read and not yet appended.
    /// - Throws: `permission`, `cannotCreate`, `inputOutput`; then the list is abandoned.
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

    /// Stores the next bytes of the list. They are durable when this returns.
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

    /// Ends the capture. The list is pending then, or held for the given cause.
    package func close(
        _ end: CaptureEnd, at now: EpochMilliseconds, heldBecause cause: String? = nil
    ) throws(JournalFailure) {
        try journal.change(
            "closing list \(id)",
            """
            UPDATE feed SET state = \(cause == nil ? ListState.pending : .held), end = \(end),
            closed = \(now), cause = \(cause) WHERE id = \(id)
            """)
        arriving?.remove()
    }

    /// Removes the list. It is for a gateway that was never reached, so there are no bytes to keep.
    package func abandon() throws(JournalFailure) {
        precondition(bytes == 0, "a list with bytes is never abandoned")
        try journal.discard(id)
        arriving?.remove()
    }
}

extension EvidenceJournal {
    /// Opens a capture, before the first byte of a list is read.
    package func beginList(
        run: String, partition: Partition, source: String, at now: EpochMilliseconds
    ) throws(JournalFailure) -> ListCapture {
        let id = UUID().uuidString.lowercased()
        try change(
            "opening a list in the journal",
            """
            INSERT INTO feed (id, run, app, environment, source, opened, state)
            VALUES (\(id), \(run), \(partition.app), \(partition.environment), \(source), \(now),
                \(ListState.reading))
            """)
        return ListCapture(id: id, journal: self)
    }

    /// The lists in the given states, oldest first.
    package func lists(_ states: ListState...) throws(JournalFailure) -> [CapturedList] {
        // A list with an unknown state is fetched too, so that it is reported and not skipped.
        try rows(
            "listing the lists of the journal",
            """
            SELECT * FROM feed WHERE state IN (\(list: states.map(\.rawValue)))
            OR state NOT IN (\(list: ListState.allCases.map(\.rawValue))) ORDER BY opened, rowid
            """, CapturedList.init)
    }

    /// The list with a name.
    ///
    /// - Throws: `unknownList` when the journal has no list of this name.
    package func list(_ id: String) throws(JournalFailure) -> CapturedList {
        let found = try rows(
            "looking for list \(id) in the journal", "SELECT * FROM feed WHERE id = \(id)",
            CapturedList.init)
        guard let found = found.first else {
            throw JournalFailure(
                .unknownList,
                "looking for list \(id.isEmpty ? "''" : id): neither the database nor the journal of this "
                    + "host has one of this name; give the whole name, as holds list --format json, quarantine list "
                    + "and the reports of runs print it")
        }
        return found
    }

    /// Removes a list with all its bytes. Its evidence is lost unless it is kept elsewhere.
    package func discard(_ id: String) throws(JournalFailure) {
        try perform("removing list \(id) from the journal") { db in
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

    /// Checks that the journal still has the bytes of a list.
    ///
    /// - Throws: `unknownList` when the retention period has ended, or when the journal never had the
    ///   list.
    private func ensureBytes(of id: String) throws(JournalFailure) {
        guard try list(id).isPurged else { return }
        throw JournalFailure(
            .unknownList,
            "reading list \(id) from the journal: it was applied, and its bytes were dropped "
                + "\(Self.retentionDays) days later; nothing can be done with it any more"
        )
    }

    /// Passes the bytes of a list to a body, in order, in the chunks in which they were stored.
    ///
    /// - Throws: the errors of the body, and `JournalFailure`, also when the bytes were deleted.
    package func forEachChunk(
        of list: String, _ body: (UnsafeRawBufferPointer) throws -> Void
    ) throws {
        try ensureBytes(of: list)
        var start = 0
        while let chunk = try chunk(of: list, at: start) {
            // Chunks are never empty when written, and an empty one would make this loop endless.
            guard !chunk.isEmpty else {
                throw JournalFailure(
                    .inputOutput,
                    "reading list \(list) from the journal: \(Refusal.column("bytes"))")
            }
            try chunk.withUnsafeBytes(body)
            start += chunk.count
        }
    }

    private func chunk(of list: String, at start: Int) throws(JournalFailure) -> [UInt8]? {
        try perform("reading list \(list) from the journal") { db in
            let found = try db.query(
                "SELECT bytes FROM chunk WHERE feed = ? AND start = ?",
                [.text(list), .integer(Int64(start))]
            ).scalar
            // Any other value is read as an empty chunk, which the caller refuses.
            guard let found else { return nil }
            if case .bytes(let bytes) = found { return bytes }
            return []
        }
    }

    /// Records that the database has all of a list, also what it has in quarantine. Its bytes are kept for the
    /// retention period from `now` on.
    package func noteApplied(_ list: String, at now: EpochMilliseconds) throws(JournalFailure) {
        try perform("noting list \(list) as applied") { db in
            try db.transaction {
                try db.change("DELETE FROM quarantine WHERE feed = \(list)")
                try db.change(
                    """
                    UPDATE feed SET state = \(ListState.applied), cause = NULL, settled = \(now)
                    WHERE id = \(list)
                    """)
            }
        }
    }
}
