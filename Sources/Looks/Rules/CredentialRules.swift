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
            "credential-unusable", .credentials, in: [.check, .audit, .preflight], "high",
            """
            A certificate or a key cannot be loaded. The file, its key, its passphrase or its rights are wrong.
            No connection to the gateway can be made with it. The devices of the app get nothing.
            `sudo -u pushsweep pushsweep check` loads each certificate and key as the user of the job and says what is \
            wrong.
            Correct the files under `apps[].certificate` or `apps[].token-key`. Files with secrets belong to that \
            user, with mode 0600: docs/operating.md.
            """, needs: \.credentials
        ) { credentials, facts in
            credentials.compactMap { credential in
                credential.problem.map { problem in
                    Finding(
                        problem, credential.object, "the \(credential.kind) cannot be used",
                        cure: "correct the file, or \(credential.key) in the settings"
                    ).named(credential)
                }
            }
                // What is wrong with a certificate is said already.
                + facts.gateways.filter { gateway in
                    !credentials.contains {
                        $0.app == gateway.app && ($0.problem ?? $0.invalidity) != nil
                            && ($0.kind != "certificate" || $0.isShown)
                    }
                }.compactMap { gateway in
                    gateway.refused.map {
                        Finding(
                            $0, gateway.object, "nothing can be sent with the credential",
                            cure: "correct \(gateway.key).certificate or \(gateway.key).token-key")
                    }
                }
        },
        .each(
            "certificate-expired", .credentials, in: [.check, .audit, .preflight], "high",
            """
            The certificate is past its end, or its beginning is still to come.
            Gateways refuse it. Nothing is sent with it, and no feedback list is read with it.
            `pushsweep check --format json` lists each certificate with `expires` and `fingerprint` under \
            `certificates`.
            Renew it at Apple or your authority and name the new file under `apps[].certificate`. If its time is \
            right, correct this host's clock.
            """, needs: \.credentials
        ) { credentials, _ in
            credentials.compactMap { credential in
                credential.invalidity.map { invalidity in
                    Finding(
                        invalidity, credential.object,
                        "the certificate is not valid now; it ends at \(credential.identity?.ends.rfc3339 ?? "")",
                        cure: "renew it at Apple or your authority, or correct this host's clock"
                    ).named(credential)
                }
            }
        },
        .each(
            "certificate-ends", .credentials,
            in: [.check, .audit, .preflight], "medium within 7 days, low within 30",
            """
            The certificate still counts, and it ends within 30 days.
            After its end gateways refuse it, and the devices of the app get nothing.
            `pushsweep check --format json` lists each certificate with `expires` under `certificates`.
            Renew it before that day and name the new file under `apps[].certificate`. Then run `pushsweep check`.
            """, needs: \.credentials
        ) { credentials, facts in
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
        },
        .each(
            "certificate-missing", .credentials, in: [.check], "medium",
            """
            The app has a feedback gateway and no client certificate.
            A gateway that asks for a certificate refuses the connection. Then its list of dead tokens is never read.
            `pushsweep check --settings` shows the `apps` settings and where each comes from.
            Name the file under `apps[].certificate`, or remove `apps[].feedback`. See \
            docs/recipes/private-gateway.md.
            """, needs: \.apps
        ) { apps, _ in
            apps.filter { $0.feedback != nil && $0.certificate == nil }.map {
                Finding(
                    .medium, "\($0.partition)",
                    "it has a feedback gateway and no client certificate",
                    cure: "name one in apps[\($0.partition)].certificate")
            }
        },
        certificate(
            "certificate-topic",
            "high, a failure of check where a gateway of the settings sees the certificate; low beside a token key",
            stops: true,
            """
            The certificate names topics, and the `topic` of the app is not among them.
            APNs refuses each notification for a topic that the certificate does not have. The devices get nothing.
            `pushsweep check` prints the topics of the certificate. `pushsweep preflight --app NAME --probe` tries the \
            topic with one request.
            Correct `apps[].topic`, or name the certificate of this app. See docs/recipes/topics.md.
            """
        ) { identity, credential in
            let topic = credential.app.topic
            guard !identity.covers(topic: topic) else { return nil }
            return (
                "the certificate is for \(identity.topics.joined(separator: ", ")), and the topic is \(topic)",
                "correct \(credential.key).topic, or name the certificate of this app"
            )
        },
        certificate(
            "certificate-environment",
            "high; low beside a token key",
            """
            The certificate is for one environment of APNs only, and the app is of the other.
            The server of that environment refuses it, or calls every token bad. The devices get nothing.
            `pushsweep preflight --app NAME --read-only` compares certificate and environment, and applies nothing.
            Correct `apps[].environment`, or name the certificate of that environment under `apps[].certificate`.
            """
        ) { identity, credential in
            let named = identity.environments.map(\.rawValue).sorted()
            let environment = credential.app.environment.rawValue
            guard !named.isEmpty, !named.contains(environment) else { return nil }
            return (
                "the certificate is for \(named.joined(separator: ", ")), and the environment is \(environment)",
                "correct \(credential.key).environment, or name the certificate of that environment"
            )
        },
        .each(
            "provider-environment", .credentials, in: [.check, .audit, .preflight], "high",
            """
            The provider's host is Apple's server of the other environment.
            That server calls tokens of this environment bad. The devices get nothing.
            `pushsweep check --settings` shows `provider.host` and `environment` of the app.
            Production is `api.push.apple.com`, the sandbox `api.sandbox.push.apple.com`. Correct \
            `apps[].provider.host` or `apps[].environment`.
            """, needs: \.apps
        ) { apps, _ in
            apps.compactMap { app in
                guard let provider = app.provider, let theirs = provider.environment,
                    theirs != app.environment
                else { return nil }
                return Finding(
                    .high, "\(provider.host):\(provider.port)",
                    "the provider is Apple's for \(theirs.rawValue), and the environment is "
                        + app.environment.rawValue,
                    cure:
                        "correct apps[\(app.partition)].provider.host or apps[\(app.partition)].environment"
                )
            }
        },
        .each(
            "feedback-address", .credentials,
            in: [.check, .audit.atMost(.medium), .preflight.atMost(.low)],
            "a failure in check, where a sweep does not begin; medium in audit, low in preflight",
            """
            The address under `feedback` cannot be a feedback gateway. It is Apple's, or the address that the app \
            sends to.
            No list of dead tokens comes from there. Without other reports dead tokens stay in use.
            `pushsweep check --settings` shows `feedback.host` and `feedback.port` beside those of `provider` and \
            `binary`.
            Correct the address, or remove `apps[].feedback` and let senders report their 410 answers: \
            docs/evidence.md.
            """, needs: \.apps
        ) { apps, facts in
            apps.compactMap { app in
                app.feedbackMistake(among: facts.allApps).map {
                    Finding(
                        RunFailure(.configuration, .settings, $0),
                        "apps[\(app.partition)].feedback", nil,
                        cure: "correct or remove apps[\(app.partition)].feedback")
                }
            }
        },
        .each(
            "feedback-port", .credentials, in: [.check], "medium",
            """
            The port of the feedback gateway is 443 or 2197, on which gateways for HTTP/2 listen.
            A gateway for HTTP/2 has no feedback list. A sweep would read nothing there.
            `pushsweep check --settings` shows `feedback.host` and `feedback.port`. The usual port is 2196.
            If the gateway speaks HTTP/2, name it under `apps[].provider`. Else correct `apps[].feedback.port`.
            """, needs: \.apps
        ) { apps, facts in
            apps.compactMap { app in
                guard let feedback = app.feedback, [443, 2197].contains(feedback.port),
                    app.feedbackMistake(among: facts.allApps) == nil
                else { return nil }
                return Finding(
                    .medium, "apps[\(app.partition)].feedback",
                    "\(feedback.host):\(feedback.port) has a port of HTTP/2 gateways",
                    cure: "if it is one, give its address to provider")
            }
        },
        .each(
            "provider-unreachable", .credentials, in: [.check, .preflight], "high",
            """
            The gateway that takes notifications did not answer, has no TLS or HTTP/2, or refused the certificate.
            Nothing can be sent while that lasts. The rows of the queue wait.
            `pushsweep check` connects to it for ten seconds at most, sends no request, and prints the error.
            Correct host, port and `ca` under `apps[].provider` or `apps[].binary`, the network, or the certificate. \
            Then run `pushsweep check` again.
            """, needs: \.gateways
        ) { gateways, _ in
            gateways.compactMap { gateway in
                gateway.unreachable.map {
                    Finding(
                        $0, gateway.object, nil,
                        cure: gateway.app.provider == nil
                            ? "check \(gateway.key).binary and the network"
                            : "check \(gateway.key).provider, the network and the certificate")
                }
            }
        },
        probe(
            "probe-credential", "high",
            """
            The gateway answered 403 to the notification of the probe. It does not accept the certificate or the key.
            It refuses every notification of this app, so the devices get nothing.
            `pushsweep preflight --app NAME --probe` asks again. The answers are explained in docs/json.md, Answers to \
            the probe.
            Correct `apps[].certificate`, or `apps[].token-key` with `key-id` and `team-id`. A wrong clock of this \
            host has the same effect.
            """
        ) { answer, gateway in
            guard case .credentialFault = answer.meaning else { return nil }
            return (
                answer.ofProbe,
                "correct \(gateway.key).certificate or \(gateway.key).token-key, and this host's clock"
            )
        },
        probe(
            "probe-topic", "high",
            """
            The gateway accepted the credential of the probe and refused the topic.
            It refuses each notification for this topic, so the devices get nothing.
            `pushsweep preflight --app NAME --probe` asks again. `pushsweep check` names the topics of a certificate.
            Correct `apps[].topic`, or use a certificate or key that may send to it. See docs/recipes/topics.md.
            """
        ) { answer, gateway in
            guard answer.meaning == .configurationFault else { return nil }
            return (
                "\(answer.ofProbe) for the topic \(gateway.app.topic)",
                "correct \(gateway.key).topic, or use a credential for this topic"
            )
        },
        .each(
            "probe-inconclusive", .credentials, in: [.preflight],
            "high, medium for the binary interface, which has no such answer",
            """
            The probe got no answer, or one that proves nothing about credential and topic.
            Whether devices would get a notification is still not known. APNs calls a made-up token bad; what accepts \
            it, calls it dead or answers with a page is another program.
            `pushsweep preflight --app NAME --probe` asks again. The answers are explained in docs/json.md, Answers to \
            the probe.
            Run it once more later. Where it stays so, correct the host of `apps[].provider`, or what stands between. \
            A gateway of your own that accepts any token proves nothing: leave `--probe` out there.
            """, needs: \.gateways
        ) { gateways, _ in
            gateways.compactMap { gateway in
                gateway.inconclusive.map {
                    Finding(
                        gateway.app.provider == nil ? .medium : .high, gateway.object, $0,
                        cure: "run again; where it stays so, check who answers at \(gateway.object)"
                    )
                }
            }
        },
    ]

    /// A rule about each certificate that is valid or not. Where it `stops`, a run would not begin.
    private static func certificate(
        _ name: String, _ weight: String, stops: Bool = false, _ text: String,
        _ judge: @escaping @Sendable (TLSIdentity, CredentialFacts) -> (String, String)?
    ) -> Rule {
        .each(
            name, .credentials, in: [.check, .audit, .preflight], weight, text,
            needs: \.credentials
        ) { credentials, _ in
            credentials.compactMap { credential in
                guard let identity = credential.identity,
                    let (sentence, cure) = judge(identity, credential)
                else { return nil }
                guard stops, credential.isShown else {
                    return Finding(
                        credential.isUsed ? .high : .low, credential.object, sentence, cure: cure
                    ).named(credential)
                }
                return Finding(
                    RunFailure(.configuration, .settings, sentence), credential.object, nil,
                    cure: cure
                ).named(credential)
            }
        }
    }

    /// A rule about the answer to a made-up token.
    private static func probe(
        _ name: String, _ weight: String, _ text: String,
        _ judge: @escaping @Sendable (ProviderAnswer, GatewayFacts) -> (String, String)?
    ) -> Rule {
        .each(name, .credentials, in: [.preflight], weight, text, needs: \.gateways) {
            gateways, _ in
            gateways.compactMap { gateway in
                guard case .success(let answer) = gateway.probe,
                    let (sentence, cure) = judge(answer, gateway)
                else { return nil }
                return Finding(.high, gateway.object, sentence, cure: cure)
            }
        }
    }
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
