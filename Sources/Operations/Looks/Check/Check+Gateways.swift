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
                    "certificate", .medium,
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
                    "certificate", .medium,
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
            report.note("certificate", .medium, sentence)
        }
    }

    /// Says what can be said about a feedback gateway without connecting to it.
    mutating func examineFeedback(_ app: Settings.App) {
        guard let feedback = app.feedback else { return }
        if let mistake = app.feedbackMistake(among: settings.apps) {
            report.fail("feedback", .configuration, mistake)
        } else if [443, 2197].contains(feedback.port) {
            report.note(
                "feedback", .medium,
                "\(feedback.host):\(feedback.port) of apps[\(app.partition)].feedback has a port of "
                    + "HTTP/2 gateways; if it is one, give its address to provider")
        }
    }

    /// Connects to the gateway that takes the app's notifications. Sends no request.
    mutating func examineSending(_ app: Settings.App) {
        guard areThere(app.provider?.ca, app.binary?.ca, app.tokenKey?.file),
            let target = ProviderTarget(app, settings.send, context)
        else { return }
        let area = app.sendingSetting
        do {
            let gateway = try target.gateway.get()
            try gateway.examine(within: .seconds(10), context.interrupt)
            let credential =
                app.tokenKey.map { "key \($0.keyIdentifier) of team \($0.teamIdentifier)" }
                ?? "its certificate"
            let words =
                app.binary.map {
                    "command \($0.command); the gateway listens, and the first notification shows "
                        + "whether it takes the certificate"
                } ?? "\(credential), connections: \(app.provider?.connections ?? 0)"
            report.note(
                area.rawValue, .ok, "\(app.partition) sends to \(gateway.name) with \(words)")
        } catch let failure as TransportFailure {
            report.fail(area.rawValue, RunFailure(failure, of: app.partition, area, at: .send))
        } catch {
            report.fail(area.rawValue, .wrapping(error, at: .send))
        }
    }
}
