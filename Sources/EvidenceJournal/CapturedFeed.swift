import APNsProtocol
import GRDB
import TokenHygiene

/// The state of a captured feed. A feed is in exactly one state.
package enum FeedState: String, CaseIterable, Hashable, Sendable {
    /// The run that holds the lock is reading it.
    case reading
    /// Its bytes are durable, and it is not known yet whether their source gave them up; see
    /// `openIntakes`.
    case taking
    /// Its bytes are durable, and its evidence is not applied yet.
    case pending
    /// The token database has all changes that follow from it.
    case applied
    /// It waits for a person's decision.
    case held
    /// A person discarded it. Its bytes are kept as long as those of an applied feed.
    case discarded
}

/// A captured feed and its state, as the journal stores it.
package struct CapturedFeed: Hashable, Sendable {
    /// A random UUID in lower case. Journal, database and reports use the same name.
    package let id: String
    /// The app and environment of its tokens.
    package let partition: Partition
    /// The origin of its bytes: a feedback list, or answers of APNs with one reason.
    package let kind: EvidenceSource
    /// `host:port` of the gateway, or the path of the file.
    package let source: String
    /// The time at which the run opened it.
    package let opened: EpochMilliseconds
    /// Number of bytes the journal has stored.
    package let bytes: Int
    /// How reading ended; nil while a run is reading.
    package let end: CaptureEnd?
    /// Its state.
    package let state: FeedState
    /// The reason for which it is held or was discarded; nil otherwise.
    package let cause: String?
    /// The guard's gate that holds it; nil when it is not held, or held for another reason.
    package let gate: GuardGate?
    /// The time at which `EvidenceJournal.close` last changed its state; nil before.
    package let closedAt: EpochMilliseconds?
    /// Whether its bytes were deleted at the end of the retention period.
    package let isPurged: Bool
}

extension CapturedFeed {
    /// Reads a row of the table `feed`.
    ///
    /// - Throws: `UnreadableRow` when a value is invalid. A feed is never skipped for that.
    init(_ row: Row) throws {
        id = try row.value("id")
        partition = Partition(
            app: try row.value("app"), environment: try row.value("environment"))
        kind = try row.word(row.value("kind"), in: "kind")
        source = try row.value("source")
        opened = EpochMilliseconds(try row.value("opened"))
        bytes = try row.value("bytes")
        end = try row.optional("end").map { try row.word($0, in: "end") }
        state = try row.word(row.value("state"), in: "state")
        cause = try row.optional("cause")
        gate = try row.optional("gate").map { try row.word($0, in: "gate") }
        closedAt = try row.optional("settled").map { EpochMilliseconds($0) }
        isPurged = try row.value("purged")
    }
}

// The first feed that the guard stops holds its partition. Later feeds of the partition wait behind
// it, because the suspicion about the first one will apply to them too. Once a person has decided
// about the first, the guard judges the others like any feed.

extension EvidenceJournal {
    /// The feed that holds a partition: the first that the guard stopped by one of its own gates.
    package func holder(of partition: Partition) throws(JournalFailure) -> CapturedFeed? {
        try perform("looking for what holds \(partition)") { db in
            try Row.fetchOne(
                db,
                sql: """
                    SELECT * FROM feed WHERE state = ? AND app = ? AND environment = ?
                    AND gate IS NOT NULL AND gate <> ? ORDER BY opened, rowid LIMIT 1
                    """,
                arguments: [
                    FeedState.held.rawValue, partition.app, partition.environment,
                    GuardGate.behind.rawValue,
                ]
            ).map(CapturedFeed.init)
        }
    }

    /// Makes pending the feeds that wait behind feeds that are decided.
    package func releaseFollowers() throws(JournalFailure) {
        try perform("freeing feeds that wait behind others") { db in
            try db.execute(
                sql: """
                    UPDATE feed SET state = :pending, cause = NULL, gate = NULL
                    WHERE state = :held AND gate = :behind AND NOT EXISTS (
                        SELECT 1 FROM feed AS holder WHERE holder.state = :held
                        AND holder.app = feed.app AND holder.environment = feed.environment
                        AND holder.gate <> :behind)
                    """,
                arguments: [
                    "pending": FeedState.pending.rawValue, "held": FeedState.held.rawValue,
                    "behind": GuardGate.behind.rawValue,
                ])
        }
    }
}
