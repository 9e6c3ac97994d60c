import APNsConnection
import APNsProtocol
import Database
import SecureTransport
import Settings
import TokenHygiene

/// One app to send for: what the settings say, resolved to what will happen.
package struct PlannedProvider: Sendable {
    /// Whose notifications.
    package let partition: Partition
    /// The same as the rows of the tables name it.
    package let stored: Partition
    /// The bundle identifier.
    package let topic: String
    /// Connections to keep open.
    package let connections: Int
    /// Where and as whom, or why nothing can be sent.
    package let provider: Result<ProviderPlan, RunFailure>
}

/// What a run of the sender will do.
package struct SendPlan: Sendable {
    /// The folder of the local state.
    package var state: String
    /// The database with both tables.
    package var store: StoreSettings
    /// The apps, in the order of the settings.
    package var apps: [PlannedProvider]
    /// The partitions that the settings know, as the rows of the table name them.
    package var partitions: [Partition: Partition]
    /// What is done to stale rows.
    package var policy: RemovalPolicy
    /// Limits beyond which a removal is held.
    package var limits: GuardLimits
    /// Whether notifications of unknown outcome are sent again.
    package var resendsUnknown: Bool
    /// Seconds until others may take over what a silent sender holds.
    package var leaseSeconds: Int
    /// The most rows to claim for each app; nil for all.
    package var limit: Int?
    /// The most notifications per second and app; nil for as many as go.
    package var rate: Double?
    /// How long a gateway is left alone that has failed again `outages` times: the first rest doubled as
    /// often, four times at most.
    static func rest(_ first: Duration, outages: Int) -> Duration { first * (1 << min(outages, 4)) }

    /// How long a following run leaves a gateway alone that has failed.
    package var rest = Duration.seconds(60)
    /// Waits for new rows instead of ending when the queue is empty.
    package var follows = false
    /// Nothing is claimed or sent.
    package var dryRun = false
    /// Where metrics go; nil where nobody wants any.
    package var metrics: (any JournalPage)?

    /// The plan of sending for the apps of the settings, or for some of them.
    ///
    /// - Throws: where no app has a provider, or one is asked for that the settings do not know.
    package init(
        _ settings: Settings, apps names: [String], _ context: RunContext
    ) throws(RunFailure) {
        let chosen = try settings.apps(named: names)
        let apps = chosen.compactMap { PlannedProvider($0, settings.send, context) }
        guard !apps.isEmpty else {
            throw RunFailure(
                .configuration, .settings,
                "planning to send: no app of the settings has a provider; add apps[].provider with "
                    + "a host, and a certificate or a token-key")
        }
        let sweep = SweepPlan(settings, .answers, dryRun: false)
        state = settings.state
        store = sweep.store
        self.apps = apps
        partitions = sweep.partitions
        policy = sweep.policy
        limits = sweep.limits
        resendsUnknown = settings.send.resendUnknown
        leaseSeconds = max(10, Int(settings.send.lease.wholeMilliseconds / 1_000))
    }

    /// How answers in a folder of a sender are applied.
    var settlement: SweepPlan {
        SweepPlan(
            state: state, store: store, work: .answers, partitions: partitions, policy: policy,
            limits: limits, dryRun: false)
    }
}

extension PlannedProvider {
    /// The provider of an app; nil where the settings name none.
    init?(_ app: Settings.App, _ send: Settings.Send, _ context: RunContext) {
        guard let provider = app.provider else { return nil }
        self.init(
            partition: app.partition, stored: app.storedPartition, topic: app.topic,
            connections: provider.connections,
            provider: Self.plan(app, provider, send, context))
    }

    private static func plan(
        _ app: Settings.App, _ provider: Settings.Provider, _ send: Settings.Send,
        _ context: RunContext
    ) -> Result<ProviderPlan, RunFailure> {
        let (now, log, partition) = (context.now, context.log, app.partition)
        let seconds: @Sendable () -> EpochSeconds = {
            EpochSeconds(UInt32(clamping: now().rawValue / 1_000))
        }
        do {
            var limits = ProviderPlan.Limits()
            limits.request = send.requestTimeout
            return .success(
                ProviderPlan(
                    host: provider.host, port: UInt16(provider.port),
                    context: try TLSClientContext(
                        trust: provider.ca.map { .file($0) } ?? .system,
                        // With a token the certificate would win over it and may be of another app.
                        identity: app.tokenKey == nil ? try app.identity(at: now()) : nil,
                        alpn: ["h2"]),
                    tokens: try app.tokenKey.map { try source($0, wall: seconds) },
                    limits: limits, now: seconds,
                    story: { log.info("\(partition): \($0)") }))
        } catch {
            let failure = RunFailure.wrapping(error, at: .identity)
            return .failure(
                RunFailure(failure.exit, .identity, "\(partition): \(failure.description)"))
        }
    }

    private static func source(
        _ key: Settings.TokenKey, wall: @escaping @Sendable () -> EpochSeconds
    ) throws -> ProviderTokenSource {
        do {
            return ProviderTokenSource(
                try ProviderTokenSource.Credential(
                    key: SigningKey(file: key.file), keyID: key.keyIdentifier,
                    teamID: key.teamIdentifier),
                clocks: ProviderTokenSource.Clocks(wall: wall))
        } catch let refusal as ProviderTokenRefusal {
            throw RunFailure(.configuration, .identity, "\(refusal)")
        }
    }
}
