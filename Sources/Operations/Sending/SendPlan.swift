import APNsConnection
import APNsProtocol
import Database
import SecureTransport
import Settings
import TokenHygiene

/// The plan of sending for one app, made from the settings.
package struct ProviderTarget: Sendable {
    /// The app and environment of the notifications.
    package let partition: Partition
    /// The same partition, as the rows of the tables name it.
    package let stored: Partition
    /// The gateway and our credential, or why nothing can be sent.
    package let gateway: Result<ProviderPlan, RunFailure>
}

extension ProviderPlan {
    /// The limits of rows on their way.
    var loadWindow: SendLoad.Window { command == nil ? .provider : .binary }

    /// Seconds for notifications in flight after the run is told to stop. The binary interface has no
    /// other way to tell that one was accepted than to wait.
    var graceSeconds: Double {
        command == nil ? 3 : max(3, limits.errorWait / .seconds(1) + 1)
    }
}

/// The plan of a run of the sender.
package struct SendPlan: Sendable {
    /// How answers in a sender's folder are applied: state folder, database, policy and limits.
    package var sweep: SweepPlan
    /// The apps, in the order of the settings.
    package var apps: [ProviderTarget]
    /// Whether notifications of unknown outcome are sent again.
    package var resendUnknown: Bool
    /// Seconds after which others may take over the rows of a sender that no longer renews its lease: more
    /// than it may look for the database.
    package var leaseSeconds: Int
    /// The most rows to claim for each app; nil for no limit.
    package var limit: Int?
    /// The most notifications per second and app; nil for no limit.
    package var rate: Double?
    /// The wait before the next try of a gateway that has failed again `outages` times: the first
    /// wait, doubled each time, at most four times.
    static func rest(_ first: Duration, outages: Int) -> Duration { first * (1 << min(outages, 4)) }

    /// The wait of a sender with --follow before the next try of a failed gateway.
    package var rest = Duration.seconds(60)
    /// Whether the sender waits for new rows instead of ending when the queue is empty.
    package var follows = false
    /// True when nothing is claimed or sent.
    package var dryRun = false
    /// Where metrics are written; nil where the settings name no file.
    package var metrics: (any JournalPage)?

    /// Makes the plan for the apps of the settings, or for those with the given names.
    ///
    /// - Throws: when no app has a gateway to send through, or the settings have no app of a given name.
    package init(
        _ settings: Settings, apps names: [String], _ context: RunContext
    ) throws(RunFailure) {
        let chosen = try settings.apps(named: names)
        let apps = chosen.compactMap { ProviderTarget($0, settings.send, context) }
        guard !apps.isEmpty else {
            throw RunFailure(
                .configuration, .settings,
                "planning to send: no app of the settings has a gateway to send through; add "
                    + "apps[].provider with a host, and a certificate or a token-key; or "
                    + "apps[].binary for a private gateway of the older interface")
        }
        sweep = SweepPlan(settings, .answers, dryRun: false)
        // Throttles are for those who change many rows at once.
        sweep.pacing = Pacing()
        self.apps = apps
        resendUnknown = settings.send.resendUnknown
        leaseSeconds = settings.store.leaseSeconds(
            atLeast: max(10, Int(settings.send.lease.wholeMilliseconds / 1_000)))
    }

    /// The longest time that the run may need to end after it is told to stop: the grace of its
    /// gateways, and a second and a half to write results.
    package var longestShutdown: Duration {
        let graces = apps.compactMap { app in try? app.gateway.get().graceSeconds }
        return .seconds(graces.max() ?? 3) + .milliseconds(1_500)
    }
}

extension ProviderTarget {
    /// The gateway of an app; nil when the settings name none to send through.
    package init?(_ app: Settings.App, _ send: Settings.Send, _ context: RunContext) {
        guard app.sends else { return nil }
        let gateway: Result<ProviderPlan, RunFailure>
        do {
            gateway = .success(try Self.plan(app, send, context))
        } catch let failure as TransportFailure {
            let kind: GatewaySetting = app.binary == nil ? .provider : .binary
            gateway = .failure(RunFailure(failure, of: app.partition, kind, at: .identity))
        } catch {
            gateway = .failure(RunFailure.wrapping(error, at: .identity).naming(app.partition))
        }
        self.init(partition: app.partition, stored: app.storedPartition, gateway: gateway)
    }

    private static func plan(
        _ app: Settings.App, _ send: Settings.Send, _ context: RunContext
    ) throws -> ProviderPlan {
        let (log, partition) = (context.log, app.partition)
        var limits = ProviderPlan.Limits()
        // With a token key, the certificate would take precedence and could belong to another app.
        let identity =
            app.provider == nil || app.tokenKey == nil
            ? try app.identity(at: context.now()) : nil
        func plan(
            _ interface: ProviderPlan.Interface, _ host: String, _ port: Int, _ name: String?,
            ca: String?, alpn: [String]
        ) throws -> ProviderPlan {
            ProviderPlan(
                interface, host: host, port: UInt16(port), hostName: name, topic: app.topic,
                context: try TLSClientContext(
                    trust: ca.map { .file($0) } ?? .system, identity: identity, alpn: alpn),
                limits: limits, now: context.seconds, log: { log.info("\(partition): \($0)") })
        }
        if let binary = app.binary {
            limits.errorWait = binary.errorWait
            return try plan(
                .binary(BinaryCommand(rawValue: UInt8(binary.command)) ?? .framed), binary.host,
                binary.port, binary.hostName,
                ca: binary.ca, alpn: [])
        }
        guard let provider = app.provider else { preconditionFailure("an app that sends") }
        limits.request = send.requestTimeout
        let tokens = try app.tokenKey.map { try source($0, wall: context.seconds) }
        return try plan(
            .http2(tokens, connections: provider.connections), provider.host, provider.port, nil,
            ca: provider.ca, alpn: ["h2"])
    }

    private static func source(
        _ key: Settings.TokenKey, wall: @escaping @Sendable () -> EpochSeconds
    ) throws -> ProviderTokenSource {
        do {
            return try ProviderTokenSource(
                key: SigningKey(file: key.file), keyID: key.keyIdentifier,
                teamID: key.teamIdentifier, wall: wall)
        } catch let refusal as RequestRefusal {
            throw RunFailure(.configuration, .identity, "\(refusal)")
        }
    }
}

extension Settings.Provider {
    /// The environment of Apple's hosts; nil for another one.
    package var environment: Settings.Environment? {
        switch host.lowercased() {
        case "api.push.apple.com": .production
        case "api.sandbox.push.apple.com", "api.development.push.apple.com": .sandbox
        default: nil
        }
    }
}
