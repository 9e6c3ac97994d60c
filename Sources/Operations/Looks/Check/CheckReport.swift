import Database
import Findings
import Foundation

/// The result of `check`: one JSON object for scripts.
package struct CheckReport: PrintedLines, Encodable, Hashable, Sendable {
    /// One setting and its origin.
    package struct Setting: Encodable, Hashable, Sendable {
        /// The key, such as `store.url`.
        package var key: String
        /// The value; `(set)` for a secret.
        package var value: String
        /// Where the value comes from: default, line of the file, or variable.
        package var origin: String
    }

    /// The client certificate of one app.
    package struct Certificate: Encodable, Hashable, Sendable {
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
    /// The findings, the worst first. `object` is the area: `settings`, `state`, `report`, `feedback`,
    /// `certificate`, `provider` or `database`.
    package var findings: [Finding] = []
    /// The exact GRANT statements that the account needs.
    package var grants: [String] = []
    /// Number of feeds in the journals that could be read which the next run applies.
    package private(set) var pending = 0
    /// Number of held feeds in the journals that could be read.
    package private(set) var held = 0
    package var exit: Int32 = 0
    /// Whether the text has the settings too; JSON always has them.
    package var showsSettings = false

    mutating func note(_ area: String, _ severity: Severity, _ message: String) {
        findings.append(Finding(severity, area, message))
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
        for sentence in failure.sentences { fail(area, failure.exit, sentence) }
    }

    /// Notes a failure; one that several examinations meet, as of a table that is not there, once.
    mutating func fail(_ area: String, _ status: ExitStatus, _ message: String) {
        var finding = Finding(.high, area, message)
        finding.exit = status.rawValue
        if !findings.contains(finding) { findings.append(finding) }
        end(with: status)
    }

    /// The messages of the findings by which a run refuses to begin, the worst first.
    package var failures: [String] {
        findings.filter { $0.severity == .high }.map(\.sentence)
    }

    /// The report as text for people: the worst finding first, and a last line that counts them.
    package var lines: [String] {
        var lines = ["findings:"]
        lines += findings.map { "  \($0.severity.wordOfCheck): \($0.object): \($0.sentence)" }
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
        if showsSettings { lines += settingLines }
        lines.append(
            findings.closing({ $0 == .ok ? nil : $0.wordOfCheck }, spelled: { $0.counting($1) })
                ?? "no failure and no warning")
        return lines
    }

    private var settingLines: [String] {
        let width = settings.map(\.key.count).max() ?? 0
        return ["settings:"]
            + settings.map { setting in
                let gap = String(repeating: " ", count: width - setting.key.count)
                return "  \(setting.key)\(gap)  \(setting.value)  (\(setting.origin))"
            }
    }
}

// MARK: JSON

extension CheckReport {
    private enum CodingKeys: CodingKey {
        case settings, certificates, findings, grants, pending, held, exit
    }

    /// A finding as the JSON of `check` has it.
    private struct Entry: Encodable {
        let area: String
        let severity: String
        let message: String
        /// The exit code of a failure; 0 otherwise.
        let exit: Int32
    }

    /// Writes the fields of docs/json/check.schema.json.
    package func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: CodingKeys.self)
        try fields.encode(settings, forKey: .settings)
        try fields.encode(certificates, forKey: .certificates)
        try fields.encode(
            findings.map {
                Entry(
                    area: $0.object, severity: $0.severity.wordOfCheck, message: $0.sentence,
                    exit: $0.exit)
            }, forKey: .findings)
        try fields.encode(grants, forKey: .grants)
        try fields.encode(pending, forKey: .pending)
        try fields.encode(held, forKey: .held)
        try fields.encode(exit, forKey: .exit)
    }
}

extension Severity {
    /// The word of `check`, which knows whether a run would refuse to begin, and no shades of a warning.
    var wordOfCheck: String {
        switch self {
        case .ok: "ok"
        case .note, .low, .medium: "warning"
        case .high: "failure"
        }
    }
}
