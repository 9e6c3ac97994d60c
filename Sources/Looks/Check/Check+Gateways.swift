import APNsConnection
import APNsProtocol
import SecureTransport
import Settings
import TokenHygiene

// The part of `check` about certificates, keys and gateways.

extension Check {
    /// Checks the app's certificate. Returns true when it can be used, or when none is named.
    mutating func examineCertificate(_ app: Settings.App) -> Bool {
        if app.certificate == nil { return true }
        guard
            areThere(
                app.certificate?.file, app.certificate?.key, app.certificate?.passphraseFile)
        else { return false }
        let credentials = CredentialFacts.all(of: app, at: context.now())
        facts.credentials += credentials.filter { areThere($0.file) }
        guard let certificate = credentials.first(where: { $0.kind == "certificate" }),
            let identity = certificate.identity
        else { return false }
        report.certificates.append(
            CheckReport.Certificate(
                app: app.name, environment: app.environment.rawValue, file: certificate.file,
                subject: identity.subject, issuer: identity.issuer,
                expires: identity.ends.rfc3339, fingerprint: identity.fingerprint))
        guard certificate.invalidity == nil else { return false }
        do {
            if let feedback = app.feedback, areThere(feedback.ca) {
                _ = try TLSClientContext(
                    trust: feedback.ca.map { .file($0) } ?? .system, identity: identity)
            }
            return true
        } catch {
            report.fail("credential-unusable", "certificate", .wrapping(error, at: .identity))
            return false
        }
    }

    /// Connects to the gateway that takes the app's notifications. Sends no request.
    mutating func examineSending(_ app: Settings.App) {
        guard areThere(app.provider?.ca, app.binary?.ca, app.tokenKey?.file),
            let (gateway, plan) = GatewayFacts.reached(app, settings, context)
        else { return }
        facts.gateways.append(gateway)
        guard let plan else { return }
        let credential =
            app.tokenKey.map { "key \($0.keyIdentifier) of team \($0.teamIdentifier)" }
            ?? "its certificate"
        let words =
            app.binary.map {
                "command \($0.command); the gateway listens, and the first notification shows "
                    + "whether it takes the certificate"
            } ?? "\(credential), connections: \(app.provider?.connections ?? 0)"
        report.well(
            app.sendingSetting.rawValue, "\(app.partition) sends to \(plan.name) with \(words)")
    }
}
