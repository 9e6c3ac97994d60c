import APNsConnection
import APNsProtocol
import SecureTransport
import Settings
import TokenHygiene

// The part of `preflight` about certificate, key, topic and environment. They are compared with each other
// first, because an answer of the provider proves less: it accepts the key of a team for every topic and
// both environments.

extension Gate {
    /// Milliseconds before the end of a certificate from which it is urgent: 7 days.
    private static let urgent: Int64 = 7 * 86_400_000

    mutating func examineCredentials() {
        examineCertificate()
        examineAddresses()
    }

    private mutating func examineCertificate() {
        guard let certificate = plan.app.certificate else { return }
        let identity: TLSIdentity
        do {
            identity = try TLSIdentity.load(
                file: certificate.file, key: certificate.key,
                passphraseFile: certificate.passphraseFile)
        } catch {
            add(
                .credentialUnusable, .high, certificate.file, error.description,
                cure: "correct the files under apps[\(plan.partition)].certificate")
            return
        }
        let ends = EpochMilliseconds(identity.notAfter * 1000)
        report.certificateExpires = ends.rfc3339
        do {
            try identity.checkValidity(at: context.now().rawValue / 1000)
            if ends < context.now().advanced(by: GatewayPlan.expiryWarning) {
                let isUrgent = ends < context.now().advanced(by: Self.urgent)
                add(
                    .certificateEndsSoon, isUrgent ? .medium : .low, certificate.file,
                    "the certificate ends at \(ends.rfc3339)", cure: "renew it")
            }
        } catch {
            add(
                .certificateExpired, .high, certificate.file, error.description,
                cure: "renew the certificate, or correct this host's clock")
        }
        compare(identity, of: certificate)
    }

    private mutating func compare(_ identity: TLSIdentity, of certificate: Settings.Certificate) {
        // With a token key the provider does not see the certificate.
        let severity: GateSeverity =
            plan.app.tokenKey == nil || plan.app.binary != nil ? .high : .low
        let key = "apps[\(plan.partition)]"
        if !identity.covers(topic: plan.app.topic) {
            add(
                .certificateTopic, severity, certificate.file,
                "the certificate is for \(identity.topics.joined(separator: ", ")), and the topic is "
                    + plan.app.topic,
                cure: "correct \(key).topic, or name the certificate of this app")
        }
        let named = identity.environments.map(\.rawValue).sorted()
        if !named.isEmpty, !named.contains(plan.app.environment.rawValue) {
            add(
                .certificateEnvironment, severity, certificate.file,
                "the certificate is for \(named.joined(separator: ", ")), and the environment is "
                    + plan.app.environment.rawValue,
                cure: "correct \(key).environment, or name the certificate of that environment")
        }
    }

    private mutating func examineAddresses() {
        let key = "apps[\(plan.partition)]"
        if let mistake = plan.app.feedbackMistake(among: plan.settings.apps) {
            add(
                .feedbackAddress, .low, "\(key).feedback", mistake,
                cure: "correct or remove \(key).feedback")
        }
        guard let provider = plan.app.provider,
            let theirs = Settings.Environment(ofProvider: provider.host),
            theirs != plan.app.environment
        else { return }
        add(
            .providerEnvironment, .high, "\(provider.host):\(provider.port)",
            "the provider is Apple's for \(theirs.rawValue), and the environment is "
                + plan.app.environment.rawValue,
            cure: "correct \(key).provider.host or \(key).environment")
    }

    /// The limit for connecting to the provider.
    private static let greeting = Duration.seconds(10)

    /// Connects to the provider with the certificate or for the key, and sends one request where asked.
    mutating func examineProvider() {
        guard let target = ProviderTarget(plan.app, plan.settings.send, context) else { return }
        let object =
            [
                plan.app.provider.map { "\($0.host):\($0.port)" },
                plan.app.binary.map { "\($0.host):\($0.port)" },
            ].compactMap { $0 }.first ?? "\(plan.partition)"
        let key = "apps[\(plan.partition)]"
        switch target.gateway {
        case .failure(let failure):
            // What is wrong with a certificate is said already.
            let isSaid = report.findings.contains {
                [.credentialUnusable, .certificateExpired].contains($0.rule)
            }
            guard !isSaid else { return }
            add(
                .credentialUnusable, .high, object, failure.description,
                cure: "correct \(key).certificate or \(key).token-key")
        case .success(let gateway):
            let isBinary = gateway.command != nil
            do throws(TransportFailure) {
                try gateway.examine(within: Self.greeting, context.interrupt)
            } catch {
                let failure = RunFailure(
                    error, of: plan.partition, isBinary ? .binary : .provider, at: .send)
                add(
                    .providerUnreachable, .high, object, failure.description,
                    cure: isBinary
                        ? "check \(key).binary and the network"
                        : "check \(key).provider, the network and the certificate")
                return
            }
            guard plan.probes else { return }
            if isBinary { refuseProbe(object) } else { probe(gateway, object) }
        }
    }
}

extension Settings.Environment {
    /// The environment of one of Apple's providers; nil for another host.
    fileprivate init?(ofProvider host: String) {
        switch host.lowercased() {
        case "api.push.apple.com": self = .production
        case "api.sandbox.push.apple.com", "api.development.push.apple.com": self = .sandbox
        default: return nil
        }
    }
}
