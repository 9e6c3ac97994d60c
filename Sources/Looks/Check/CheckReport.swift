import Database
import Findings
import FoundationEssentials
import Operations

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
    /// The exact GRANT statements that the account needs, each once.
    package var grants: [String] = []
    /// Those of single rights that it lacks.
    package var lacking: [String] = []
    /// The sentences of findings whose right is among those.
    var named: Set<String> = []
    /// Number of lists in the folders that could be read which the next run applies.
    package private(set) var pending = 0
    /// Number of held lists in the folders that could be read.
    package private(set) var held = 0
    package var exit: Int32 = 0
    /// Whether the text has the settings too; JSON always has them.
    package var showsSettings = false

    /// Notes what an examination found: `rule` is its name in the book of rules.
    mutating func note(
        _ rule: String, _ area: String, _ message: String, _ severity: Severity = .medium
    ) {
        let isWell = severity == .ok
        findings.append(Finding(severity, area, message, rule: isWell ? "" : rule))
    }

    /// Notes that something is as it should be.
    mutating func well(_ area: String, _ message: String) {
        findings.append(Finding(.ok, area, message))
    }

    /// Takes all findings, the worst first. A failure of a rule ends the command as one of an examination.
    mutating func enter(_ found: [Finding]) {
        for finding in found where finding.exit != 0 {
            end(with: ExitStatus(rawValue: finding.exit) ?? .invariant)
        }
        let decided = found.filter { $0.ignored != nil }
        findings = found.filter { $0.ignored == nil }.worstFirst + decided
    }

    /// Counts a batch that waits: for the next run, or held for a person.
    mutating func noteWaiting(isHeld: Bool) {
        guard isHeld else {
            pending += 1
            return
        }
        held += 1
    }

    private mutating func end(with status: ExitStatus) {
        exit = ExitStatus.worse(ExitStatus(rawValue: exit) ?? .invariant, status).rawValue
    }

    mutating func fail(_ rule: String, _ area: String, _ failure: RunFailure) {
        for sentence in failure.sentences { fail(rule, area, failure.exit, sentence) }
    }

    /// Notes a failure; one that several examinations meet, as of a table that is not there, once.
    mutating func fail(
        _ rule: String, _ area: String, _ status: ExitStatus, _ message: String
    ) {
        var finding = Finding(.high, area, message, rule: rule)
        finding.exit = status.rawValue
        if !findings.contains(finding) { findings.append(finding) }
        end(with: status)
    }

    /// The messages of the findings by which a run refuses to begin, the worst first.
    package var failures: [String] {
        findings.filter { $0.severity == .high }.map(\.messageOfCheck)
    }

    /// The report as text for people: the worst finding first, and a last line that counts them.
    package var lines: [String] {
        var lines = ["findings, each explained by pushsweep help NAME:"]
        lines += findings.map { finding in
            guard finding.ignored == nil else {
                return "  ignored: \(finding.place)\(finding.messageOfCheck) [\(finding.rule)]; "
                    + (finding.decision ?? "")
            }
            let name = finding.rule.isEmpty ? "" : " [\(finding.rule)]"
            return
                "  \(finding.severity.wordOfCheck): \(finding.place)\(finding.messageOfCheck)\(name)"
        }
        if !grants.isEmpty,
            findings.contains(where: { $0.isAboutRights && !named.contains($0.sentence) })
        {
            lines.append("grants the account needs; a part of them it lacks:")
            lines += grants.map { "  \($0);" }
        } else if !lacking.isEmpty {
            lines.append(
                "grants the account lacks (pushsweep check --grants prints all, also those that only a rare step "
                    + "needs):")
            lines += lacking.map { "  \($0);" }
        }
        if !certificates.isEmpty { lines.append("certificates:") }
        for certificate in certificates {
            lines.append(
                "  \(certificate.app)/\(certificate.environment): \(certificate.subject), valid to "
                    + "\(certificate.expires), issued by \(certificate.issuer)")
        }
        if showsSettings { lines += settingLines }
        lines.append(
            findings.filter { $0.ignored == nil }.closing(
                { $0 == .ok ? nil : $0.wordOfCheck }, spelled: { $0.counting($1) })
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
        case settings, certificates, findings, grants, lacking, pending, held, exit
    }

    /// A finding as the JSON of `check` has it.
    private struct Entry: Encodable {
        /// Absent where all is well.
        let rule: String?
        let area: String
        let severity: String
        let message: String
        let ignored: Finding.Ignored?
        /// The exit code of a failure, 3 of a hold; 0 otherwise.
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
                    rule: $0.rule.isEmpty ? nil : $0.rule, area: $0.areaOfCheck,
                    severity: $0.severity.wordOfCheck, message: $0.messageOfCheck,
                    ignored: $0.ignored, exit: $0.exit)
            }, forKey: .findings)
        try fields.encode(grants, forKey: .grants)
        try fields.encode(lacking, forKey: .lacking)
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

extension Finding {
    /// The words of `area` in the JSON of `check`, which an examination gives as the object.
    private static let areas: Set<String> = [
        "settings", "state", "report", "feedback", "certificate", "provider", "binary", "database",
    ]

    /// What `check` calls the area: that of the examination, else that of the rule.
    package var areaOfCheck: String {
        if Self.areas.contains(object) { return object }
        switch RuleBook.rule(rule)?.area {
        case .settings, .ignoring: return "settings"
        case .credentials:
            return rule.hasPrefix("feedback")
                ? "feedback" : rule.hasPrefix("provider") ? "provider" : "certificate"
        default: return "database"
        }
    }

    /// Whether it is about rights, or about a table that is missing or hidden.
    fileprivate var isAboutRights: Bool {
        severity != .ok
            && (rule == "missing-right" || rule == "intake-not-seen"
                || rule == "unfit-table" && severity == .high)
    }

    /// The words before the message.
    fileprivate var place: String { "\(areaOfCheck): " }

    /// The object where it is none of the areas, what was found, why, and what to do.
    package var messageOfCheck: String {
        (Self.areas.contains(object) ? "" : "\(object): ") + told
            + (cure.isEmpty ? "" : "; \(cure)")
    }
}
