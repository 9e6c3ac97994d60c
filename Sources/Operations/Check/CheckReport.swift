import Foundation

/// What `check` found: one JSON object for scripts.
package struct CheckReport: PrintedLines, Codable, Hashable, Sendable {
    /// How much a finding matters.
    package enum Severity: String, Codable, Hashable, Sendable {
        case ok
        case warning
        case failure
    }

    /// One thing found out.
    package struct Finding: Codable, Hashable, Sendable {
        /// `settings`, `state`, `report`, `certificate`, `provider` or `database`.
        package var area: String
        /// How much it matters.
        package var severity: Severity
        /// One sentence.
        package var message: String
        /// What a failure means for the exit code; 0 otherwise.
        package var exit: Int32
    }

    /// One setting and where it came from.
    package struct Setting: Codable, Hashable, Sendable {
        /// The key, such as `store.url`.
        package var key: String
        /// The value; `(set)` for a secret.
        package var value: String
        /// Default, line of the file, or variable.
        package var origin: String
    }

    /// The client certificate of one app.
    package struct Certificate: Codable, Hashable, Sendable {
        /// The app's name.
        package var app: String
        /// `production` or `sandbox`.
        package var environment: String
        /// The file.
        package var file: String
        /// Whose it is.
        package var subject: String
        /// Who issued it.
        package var issuer: String
        /// End of validity, RFC 3339 UTC.
        package var expires: String
        /// SHA-256, hex.
        package var fingerprint: String
    }

    /// Every setting, in the order of the documentation.
    package var settings: [Setting] = []
    /// The client certificates.
    package var certificates: [Certificate] = []
    /// What was found, in the order of the examination.
    package var findings: [Finding] = []
    /// The GRANT statements that the account needs, no more and no less.
    package var grants: [String] = []
    /// What the check ends with.
    package var exit: Int32 = 0

    /// Starts empty.
    package init() {}

    mutating func note(_ area: String, _ severity: Severity, _ message: String) {
        findings.append(Finding(area: area, severity: severity, message: message, exit: 0))
    }

    mutating func fail(_ area: String, _ failure: RunFailure) {
        fail(area, failure.exit, failure.description)
    }

    /// Notes a failure; one that several examinations meet, as of a table that is not there, once.
    mutating func fail(_ area: String, _ status: ExitStatus, _ message: String) {
        let finding = Finding(
            area: area, severity: .failure, message: message, exit: status.rawValue)
        if !findings.contains(finding) { findings.append(finding) }
        exit = ExitStatus.worse(ExitStatus(rawValue: exit) ?? .invariant, status).rawValue
    }

    /// The report for people.
    package var lines: [String] {
        var lines = ["settings:"]
        let width = settings.map(\.key.count).max() ?? 0
        for setting in settings {
            let gap = String(repeating: " ", count: width - setting.key.count)
            lines.append("  \(setting.key)\(gap)  \(setting.value)  (\(setting.origin))")
        }
        if !certificates.isEmpty { lines.append("certificates:") }
        for certificate in certificates {
            lines.append(
                "  \(certificate.app)/\(certificate.environment): \(certificate.subject), valid to "
                    + "\(certificate.expires), issued by \(certificate.issuer)")
        }
        lines.append("findings:")
        lines += findings.map { "  \($0.severity.rawValue): \($0.area): \($0.message)" }
        if !grants.isEmpty {
            lines.append("grants the account needs:")
            lines += grants.map { "  \($0);" }
        }
        return lines
    }
}
