import Database
import Findings
import Looks
import Operations

/// What the findings of an audit come to: one word, one sentence, and the findings in the order in
/// which a person reads them.
package struct AuditHeadline: Hashable, Sendable {
    /// Whether nothing needs a person now. A finding of severity high says no, whatever the report
    /// says.
    package let healthy: Bool
    /// The reason in one sentence.
    package let sentence: String
    /// Findings that ask for something, gravest first.
    package let problems: [Finding]
    /// Facts worth knowing.
    package let notes: [Finding]
    /// What is as it should be.
    package let well: [Finding]
    /// What a person decided to live with.
    package let decided: [Finding]

    /// The gravest severity of the problems about each object.
    private let gravest: [String: Severity]

    /// Judges a report.
    package init(_ report: AuditReport) {
        func findings(_ severity: Severity) -> [Finding] {
            report.findings.filter { $0.severity == severity && $0.ignored == nil }
        }
        isFirstLook = report.firstLook != nil
        decided = report.findings.filter { $0.ignored != nil }
        problems = [.high, .medium, .low].flatMap(findings)
        gravest = Dictionary(
            problems.map { ($0.object, $0.severity) }, uniquingKeysWith: { first, _ in first })
        notes = findings(.note)
        well = findings(.ok)
        healthy = report.healthy && problems.first?.severity != .high
        if !report.headline.isEmpty {
            // The word says that already.
            let prefix = ["Healthy: ", "Not healthy: "].first { report.headline.hasPrefix($0) }
            sentence = String(report.headline.dropFirst(prefix?.count ?? 0)).forPeople
        } else if !healthy {
            sentence = problems.first?.sentence ?? "The report gives no reason."
        } else {
            sentence =
                problems.isEmpty
                ? "Nothing needs attention." : "Nothing needs a person now; some things can wait."
        }
    }

    /// Whether it is of a first look, which cannot know that all is well.
    private let isFirstLook: Bool

    package var word: String {
        healthy ? isFirstLook ? "A first look" : "Healthy" : "Not healthy"
    }

    /// The number of problems by severity, gravest first, without zeros: `2 high`, `1 low`.
    package var counts: [String] {
        [Severity.high, .medium, .low].compactMap { severity in
            let count = problems.count { $0.severity == severity }
            return count == 0 ? nil : "\(count.grouped) \(severity.rawValue)"
        }
    }

    /// Findings as people read them: those that say the same of several objects are one, at the place
    /// of the first.
    static func groups(_ findings: [Finding]) -> [FindingGroup] {
        var groups: [FindingGroup] = []
        // By bytes: to compare long texts as texts costs a hundred times as much.
        var places: [[UInt8]: Int] = [:]
        for finding in findings {
            let texts = [
                finding.severity.rawValue, finding.rule, finding.sentence, finding.cause ?? "",
                finding.cure, finding.ignored?.reason ?? "",
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
    func gravest(of object: String) -> Severity? { gravest[object] }
}

/// One finding about one or several objects.
struct FindingGroup: Hashable, Sendable {
    /// The finding about the first object.
    let finding: Finding
    /// The objects, in the order of the findings.
    var objects: [String]

    /// Why it matters; nil where the finding does not say.
    var cause: String? { finding.cause.flatMap { $0.isEmpty ? nil : $0.forPeople } }
    /// What was found.
    var sentence: String { finding.sentence.forPeople }
    /// What to do next; nil where nothing is to be done.
    var cure: String? { finding.cure.isEmpty ? nil : finding.cure }

    /// The first objects, and how many more there are.
    func objects(_ limit: Int, cut: Int) -> String {
        let names = objects.prefix(limit).map { $0.cut(to: cut) }.joined(separator: ", ")
        let rest = objects.count - limit
        return rest > 0 ? "\(names) and \(rest.grouped) more" : names
    }

    /// The finding as one paragraph, for lists of what is well.
    var paragraph: String {
        let text = [
            objects(8, cut: 80) + ": " + sentence, cause, finding.decision ?? cure,
        ].compactMap { $0 }.joined(separator: "; ")
        return finding.severity == .ok ? text : "\(text) [\(finding.rule.cut(to: 60))]"
    }
}

/// The figures of all apps together.
struct Totals: Hashable, Sendable {
    /// The rows of all apps.
    let rows: Int
    /// Rows that may be sent to.
    let living: Int
    /// Rows with a dead token.
    let stale: Int
    /// Evidence that waits for a sweep.
    let waiting: Int
    /// Living tokens that APNs called bad, and how many of them it had known before.
    let suspects, known: Int
    /// Stale rows by age.
    let staleAges: [NamedCount]
    /// Living rows by the age of their registration.
    let registrationAges: [NamedCount]
    /// Evidence by what became of it.
    let outcomes: [NamedCount]
    /// Evidence by day and source.
    let evidence: [EvidenceDay]
    /// Reports of the period that made a row invalid and were not undone, and those of as many days before it.
    let standing, earlier: Int
    /// Notifications of the period that were not sent, because their token was stale.
    let saved: Int

    /// Adds up some apps.
    init(_ apps: [AuditedApp]) {
        rows = apps.map(\.tokens.rows).total
        living = apps.map(\.tokens.living).total
        stale = apps.map(\.tokens.stale).total
        waiting = apps.map(\.forecast.waiting).total
        suspects = apps.flatMap { $0.suspects ?? [] }.map(\.tokens).total
        known = apps.flatMap { $0.suspects ?? [] }.map(\.known).total
        staleAges = Self.sum(apps.map(\.staleAges))
        registrationAges = Self.sum(apps.map(\.registrationAges))
        evidence = apps.flatMap(\.evidence)
        let entries = evidence
        outcomes = EvidenceOutcome.all(of: entries).map { outcome in
            NamedCount(outcome.name, entries.map(outcome.count).total)
        }
        standing = entries.map(\.standing).total
        earlier = apps.compactMap { $0.earlier?.standing }.total
        saved =
            apps.flatMap { $0.queue?.results ?? [] }
            .filter { $0.name == "skipped (stale)" }.map(\.count).total
    }

    /// Adds up counts of the same name. An app may lack a name that others have: it keeps its place
    /// after the name before it.
    static func sum(_ lists: [[NamedCount]]) -> [NamedCount] {
        var sums: [NamedCount] = []
        for list in lists {
            var place = 0
            for entry in list {
                if let known = sums.firstIndex(where: { $0.name == entry.name }) {
                    sums[known].count = sums[known].count.adding(entry.count)
                    place = known + 1
                } else {
                    sums.insert(entry, at: place)
                    place += 1
                }
            }
        }
        return sums
    }
}
