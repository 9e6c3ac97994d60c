import APNsProtocol
import GRDB
import TokenHygiene

/// Where a captured feed stands: in exactly one of these.
package enum FeedState: String, Hashable, Sendable {
    /// Being read by the run that holds the lock.
    case reading
    /// Durable, not yet applied.
    case pending
    /// The token database has all that follows from it.
    case applied
    /// Waiting for a person.
    case held
}

/// A feed as the journal keeps it.
package struct CapturedFeed: Hashable, Sendable {
    /// A random UUID, lower case; the same name in journal, database and reports.
    package let id: String
    /// What the feed is about.
    package let partition: Partition
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
    /// Why it is held, if it is.
    package let cause: String?
}

extension CapturedFeed {
    /// Reads a row of the table `feed`.
    init?(_ row: Row) {
        guard let state = FeedState(rawValue: row["state"]) else { return nil }
        id = row["id"]
        partition = Partition(app: row["app"], environment: row["environment"])
        source = row["source"]
        opened = EpochMilliseconds(row["opened"])
        bytes = row["bytes"]
        end = (row["end"] as String?).flatMap(CaptureEnd.init(rawValue:))
        self.state = state
        cause = row["cause"]
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
