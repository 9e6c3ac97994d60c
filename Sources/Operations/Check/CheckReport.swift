import Foundation

/// The result of `check`: one JSON object for scripts.
package struct CheckReport: PrintedLines, Codable, Hashable, Sendable {
    /// The three words that JSON has for the severity of a finding.
    package enum Severity: String, Codable, Hashable, Sendable {
        case ok
        case warning
        case failure
    }

    /// A finding as the JSON of `check` has it.
    package struct Finding: Codable, Hashable, Sendable {
        /// `settings`, `state`, `report`, `feedback`, `certificate`, `provider` or `database`.
        package var area: String
        package var severity: Severity
        /// The finding in one sentence.
        package var message: String
        /// The exit code of a failure; 0 otherwise.
        package var exit: Int32
    }

    /// One setting and its origin.
    package struct Setting: Codable, Hashable, Sendable {
        /// The key, such as `store.url`.
        package var key: String
        /// The value; `(set)` for a secret.
        package var value: String
        /// Where the value comes from: default, line of the file, or variable.
        package var origin: String
    }

    /// The client certificate of one app.
    package struct Certificate: Codable, Hashable, Sendable {
        package var app: String
        /// `production` or `sandbox`.
        package var environment: String
        package var file: String
        package var subject: String
        package var issuer: String
        /// The end of its validity, RFC 3339 in UTC.
        package var expires: String
        /// The SHA-256 fingerprint, in hex.
        package var fingerprint: String
    }

    /// Every setting, in the order of the documentation.
    package var settings: [Setting] = []
    /// The client certificates.
    package var certificates: [Certificate] = []
    /// The findings, in the order of the examination.
    package var findings: [Finding] = []
    /// The exact GRANT statements that the account needs.
    package var grants: [String] = []
    /// Number of feeds in the journals that could be read which the next run applies.
    package private(set) var pending = 0
    /// Number of held feeds in the journals that could be read.
    package private(set) var held = 0
    package var exit: Int32 = 0

    mutating func note(_ area: String, _ severity: Severity, _ message: String) {
        findings.append(Finding(area: area, severity: severity, message: message, exit: 0))
    }

    /// Counts a feed that waits: for the next run, or held for a person, who has to decide about it.
    mutating func noteWaiting(isHeld: Bool) {
        guard isHeld else {
            pending += 1
            return
        }
        held += 1
        end(with: .held)
    }

    private mutating func end(with status: ExitStatus) {
        exit = ExitStatus.worse(ExitStatus(rawValue: exit) ?? .invariant, status).rawValue
    }

    mutating func fail(_ area: String, _ failure: RunFailure) {
        fail(area, failure.exit, failure.description)
    }

    /// Notes a failure; one that several examinations meet, as of a table that is not there, once.
    mutating func fail(_ area: String, _ status: ExitStatus, _ message: String) {
        let finding = Finding(
            area: area, severity: .failure, message: message, exit: status.rawValue)
        if !findings.contains(finding) { findings.append(finding) }
        end(with: status)
    }

    /// The report as text for people: what has to be done first, the settings last.
    package var lines: [String] {
        var lines = ["findings:"]
        lines += findings.map { "  \($0.severity.rawValue): \($0.area): \($0.message)" }
        if !grants.isEmpty {
            lines.append("grants the account needs:")
            lines += grants.map { "  \($0);" }
        }
        if !certificates.isEmpty { lines.append("certificates:") }
        for certificate in certificates {
            lines.append(
                "  \(certificate.app)/\(certificate.environment): \(certificate.subject), valid to "
                    + "\(certificate.expires), issued by \(certificate.issuer)")
        }
        lines.append("settings:")
        let width = settings.map(\.key.count).max() ?? 0
        for setting in settings {
            let gap = String(repeating: " ", count: width - setting.key.count)
            lines.append("  \(setting.key)\(gap)  \(setting.value)  (\(setting.origin))")
        }
        return lines
    }
}
