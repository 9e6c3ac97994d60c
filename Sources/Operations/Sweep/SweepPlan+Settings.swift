import APNsConnection
import APNsProtocol
import Database
import EvidenceFiles
import SecureTransport
import Settings
import TokenHygiene

extension SweepPlan {
    /// The plan of a sweep over the gateways of the settings.
    ///
    /// With a certificate that cannot be used, only its own gateway is not read.
    ///
    /// - Throws: when the settings name no gateway, or have no app of a given name.
    package init(
        sweeping settings: Settings, apps names: [String], dryRun: Bool, _ context: RunContext
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
    }

    /// The plan of replaying a file, or a feed of the journal.
    ///
    /// - Throws: when the app and environment of the file are not clear.
    package init(
        replaying file: String?, feed: String?, app: String?, environment: String?,
        settings: Settings, dryRun: Bool
    ) throws(RunFailure) {
        if let feed {
            self.init(settings, .journaled(feed), dryRun: dryRun)
            return
        }
        let doing = "replaying a feed"
        guard let file else {
            throw RunFailure(
                .usage, .settings,
                "\(doing): name either a feed file or a feed of the journal with --feed")
        }
        let partition = try settings.app(named: app, in: environment, for: doing).partition
        self.init(settings, .file(file, partition), dryRun: dryRun)
    }

    /// The plan of importing a log or export of another sender.
    ///
    /// - Throws: when the app and environment of the file are not clear.
    package init(
        importing file: String, layout: ReportLayout, app: String?, environment: String?,
        again: Bool, settings: Settings, dryRun: Bool
    ) throws(RunFailure) {
        let partition = try settings.app(
            named: app, in: environment, for: "importing reports"
        ).partition
        let file = ReportFile(path: file, partition: partition, layout: layout, again: again)
        self.init(settings, .reports(file), dryRun: dryRun)
    }

    /// The plan of applying what waits, without reading a gateway.
    package init(applyingWaiting settings: Settings) {
        self.init(settings, .waiting, dryRun: false)
    }

    /// The common parts of all plans, from the settings.
    init(_ settings: Settings, _ work: Work, dryRun: Bool) {
        self.init(
            state: settings.state, store: StoreSettings(settings), work: work,
            partitions: Dictionary(
                settings.apps.map { ($0.partition, $0.storedPartition) },
                uniquingKeysWith: { first, _ in first }),
            policy: RemovalPolicy(settings.policy), limits: GuardLimits(settings.guardLimits),
            dryRun: dryRun)
        pacing = Pacing(settings)
        mayUseArrival = settings.evidence.missingTime == .received
    }
}

extension Settings.App {
    /// The partition of this app's evidence.
    var partition: Partition { Partition(app: name, environment: environment.rawValue) }

    /// The same partition, as the rows of the table name it.
    var storedPartition: Partition { Partition(app: value, environment: environment.rawValue) }

    /// Our certificate, loaded and checked against the time; nil when the settings name none.
    func identity(at now: EpochMilliseconds) throws(IdentityFailure) -> TLSIdentity? {
        guard let identity = try certificate?.identity() else { return nil }
        try identity.checkValidity(at: now.rawValue / 1000)
        return identity
    }
}

extension GatewayPlan {
    /// The gateway of an app; nil when the settings name none.
    init?(_ app: Settings.App, among apps: [Settings.App], now: EpochMilliseconds) {
        guard let feedback = app.feedback else { return nil }
        var limits = FeedbackReader.Limits()
        limits.connect = feedback.connectTimeout
        limits.handshake = feedback.handshakeTimeout
        limits.idle = feedback.idleTimeout
        limits.bytes = feedback.maxBytes
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
        } catch {
            context = .failure(
                RunFailure.wrapping(error, at: .identity).naming(app.partition))
        }
        self.init(
            partition: app.partition, host: feedback.host, port: UInt16(feedback.port),
            hostName: feedback.hostName, context: context, certificateEnds: ends, limits: limits)
    }
}

extension RemovalPolicy {
    /// The policy of the settings.
    init(_ policy: Settings.Policy) {
        self.init(
            action: policy.action == .delete ? .delete : .mark,
            deletesWithoutRegistrationTime: policy.deleteWithoutRegistrationTime,
            skew: policy.clockSkew.wholeMilliseconds,
            deletesAfter: policy.deleteAfter?.wholeMilliseconds)
    }
}

extension GuardLimits {
    /// The limits of the settings.
    init(_ limits: Settings.GuardLimits) {
        self.init(
            floor: limits.floor, partitionPercent: limits.partitionPercent,
            dayPercent: limits.dayPercent)
    }
}
