import APNsConnection
import APNsProtocol
import Database
import EvidenceFiles
import SecureTransport
import Settings
import TokenHygiene
import TokenTable

/// The plan of reading one gateway, made from the settings.
package struct GatewayPlan: Sendable {
    /// Milliseconds before the end of our certificate at which runs begin to warn: 30 days.
    package static let expiryWarning: Int64 = 30 * 86_400_000

    /// The app and environment of the batch.
    let partition: Partition
    let feedback: Settings.Feedback
    /// The trusted authorities and our certificate, or why this gateway cannot be read.
    let context: Result<TLSClientContext, RunFailure>
    /// The end of our certificate's validity, for warnings and reports.
    let certificateEnds: EpochMilliseconds?

    /// `host:port`.
    var name: String { "\(feedback.host):\(feedback.port)" }

    /// Limits of time and size for one list.
    var limits: FeedbackReader.Limits {
        var limits = FeedbackReader.Limits()
        limits.connect = feedback.connectTimeout
        limits.handshake = feedback.handshakeTimeout
        limits.idle = feedback.idleTimeout
        limits.patience = feedback.idleTimeout * 2
        limits.bytes = feedback.maxBytes
        return limits
    }
}

/// The plan of a sweep, replay or release.
package struct SweepPlan: Sendable {
    /// The evidence that a run takes up, in its order.
    package enum Work: Sendable {
        /// The batches that earlier runs left, then these gateways in the order of the settings.
        case gateways([GatewayPlan])
        /// What waits and nothing else: the batches that earlier runs left and the reports of other
        /// senders. The step of `preflight` before it looks.
        case waiting
        /// A file with the raw bytes of a list, or with the reports of another sender.
        case file(GivenFile)
        /// A batch, or a list of this host that is none yet, by its name.
        case journaled(String)
        /// The answers that a sender's own run received.
        case answers
        /// The held batches that a digest names.
        case release(String)

        /// The kind of run, as the records name it.
        var kind: String {
            switch self {
            case .gateways: "sweep"
            case .waiting: "preflight"
            case .file(let file): file.layout == nil ? "replay" : "import"
            case .journaled: "replay"
            case .answers: "send"
            case .release: "release"
            }
        }
    }

    /// A file that the run is about.
    package struct GivenFile: Sendable, Hashable {
        /// The path; `-` for standard input.
        let path: String
        /// The app and environment of its tokens; nil where each line names its own.
        let partition: Partition?
        /// The form and the fields of another sender's log or export; nil for the raw bytes of a list.
        let layout: ReportLayout?
        /// Whether a content that was imported before is imported again.
        let again: Bool

        /// What is done with it, for messages.
        var doing: String { layout == nil ? "reading the file of a list" : "importing" }
    }

    package var state: String
    /// The connection to the token database.
    package var store: StoreSettings
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
    /// True when lists are read and kept but no row changes.
    package var dryRun: Bool
    /// When the run pauses and when it ends early, with the clock for both.
    package var pacing = Pacing()
    /// Where metrics are written; nil for none.
    package var metrics: (any JournalPage)?

    /// The words by which reports may name the apps.
    var apps: AppWords {
        AppWords(partitions, environments: store.mapping.environmentValues)
    }

    /// Whether the run may remove rows of this partition: it is chosen, or none is chosen.
    func isAbout(_ partition: Partition) -> Bool { chosen?.contains(partition) ?? true }

    /// Whether a state folder of another database is handed over to this one.
    var adopts = false

    /// The reason for a release, in the words of the person who decided.
    var reason: String?

    /// Whether the time of its arrival counts for a report without a time.
    var mayUseArrival = false

    /// The file that the run is about; nil for a run about anything else.
    var file: GivenFile? {
        if case .file(let file) = work { file } else { nil }
    }

    /// Whether a file is only tried and nothing of it is kept.
    var isTrial: Bool { dryRun && file != nil }

    /// The gateways whose turn it is after what waits; nil for a run that has another order.
    var gateways: [GatewayPlan]? {
        switch work {
        case .gateways(let sources): sources
        case .waiting: []
        default: nil
        }
    }

    /// Whether a person named the batch, so that it is judged even though it is held.
    var isAboutOneBatch: Bool { if case .journaled = work { true } else { false } }
}

extension SweepPlan {
    /// The plan of a sweep over the gateways of the settings.
    ///
    /// With a certificate that cannot be used, only its own gateway is not read.
    ///
    /// - Throws: when the settings name no gateway, or have no app of a given name.
    package init(
        sweeping settings: Settings, apps names: [String], dryRun: Bool, adopting: Bool = false,
        _ context: RunContext
    ) throws(RunFailure) {
        let chosen = try settings.apps(named: names)
        let sources = chosen.compactMap {
            GatewayPlan($0, among: settings.apps, now: context.now())
        }
        // Without a gateway there is work all the same: reports of other senders, evidence that
        // waits, rows whose grace period has ended.
        guard !chosen.isEmpty else { throw settings.nameless("planning the sweep") }
        self.init(settings, .gateways(sources), dryRun: dryRun)
        self.chosen = Set(chosen.map(\.partition))
        adopts = adopting
    }

    /// The plan of applying a file: the raw bytes of a list, or reports of another sender in a layout.
    ///
    /// With `linesNameApp` an app that is not given is that of each line.
    ///
    /// - Throws: when the app and environment of the file are not clear.
    package init(
        reading path: String, as layout: ReportLayout? = nil, linesNameApp: Bool = false,
        again: Bool = false, app: String?, environment: String?, _ settings: Settings,
        dryRun: Bool
    ) throws(RunFailure) {
        let doing = layout == nil ? "replaying a list" : "importing reports"
        let partition =
            linesNameApp && app == nil && environment == nil
            ? nil : try settings.app(named: app, in: environment, for: doing).partition
        let file = GivenFile(path: path, partition: partition, layout: layout, again: again)
        self.init(settings, .file(file), dryRun: dryRun)
    }

    /// The common parts of all plans, from the settings.
    package init(_ settings: Settings, _ work: Work, dryRun: Bool) {
        self.init(
            state: settings.state, store: StoreSettings(settings), work: work,
            partitions: settings.storedPartitions,
            policy: settings.policy, limits: settings.guardLimits,
            dryRun: dryRun)
        pacing = Pacing(settings)
        mayUseArrival = settings.mayUseArrival
    }
}

extension Settings.App {
    /// The partition of this app's evidence.
    package var partition: Partition { Partition(app: name, environment: environment.rawValue) }

    /// The same partition, as the rows of the table name it.
    package var storedPartition: Partition {
        Partition(app: value, environment: environment.rawValue)
    }

    /// Our certificate, loaded and checked against the time; nil when the settings name none.
    package func identity(at now: EpochMilliseconds) throws(IdentityFailure) -> TLSIdentity? {
        guard let identity = try certificate?.identity() else { return nil }
        try identity.checkValidity(at: now.rawValue / 1000)
        return identity
    }
}

extension GatewayPlan {
    /// The gateway of an app; nil when the settings name none.
    init?(_ app: Settings.App, among apps: [Settings.App], now: EpochMilliseconds) {
        guard let feedback = app.feedback else { return nil }
        var ends: EpochMilliseconds?
        let context: Result<TLSClientContext, RunFailure>
        do {
            if let mistake = app.feedbackMistake(among: apps) {
                throw RunFailure(.configuration, .identity, mistake)
            }
            let identity = try app.identity(at: now)
            ends = identity?.ends
            context = .success(
                try TLSClientContext(
                    trust: feedback.ca.map { .file($0) } ?? .system, identity: identity))
        } catch let failure as TransportFailure {
            context = .failure(
                RunFailure(failure, of: app.partition, .feedback, at: .identity))
        } catch {
            context = .failure(
                RunFailure.wrapping(error, at: .identity).naming(app.partition))
        }
        self.init(
            partition: app.partition, feedback: feedback, context: context, certificateEnds: ends)
    }
}

// What the address of a feedback gateway shows without a connection. Apple closed its gateways in 2021;
// its other names are those of HTTP/2 gateways.

extension Settings.App {
    /// Why the address of the feedback gateway cannot be right, with what to do; nil when it may be.
    package func feedbackMistake(among apps: [Settings.App]) -> String? {
        guard let feedback else { return nil }
        let key = "apps[\(partition)].feedback"
        let address = "\(feedback.host):\(feedback.port)"
        let host = feedback.host.lowercased()
        if host == "push.apple.com" || host.hasSuffix(".push.apple.com") {
            let cure =
                "remove \(key) and sweep the 410 answers of the sender: insert them into "
                + "pushsweep_evidence, import its log, or give this app a provider"
            return host.hasPrefix("feedback.")
                ? "\(key) is \(address), and Apple closed this gateway in 2021; \(cure)"
                : "\(key) is \(address), where Apple takes notifications over HTTP/2 and has no "
                    + "feedback; \(cure)"
        }
        for app in apps {
            for (group, other) in [
                ("provider", app.provider.map { ($0.host, $0.port) }),
                ("binary", app.binary.map { ($0.host, $0.port) }),
            ] {
                guard let other, other.0.lowercased() == host, other.1 == feedback.port else {
                    continue
                }
                return
                    "\(key) is \(address), and apps[\(app.partition)].\(group) has the same address; "
                    + "one port speaks one protocol: correct the port of one of them"
            }
        }
        return nil
    }
}
