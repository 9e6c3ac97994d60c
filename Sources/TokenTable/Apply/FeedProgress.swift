import APNsProtocol
import Database
import TokenHygiene

/// One captured feed to be applied to the rows of one partition.
package struct FeedApplication: Hashable, Sendable {
    /// The run that does it, as a UUID in text.
    package let run: String
    /// The captured feed, as a UUID in text. Applying the same feed again changes nothing.
    package let feed: String
    /// Which part of the feed.
    package let part: FeedPart
    /// The rows concerned.
    package let partition: Partition
    /// What becomes of stale rows.
    package let policy: RemovalPolicy
    /// Where the evidence came from; stored with marks and in the ledger.
    package let source: EvidenceSource
    /// The lease that every transaction has to find in force; nil where several may apply at once.
    package let lease: Lease?
    /// Whether a person released it: what it removes says nothing about what is usual.
    package let isReleased: Bool

    /// States what to apply.
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

    /// The same for one part of the feed.
    func part(_ part: FeedPart) -> FeedApplication {
        FeedApplication(
            run: run, feed: feed, part: part, partition: partition, policy: policy, source: source,
            lease: lease, isReleased: isReleased)
    }
}

/// How far a feed is applied, as the database has it.
package struct FeedProgress: Hashable, Sendable {
    /// The last token done; nil before the first. Application goes on after it. Nil also for
    /// several parts taken together.
    package var position: DeviceToken?
    /// What became of the statements up to `position`.
    package var counts: OutcomeCounts
    /// Rows marked, deleted or advanced so far.
    package var rowsChanged: Int
    /// Of them, living rows that became invalid.
    package var rowsInvalidated: Int
    /// Rows that could not be judged or refused the change, as the ledger names them.
    package var rowsRefused: Int
    /// Whether the whole feed is applied.
    package var isApplied: Bool

    /// States progress; by default none.
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

    /// How far several parts are together; nil for a part not begun.
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
