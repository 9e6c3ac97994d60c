import Operations

/// What the findings of an audit come to: one word, one sentence, and the findings in the order in
/// which a person reads them.
package struct Verdict: Hashable, Sendable {
    /// Whether nothing needs a person now. A finding of severity high says no, whatever the report
    /// says.
    package let healthy: Bool
    /// The reason in one sentence.
    package let sentence: String
    /// Findings that ask for something, gravest first.
    package let problems: [AuditFinding]
    /// Facts worth knowing.
    package let notes: [AuditFinding]
    /// What is as it should be.
    package let well: [AuditFinding]

    /// The gravest severity of the problems about each object.
    private let gravest: [String: AuditSeverity]

    /// Judges a report.
    package init(_ report: AuditReport) {
        func findings(_ severity: AuditSeverity) -> [AuditFinding] {
            report.findings.filter { $0.severity == severity }
        }
        problems = [.high, .medium, .low].flatMap(findings)
        gravest = Dictionary(
            problems.map { ($0.object, $0.severity) }, uniquingKeysWith: { first, _ in first })
        notes = findings(.note)
        well = findings(.ok)
        healthy = report.healthy && problems.first?.severity != .high
        if !report.headline.isEmpty {
            // The word says that already.
            let prefix = ["Healthy: ", "Not healthy: "].first { report.headline.hasPrefix($0) }
            sentence = String(report.headline.dropFirst(prefix?.count ?? 0))
        } else if !healthy {
            sentence = problems.first?.summary ?? "The report gives no reason."
        } else {
            sentence =
                problems.isEmpty
                ? "Nothing needs attention." : "Nothing needs a person now; some things can wait."
        }
    }

    package var word: String { healthy ? "Healthy" : "Not healthy" }

    /// The number of problems by severity, gravest first, without zeros: `2 high`, `1 low`.
    package var counts: [String] {
        [AuditSeverity.high, .medium, .low].compactMap { severity in
            let count = problems.count { $0.severity == severity }
            return count == 0 ? nil : "\(count.grouped) \(severity.rawValue)"
        }
    }

    /// Findings as people read them: those that say the same of several objects are one, at the place
    /// of the first.
    static func groups(_ findings: [AuditFinding]) -> [FindingGroup] {
        var groups: [FindingGroup] = []
        // By bytes: to compare long texts as texts costs a hundred times as much.
        var places: [[UInt8]: Int] = [:]
        for finding in findings {
            let texts = [
                finding.severity.rawValue, finding.rule, finding.summary, finding.cause,
                finding.cure,
            ]
            let alike = Array(texts.joined(separator: "\0").utf8)
            if let place = places[alike] {
                groups[place].objects.append(finding.object)
            } else {
                places[alike] = groups.count
                groups.append(FindingGroup(finding: finding, objects: [finding.object]))
            }
        }
        return groups
    }

    /// The gravest severity among the findings about one object; nil without a problem.
    func gravest(of object: String) -> AuditSeverity? { gravest[object] }
}

/// One finding about one or several objects.
struct FindingGroup: Hashable, Sendable {
    /// The finding about the first object.
    let finding: AuditFinding
    /// The objects, in the order of the findings.
    var objects: [String]

    /// The first objects, and how many more there are.
    func objects(_ limit: Int, cut: Int) -> String {
        let names = objects.prefix(limit).map { $0.cut(to: cut) }.joined(separator: ", ")
        let rest = objects.count - limit
        return rest > 0 ? "\(names) and \(rest.grouped) more" : names
    }

    /// The finding as one paragraph, for lists of what is well.
    var paragraph: String {
        [objects(8, cut: 80) + ": " + finding.summary, finding.cause, finding.cure]
            .filter { !$0.isEmpty }.joined(separator: "; ")
    }
}

extension AuditedApp {
    /// The name by which findings, holds and changes speak of it: `chat/production`.
    var object: String { "\(app)/\(environment)" }
}
