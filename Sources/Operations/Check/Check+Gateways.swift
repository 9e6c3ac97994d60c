import APNsConnection
import APNsProtocol
import SecureTransport
import Settings
import TokenHygiene

// The part of `check` about certificates, keys and gateways.

extension Check {
    /// Checks the app's certificate. Returns true when it can be used, or when none is named.
    mutating func examineCertificate(_ app: Settings.App) -> Bool {
        guard let certificate = app.certificate else {
            if app.feedback != nil {
                report.note(
                    "certificate", .warning,
                    "\(app.partition) has a feedback gateway and no client certificate")
            }
            return true
        }
        guard areThere(certificate.file, certificate.key, certificate.passphraseFile) else {
            return false
        }
        do {
            let identity = try certificate.identity()
            let ends = identity.ends
            report.certificates.append(
                CheckReport.Certificate(
                    app: app.name, environment: app.environment.rawValue, file: certificate.file,
                    subject: identity.subject, issuer: identity.issuer, expires: ends.rfc3339,
                    fingerprint: identity.fingerprint))
            try identity.checkValidity(at: context.now().rawValue / 1000)
            examineTopic(app, identity)
            if identity.endsSoon(at: context.now()) {
                report.note(
                    "certificate", .warning,
                    "the certificate for \(app.partition) ends at \(ends.rfc3339); renew it")
            } else {
                report.note("certificate", .ok, "\(app.partition) is valid to \(ends.rfc3339)")
            }
            if let feedback = app.feedback, areThere(feedback.ca) {
                _ = try TLSClientContext(
                    trust: feedback.ca.map { .file($0) } ?? .system, identity: identity)
            }
            return true
        } catch {
            report.fail("certificate", .wrapping(error, at: .identity))
            return false
        }
    }

    /// Compares the topics that the certificate names with that of the app. A certificate for an app is
    /// also one for its topics with a suffix of Apple's. A private feedback gateway may know its clients
    /// by other names, APNs does not.
    private mutating func examineTopic(_ app: Settings.App, _ identity: TLSIdentity) {
        guard !identity.covers(topic: app.topic) else { return }
        let key = "apps[\(app.partition)]"
        let sentence =
            "comparing the certificate with \(key).topic: \(app.certificate?.file ?? "") is for "
            + "\(identity.topics.joined(separator: ", ")), and the topic is \(app.topic); correct the "
            + "topic, or name the certificate of this app in \(key).certificate"
        // With a token key the certificate is not shown to the provider.
        if app.provider != nil && app.tokenKey == nil || app.binary != nil {
            report.fail("certificate", .configuration, sentence)
        } else {
            report.note("certificate", .warning, sentence)
        }
    }

    /// Says what can be said about a feedback gateway without connecting to it.
    mutating func examineFeedback(_ app: Settings.App) {
        guard let feedback = app.feedback else { return }
        if let mistake = app.feedbackMistake(among: settings.apps) {
            report.fail("feedback", .configuration, mistake)
        } else if [443, 2197].contains(feedback.port) {
            report.note(
                "feedback", .warning,
                "\(feedback.host):\(feedback.port) of apps[\(app.partition)].feedback has a port of "
                    + "HTTP/2 gateways; if it is one, give its address to provider")
        }
    }

    /// Connects to a sender's gateway with its certificate or for its key. Sends no request.
    mutating func examineProvider(_ app: Settings.App) {
        guard let provider = app.provider, areThere(provider.ca, app.tokenKey?.file),
            let planned = ProviderTarget(app, settings.send, context)
        else { return }
        switch planned.gateway {
        case .failure(let failure): report.fail("provider", failure)
        case .success(let plan):
            let credential =
                app.tokenKey.map { "key \($0.keyIdentifier) of team \($0.teamIdentifier)" }
                ?? "its certificate"
            do throws(TransportFailure) {
                try plan.examine(within: Self.greeting, context.interrupt)
            } catch {
                report.fail(
                    "provider", RunFailure(error, of: app.partition, .provider, at: .send))
                return
            }
            report.note(
                "provider", .ok,
                "\(app.partition) sends to \(plan.name) with \(credential), connections: "
                    + "\(provider.connections)")
        }
    }

    /// Looks whether the binary gateway listens, without a complete handshake.
    mutating func examineBinary(_ app: Settings.App) {
        guard let binary = app.binary, areThere(binary.ca),
            let planned = ProviderTarget(app, settings.send, context)
        else { return }
        switch planned.gateway {
        case .failure(let failure): report.fail("binary", failure)
        case .success(let plan):
            do throws(TransportFailure) {
                try plan.examine(within: Self.greeting, context.interrupt)
            } catch {
                report.fail("binary", RunFailure(error, of: app.partition, .binary, at: .send))
                return
            }
            report.note(
                "binary", .ok,
                "\(app.partition) sends to \(plan.name) with command \(binary.command); the gateway "
                    + "listens, and the first notification shows whether it takes the certificate")
        }
    }

    /// The limit for connecting to one provider.
    private static let greeting = Duration.seconds(10)
}
