// One book of rules for every command that looks. A command gathers facts (`Facts`), and the rules judge them: pure
// functions from facts to findings. So one fact has one name, one severity and one cure, whoever tells it.
//
//   facts     what was seen; a part that a command does not look at, or could not see, is nil
//   rule      name, area, the commands that ask it, the part that it needs, a judgement, a text
//   finding   what a rule found about one object; `--ignore` names it by rule and object
//
// To add a rule, once `pushsweep help rules` has none that tells it:
//
//   1. A new fact is an optional field of `Facts`, nil where it was not looked at; the commands fill it.
//      What `Check` sees in passing it may note itself, under the rule's name; then the entry is `.examined`.
//   2. Write the judgement, a function with declared types, and an entry that names it into the list of its area:
//      settings, server and table are in ExaminedRules.swift, queue in TokenRules.swift, each other one in its own.
//   3. Write its text into the file of that list in `Texts`, at the same place among the others (RuleText.swift): each
//      paragraph has 21 to 399 characters and ends with a full stop.
//   4. Write docs/rules.md anew: PUSHSWEEP_TEST_WRITE_DOCS=1 scripts/test --filter RuleBookTests. Test the
//      judgement (AuditRuleTests is an example), and tell users in CHANGELOG.md.
//
// Then its commands ask it, and `pushsweep help RULE` prints its text. No entry has a closure of several lines: the
// compiler finds the types of a whole list at once, and with such closures one wrong name took it minutes.
//
// What an examination finds by itself, as of a file, a server or the form of a table, has its rule's name already
// (`Facts.examined`); its rule has no judgement of its own. Scripts and ignore files name findings by their rules, so
// the names are part of the version promise.

import Database
import Findings
import Operations

/// A command that looks and judges.
package enum Look: String, Hashable, Sendable, CaseIterable {
    case check, audit, preflight
}

/// What a rule is about: the heading of its page.
package enum RuleArea: String, Hashable, Sendable, CaseIterable {
    case settings = "Settings and files"
    case credentials = "Certificates, keys, gateways"
    case server = "The database server"
    case table = "The form of the tables"
    case evidence = "Evidence, holds and sweeps"
    case tokens = "The rows of the table"
    case send = "The tokens of a send"
    case queue = "The queue"
    case ignoring = "The ignore file"
}

/// A rule: its name, who asks it, and the function that finds what it is about.
package struct Rule: Sendable {
    /// A command that asks a rule, and the gravest that it takes from it.
    struct Asker: Sendable {
        let look: Look
        var most = Severity.high

        static let check = Asker(look: .check)
        static let audit = Asker(look: .audit)
        static let preflight = Asker(look: .preflight)

        /// A weaker word in this command, where what is found stops less of what the command is for.
        func atMost(_ severity: Severity) -> Asker { Asker(look: look, most: severity) }
    }

    package let name: String
    package let area: RuleArea
    package var looks: [Look] { askers.map(\.look) }

    private let askers: [Asker]
    private let judge: @Sendable (Facts) -> [Finding]

    /// A rule that may find several things in the part of the facts that it needs.
    static func each<Part>(
        _ name: String, _ area: RuleArea, in askers: [Asker],
        needs part: @escaping @Sendable (Facts) -> Part?,
        judge: @escaping @Sendable (Part, Facts) -> [Finding]
    ) -> Rule {
        Rule(name: name, area: area, askers: askers) { facts in
            part(facts).map { judge($0, facts) } ?? []
        }
    }

    /// A rule that finds one thing at most.
    static func one<Part>(
        _ name: String, _ area: RuleArea, in askers: [Asker],
        needs part: @escaping @Sendable (Facts) -> Part?,
        judge: @escaping @Sendable (Part, Facts) -> Finding?
    ) -> Rule {
        .each(name, area, in: askers, needs: part) { part, facts in
            judge(part, facts).map { [$0] } ?? []
        }
    }

    /// A rule that finds one thing at most in the numbers of each app.
    static func app(
        _ name: String, _ area: RuleArea, in askers: [Asker],
        judge: @escaping @Sendable (AuditedApp) -> Finding?
    ) -> Rule {
        .each(name, area, in: askers, needs: \.report) { report, _ in
            report.apps.compactMap(judge)
        }
    }

    /// A rule about what an examination finds by itself.
    static func examined(_ name: String, _ area: RuleArea, in askers: [Asker]) -> Rule {
        Rule(name: name, area: area, askers: askers, judge: { _ in [] })
    }

    /// What it finds, with its name. A failure that stops a run keeps its weight whoever asks, and in `check` nothing
    /// else is more than a warning.
    func findings(_ facts: Facts) -> [Finding] {
        guard let asker = askers.first(where: { $0.look == facts.look }) else { return [] }
        return facts.examined.filter { $0.rule == name }
            + judge(facts).map { finding in
                let most = facts.look == .check ? min(asker.most, .medium) : asker.most
                // A hold ends a check with 3 and is no failure of it.
                let isHold = finding.exit == ExitStatus.held.rawValue
                let stops = facts.look == .check && finding.exit != 0
                var finding = finding.weighing(
                    stops && !isHold ? finding.severity : min(finding.severity, most))
                if !stops { finding.exit = 0 }
                finding.rule = name
                return finding
            }
    }
}
