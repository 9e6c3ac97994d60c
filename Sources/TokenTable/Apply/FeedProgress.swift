import APNsProtocol
import Database
import TokenHygiene

/// The application of one captured feed to the rows of one partition.
package struct FeedApplication: Hashable, Sendable {
    /// The run that applies it, as a UUID in text.
    package let run: String
    /// The captured feed, as a UUID in text. Applying the same feed again changes nothing.
    package let feed: String
    /// The part of the feed to apply.
    package let part: FeedPart
    /// The partition whose rows are judged.
    package let partition: Partition
    /// The policy for stale rows.
    package let policy: RemovalPolicy
    /// The source of the evidence; stored with marks and in the ledger.
    package let source: EvidenceSource
    /// The lease that every transaction requires to be in force; nil where several runs may apply
    /// at once.
    package let lease: Lease?
    /// Whether a person released the feed. Its removals do not count as usual removals.
    package let isReleased: Bool

    /// Makes the application of a feed; by default of the whole feed, not released and without a
    /// lease.
    package init(
        run: String, feed: String, part: FeedPart = .whole, partition: Partition,
        policy: RemovalPolicy, source: EvidenceSource, lease: Lease? = nil,
        isReleased: Bool = false
    ) {
        self.run = run
        self.feed = feed
        self.part = part
        self.partition = partition
        self.policy = policy
        self.source = source
        self.lease = lease
        self.isReleased = isReleased
    }

    /// The application of one part of the feed.
    func part(_ part: FeedPart) -> FeedApplication {
        FeedApplication(
            run: run, feed: feed, part: part, partition: partition, policy: policy, source: source,
            lease: lease, isReleased: isReleased)
    }
}

/// The progress of a feed as stored in its marker.
package struct FeedProgress: Hashable, Sendable {
    /// The last token applied; nil before the first. Application continues after it. Nil also for
    /// several parts taken together.
    package var position: DeviceToken?
    /// The outcomes of the statements up to `position`.
    package var counts: OutcomeCounts
    /// The number of rows marked, deleted or advanced so far.
    package var rowsChanged: Int
    /// The number of living rows that became invalid so far.
    package var rowsInvalidated: Int
    /// The number of rows that could not be judged or refused the change; the ledger names them.
    package var rowsRefused: Int
    /// Whether the whole feed is applied.
    package var isApplied: Bool

    /// Makes progress; by default none.
    package init(
        position: DeviceToken? = nil, counts: OutcomeCounts = OutcomeCounts(), rowsChanged: Int = 0,
        rowsInvalidated: Int = 0, rowsRefused: Int = 0, isApplied: Bool = false
    ) {
        self.position = position
        self.counts = counts
        self.rowsChanged = rowsChanged
        self.rowsInvalidated = rowsInvalidated
        self.rowsRefused = rowsRefused
        self.isApplied = isApplied
    }

    /// The total progress of several parts; nil stands for a part that is not begun.
    init(of parts: [FeedProgress?]) {
        self.init(position: parts.count == 1 ? parts[0]?.position : nil)
        for case let part? in parts {
            counts += part.counts
            rowsChanged += part.rowsChanged
            rowsInvalidated += part.rowsInvalidated
            rowsRefused += part.rowsRefused
        }
        isApplied = !parts.isEmpty && parts.allSatisfy { $0?.isApplied == true }
    }
}
