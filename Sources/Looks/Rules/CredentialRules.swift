import APNsProtocol
import Encodings
import Findings
import Operations
import SecureTransport
import Settings

// Certificate, key, topic and environment are compared with each other, because an answer of the provider proves less:
// it accepts the key of a team for every topic and both environments.

extension RuleBook {
    static let credentials: [Rule] = [
        .each(
            "credential-unusable", .credentials, in: [.check, .audit, .preflight],
            needs: \.credentials, judge: credentialUnusable),
        .each(
            "certificate-expired", .credentials, in: [.check, .audit, .preflight],
            needs: \.credentials, judge: certificateExpired),
        .each(
            "certificate-ends", .credentials, in: [.check, .audit, .preflight],
            needs: \.credentials, judge: certificateEnds),
        .each(
            "certificate-missing", .credentials, in: [.check],
            needs: \.apps, judge: certificateMissing),
        .each(
            "certificate-topic", .credentials, in: [.check, .audit, .preflight],
            needs: \.credentials, judge: certificateTopic),
        .each(
            "certificate-environment", .credentials, in: [.check, .audit, .preflight],
            needs: \.credentials, judge: certificateEnvironment),
        .each(
            "provider-environment", .credentials, in: [.check, .audit, .preflight],
            needs: \.apps, judge: providerEnvironment),
        .each(
            "feedback-address", .credentials,
            in: [.check, .audit.atMost(.medium), .preflight.atMost(.low)],
            needs: \.apps, judge: feedbackAddress),
        .each("feedback-port", .credentials, in: [.check], needs: \.apps, judge: feedbackPort),
        .each(
            "provider-unreachable", .credentials, in: [.check, .preflight],
            needs: \.gateways, judge: providerUnreachable),
        .each(
            "probe-credential", .credentials, in: [.preflight],
            needs: \.gateways, judge: probeCredential),
        .each(
            "probe-topic", .credentials, in: [.preflight], needs: \.gateways, judge: probeTopic),
        .each(
            "probe-inconclusive", .credentials, in: [.preflight],
            needs: \.gateways, judge: probeInconclusive),
    ]

    // MARK: Certificates and keys

    private static func credentialUnusable(
        _ credentials: [CredentialFacts], _ facts: Facts
    ) -> [Finding] {
        let unusable = credentials.compactMap { credential in
            credential.problem.map { problem in
                Finding(
                    problem, credential.object, "the \(credential.kind) cannot be used",
                    cure: "correct the file, or \(credential.key) in the settings"
                ).named(credential)
            }
        }
        // What is wrong with a certificate is said already.
        let untold = facts.gateways.filter { gateway in
            !credentials.contains {
                $0.app == gateway.app && ($0.problem ?? $0.invalidity) != nil
                    && ($0.kind != "certificate" || $0.isShown)
            }
        }
        return unusable
            + untold.compactMap { gateway in
                gateway.refused.map {
                    Finding(
                        $0, gateway.object, "nothing can be sent with the credential",
                        cure: "correct \(gateway.key).certificate or \(gateway.key).token-key")
                }
            }
    }

    private static func certificateExpired(
        _ credentials: [CredentialFacts], _: Facts
    ) -> [Finding] {
        credentials.compactMap { credential in
            credential.invalidity.map { invalidity in
                Finding(
                    invalidity, credential.object,
                    "the certificate is not valid now; it ends at "
                        + (credential.identity?.ends.rfc3339 ?? ""),
                    cure: "renew it at Apple or your authority, or correct this host's clock"
                ).named(credential)
            }
        }
    }

    private static func certificateEnds(
        _ credentials: [CredentialFacts], _ facts: Facts
    ) -> [Finding] {
        credentials.compactMap { credential in
            guard let identity = credential.identity, credential.invalidity == nil else {
                return nil
            }
            let ends = identity.ends.rfc3339
            guard credential.ends(within: CredentialFacts.renewal, of: facts.now) else {
                return Finding(.ok, credential.object, "it is valid to \(ends)")
            }
            let isUrgent = credential.ends(within: CredentialFacts.urgency, of: facts.now)
            let days = AuditedCredential.days(from: facts.now, to: identity.notAfter)
            return Finding(
                isUrgent ? .medium : .low, credential.object,
                "the certificate ends in \(days.counting("day")), at \(ends)", cure: "renew it"
            ).named(credential)
        }
    }

    private static func certificateMissing(_ apps: [Settings.App], _: Facts) -> [Finding] {
        apps.filter { $0.feedback != nil && $0.certificate == nil }.map {
            Finding(
                .medium, "\($0.partition)",
                "it has a feedback gateway and no client certificate",
                cure: "name one in apps[\($0.partition)].certificate")
        }
    }

    private static func certificateTopic(_ credentials: [CredentialFacts], _: Facts) -> [Finding] {
        credentials.compactMap { credential in
            let topic = credential.app.topic
            guard let identity = credential.identity, !identity.covers(topic: topic) else {
                return nil
            }
            let topics = identity.topics.joined(separator: ", ")
            let sentence = "the certificate is for \(topics), and the topic is \(topic)"
            let cure = "correct \(credential.key).topic, or name the certificate of this app"
            // A run would not begin.
            let finding =
                credential.isShown
                ? Finding(
                    RunFailure(.configuration, .settings, sentence), credential.object, nil,
                    cure: cure)
                : Finding(credential.gravity, credential.object, sentence, cure: cure)
            return finding.named(credential)
        }
    }

    private static func certificateEnvironment(
        _ credentials: [CredentialFacts], _: Facts
    ) -> [Finding] {
        credentials.compactMap { credential in
            guard let identity = credential.identity else { return nil }
            let named = identity.environments.map(\.rawValue).sorted()
            let environment = credential.app.environment.rawValue
            guard !named.isEmpty, !named.contains(environment) else { return nil }
            return Finding(
                credential.gravity, credential.object,
                "the certificate is for \(named.joined(separator: ", ")), and the environment is "
                    + environment,
                cure: "correct \(credential.key).environment, or name the certificate of that "
                    + "environment"
            ).named(credential)
        }
    }

    // MARK: Addresses

    private static func providerEnvironment(_ apps: [Settings.App], _: Facts) -> [Finding] {
        apps.compactMap { app in
            guard let provider = app.provider, let theirs = provider.environment,
                theirs != app.environment
            else { return nil }
            let key = "apps[\(app.partition)]"
            return Finding(
                .high, "\(provider.host):\(provider.port)",
                "the provider is Apple's for \(theirs.rawValue), and the environment is "
                    + app.environment.rawValue,
                cure: "correct \(key).provider.host or \(key).environment")
        }
    }

    private static func feedbackAddress(_ apps: [Settings.App], _ facts: Facts) -> [Finding] {
        apps.compactMap { app in
            app.feedbackMistake(among: facts.allApps).map {
                Finding(
                    RunFailure(.configuration, .settings, $0),
                    "apps[\(app.partition)].feedback", nil,
                    cure: "correct or remove apps[\(app.partition)].feedback")
            }
        }
    }

    private static func feedbackPort(_ apps: [Settings.App], _ facts: Facts) -> [Finding] {
        apps.compactMap { app in
            guard let feedback = app.feedback, [443, 2197].contains(feedback.port),
                app.feedbackMistake(among: facts.allApps) == nil
            else { return nil }
            return Finding(
                .medium, "apps[\(app.partition)].feedback",
                "\(feedback.host):\(feedback.port) has a port of HTTP/2 gateways",
                cure: "if it is one, give its address to provider")
        }
    }

    // MARK: Answers of gateways

    private static func providerUnreachable(_ gateways: [GatewayFacts], _: Facts) -> [Finding] {
        gateways.compactMap { gateway in
            gateway.unreachable.map {
                Finding(
                    $0, gateway.object, nil,
                    cure: gateway.app.provider == nil
                        ? "check \(gateway.key).binary and the network"
                        : "check \(gateway.key).provider, the network and the certificate")
            }
        }
    }

    private static func probeCredential(_ gateways: [GatewayFacts], _: Facts) -> [Finding] {
        gateways.compactMap { gateway in
            guard case .success(let answer) = gateway.probe,
                case .credentialFault = answer.meaning
            else { return nil }
            return Finding(
                .high, gateway.object, answer.ofProbe,
                cure: "correct \(gateway.key).certificate or \(gateway.key).token-key, and this "
                    + "host's clock")
        }
    }

    private static func probeTopic(_ gateways: [GatewayFacts], _: Facts) -> [Finding] {
        gateways.compactMap { gateway in
            guard case .success(let answer) = gateway.probe,
                answer.meaning == .configurationFault
            else { return nil }
            return Finding(
                .high, gateway.object, "\(answer.ofProbe) for the topic \(gateway.app.topic)",
                cure: "correct \(gateway.key).topic, or use a credential for this topic")
        }
    }

    private static func probeInconclusive(_ gateways: [GatewayFacts], _: Facts) -> [Finding] {
        gateways.compactMap { gateway in
            gateway.inconclusive.map {
                Finding(
                    gateway.app.provider == nil ? .medium : .high, gateway.object, $0,
                    cure: "run again; where it stays so, check who answers at \(gateway.object)")
            }
        }
    }
}

extension CredentialFacts {
    /// How grave a certificate is that does not fit its app: beside a token key no sender shows it.
    fileprivate var gravity: Severity { isUsed ? .high : .low }
}

extension Finding {
    /// A failure for which a run does not begin. Without a sentence of its own that of the failure counts, else the
    /// failure is the cause.
    init(_ failure: RunFailure, _ object: String, _ sentence: String?, cure: String) {
        self.init(
            .high, object, sentence ?? failure.description,
            cause: sentence == nil ? nil : failure.description, cure: cure)
        exit = failure.exit.rawValue
    }

    /// The same finding about a credential, which an ignore file may name by its file, too.
    func named(_ credential: CredentialFacts) -> Finding {
        var finding = self
        finding.names = [credential.object, credential.file]
        return finding
    }
}

extension GatewayFacts {
    /// Why the probe proves nothing; nil where it does, or none was sent.
    fileprivate var inconclusive: String? {
        switch probe {
        case nil: return nil
        case .failure(let missing): return missing.description
        case .success(let answer):
            switch answer.meaning {
            case .suspectToken, .credentialFault, .configurationFault: return nil
            default: return answer.ofProbe
            }
        }
    }
}

extension ProviderAnswer {
    /// The answer to a made-up token, in words.
    fileprivate var ofProbe: String {
        meaning == .refusedByGateway
            ? "the provider gave no answer of APNs (HTTP \(status)) to a made-up token"
            : "the provider answered \(status)\(body.reason.map { " \($0)" } ?? "") to a made-up token"
    }
}
