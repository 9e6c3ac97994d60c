import APNsConnection
import APNsProtocol
import Database
import EvidenceFiles
import SecureTransport
import TokenHygiene

/// The plan of reading one gateway, made from the settings.
package struct GatewayPlan: Sendable {
    /// Milliseconds before the end of our certificate at which runs begin to warn: 30 days.
    static let expiryWarning: Int64 = 30 * 86_400_000

    /// The app and environment of the feed.
    package var partition: Partition
    /// The gateway's host name or address.
    package var host: String
    /// Its port, 2196 by convention.
    package var port: UInt16
    /// The name that its certificate must carry.
    package var hostName: String
    /// The trusted authorities and our certificate, or why this gateway cannot be read.
    package var context: Result<TLSClientContext, RunFailure>
    /// The end of our certificate's validity, for warnings and reports.
    package var certificateEnds: EpochMilliseconds?
    /// Limits of time and size for one feed.
    package var limits: FeedbackReader.Limits

    /// `host:port`.
    package var name: String { "\(host):\(port)" }
}

/// The plan of a sweep, replay or release.
package struct SweepPlan: Sendable {
    /// The source of the feeds.
    package enum Work: Sendable {
        /// The feeds that earlier runs left, then these gateways in the order of the settings.
        case gateways([GatewayPlan])
        /// What waits and nothing else: the feeds that earlier runs left and the reports of other
        /// senders. The step of `preflight` before it looks.
        case waiting
        /// A file with the raw bytes of a feed.
        case file(String, Partition)
        /// A feed of the journal, by its name.
        case journaled(String)
        /// A log or export of another sender.
        case reports(ReportFile)
        /// The answers that a sender's own run received.
        case answers
        /// The held feeds that a digest names.
        case release(String)

        /// The kind of run, as the records name it.
        var kind: String {
            switch self {
            case .gateways: "sweep"
            case .waiting: "preflight"
            case .file, .journaled: "replay"
            case .reports: "import"
            case .answers: "send"
            case .release: "release"
            }
        }
    }

    /// A log or export of another sender, and how to read it.
    package struct ReportFile: Sendable, Hashable {
        /// The path of the file; `-` for standard input.
        package var path: String
        /// The app and environment of its tokens.
        package var partition: Partition
        /// Its form and fields.
        package var layout: ReportLayout
        /// Whether a content that was imported before is imported again.
        package var again = false
    }

    /// The path of the state folder.
    package var state: String
    /// The connection to the token database.
    package var store: StoreSettings
    /// The source of the feeds.
    package var work: Work
    /// The partitions of the settings, each with its name in the table's rows. Evidence of other
    /// partitions stays pending.
    package var partitions: [Partition: Partition]
    /// The partitions whose rows may be removed after the grace period, as the settings name them;
    /// nil for all.
    package var chosen: Set<Partition>?
    /// How stale rows are changed.
    package var policy: RemovalPolicy
    /// Limits beyond which a removal is held.
    package var limits: GuardLimits
    /// True when feeds are read and kept but no row changes.
    package var dryRun: Bool
    /// When the run pauses and when it ends early, with the clock for both.
    package var pacing = Pacing()
    /// Where metrics are written; nil where the settings name no file.
    package var metrics: (any JournalPage)?

    /// Whether the run may remove rows of this partition: it is chosen, or none is chosen.
    func isAbout(_ partition: Partition) -> Bool { chosen?.contains(partition) ?? true }

    /// The reason for a release, in the words of the person who decided.
    var reason: String?

    /// Whether the time of its arrival counts for a report without a time.
    var mayUseArrival = false

    /// Whether a file is only tried and nothing of it is kept.
    var isTrial: Bool {
        guard dryRun else { return false }
        switch work {
        case .file, .reports: return true
        default: return false
        }
    }

    /// The path of the file that the run is about; nil for a run about anything else.
    var givenPath: String? {
        switch work {
        case .file(let path, _): path
        case .reports(let file): file.path
        default: nil
        }
    }

    /// Whether that file is a feedback list, which its gateway has forgotten.
    var isList: Bool {
        if case .file = work { return true }
        return false
    }

    /// What is done with that file, for messages.
    var doing: String {
        if case .reports = work { return "importing" }
        return "reading the feed file"
    }

    /// The gateways whose turn it is after what waits; nil for a run that has another order.
    var gateways: [GatewayPlan]? {
        switch work {
        case .gateways(let sources): sources
        case .waiting: []
        default: nil
        }
    }

    /// Whether a person named this feed, so that it is processed even though it is held.
    func releases(_ feed: String) -> Bool {
        if case .journaled(feed) = work { return true }
        return isRelease
    }

    /// Whether a person has seen the feeds and wants them applied; the guard is not asked.
    var isRelease: Bool {
        if case .release = work { return true }
        return false
    }
}
