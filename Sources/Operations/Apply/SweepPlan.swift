import APNsConnection
import APNsProtocol
import Database
import SecureTransport
import TokenHygiene

/// One gateway to read: what the settings say, resolved to what will happen.
package struct GatewayPlan: Sendable {
    /// Milliseconds before the end of our certificate from which every run warns: 30 days.
    static let expiryWarning: Int64 = 30 * 86_400_000

    /// What the feed is about.
    package var partition: Partition
    /// The gateway.
    package var host: String
    /// Its port, 2196 by convention.
    package var port: UInt16
    /// The name its certificate must carry.
    package var hostName: String
    /// Trusted authorities and our certificate, or why this gateway is not asked at all.
    package var context: Result<TLSClientContext, RunFailure>
    /// When our certificate ends, for warnings and reports.
    package var certificateEnds: EpochMilliseconds?
    /// Bounds of time and size.
    package var limits: FeedbackReader.Limits

    /// `host:port`.
    package var name: String { "\(host):\(port)" }
}

/// What a sweep or replay will do.
package struct SweepPlan: Sendable {
    /// Where the feeds come from.
    package enum Work: Sendable {
        /// What earlier runs left, then these gateways in the order of the settings.
        case gateways([GatewayPlan])
        /// The raw bytes of a feed kept in a file.
        case file(String, Partition)
        /// A feed of the journal, by its name.
        case journaled(String)
        /// The answers of a sender's own run.
        case answers
        /// The held feeds that a digest names.
        case release(String)

        /// The kind of run, as records name it.
        var kind: String {
            switch self {
            case .gateways: "sweep"
            case .file, .journaled: "replay"
            case .answers: "send"
            case .release: "release"
            }
        }
    }

    /// The folder of the local state.
    package var state: String
    /// The token database.
    package var store: StoreSettings
    /// Where the feeds come from.
    package var work: Work
    /// The partitions that the settings know, as the rows of the table name them; evidence of
    /// others stays pending.
    package var partitions: [Partition: Partition]
    /// Whose rows may be removed after the grace period, as the settings name them; nil for all.
    package var chosen: Set<Partition>?
    /// What is done to stale rows.
    package var policy: RemovalPolicy
    /// Limits beyond which a removal is held.
    package var limits: GuardLimits
    /// Feeds are read and kept, but no row changes.
    package var dryRun: Bool
    /// When the run pauses, and when it ends early; the clock of both.
    package var pacing = Pacing()
    /// Where metrics go; nil where nobody wants any.
    package var metrics: (any JournalPage)?

    /// Whether the person who started it means this partition.
    func isAbout(_ partition: Partition) -> Bool { chosen?.contains(partition) ?? true }

    /// Whether a file is only tried: nothing of it is kept.
    var isTrial: Bool {
        guard dryRun, case .file = work else { return false }
        return true
    }

    /// Whether a person named this feed, so that it is looked at even though it is held.
    func releases(_ feed: String) -> Bool {
        if case .journaled(feed) = work { return true }
        return isRelease
    }

    /// Whether a person has seen the feeds in hand and wants them applied: the guard is not asked.
    var isRelease: Bool {
        if case .release = work { return true }
        return false
    }
}
