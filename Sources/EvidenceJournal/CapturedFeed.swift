import APNsProtocol
import GRDB
import TokenHygiene

/// Where a captured feed stands: in exactly one of these.
package enum FeedState: String, CaseIterable, Hashable, Sendable {
    /// Being read by the run that holds the lock.
    case reading
    /// Durable, not yet applied.
    case pending
    /// The token database has all that follows from it.
    case applied
    /// Waiting for a person.
    case held
    /// Dropped by a person; its bytes are kept as long as those of an applied feed.
    case discarded
}

/// A feed as the journal keeps it.
package struct CapturedFeed: Hashable, Sendable {
    /// A random UUID, lower case; the same name in journal, database and reports.
    package let id: String
    /// What the feed is about.
    package let partition: Partition
    /// What its bytes are: a feedback list, or answers of APNs under one reason.
    package let kind: EvidenceSource
    /// `host:port` or the file it came from.
    package let source: String
    /// When it was opened.
    package let opened: EpochMilliseconds
    /// Bytes kept.
    package let bytes: Int
    /// How reading ended; nil while it goes on.
    package let end: CaptureEnd?
    /// Where it stands.
    package let state: FeedState
    /// Why it is held, or was discarded, if it is.
    package let cause: String?
    /// The gate of the guard that holds it; nil where it is held for another reason, or not.
    package let gate: GuardGate?
    /// When it was last moved on by `settle`; nil before.
    package let closedAt: EpochMilliseconds?
    /// Whether its bytes were dropped after the retention.
    package let isPurged: Bool
}

extension CapturedFeed {
    /// Reads a row of the table `feed`.
    ///
    /// - Throws: `UnreadableRow` where a value makes no sense; a feed is never left out for that.
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

/// Bytes of a captured feed that are no evidence; they stay in the journal as they came.
package struct Quarantined: Hashable, Sendable {
    /// Where they begin in the feed.
    package let offset: Int
    /// How many there are.
    package let length: Int
    /// Why.
    package let reason: String

    /// Names bytes of a feed.
    package init(offset: Int, length: Int, reason: String) {
        self.offset = offset
        self.length = length
        self.reason = reason
    }
}
