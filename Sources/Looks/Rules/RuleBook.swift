import APNsProtocol
import Database
import Encodings
import Findings
import Glibc
import Operations
import Settings

/// All rules, in the order of the page and of reports.
package enum RuleBook {
    package static let all: [Rule] =
        settings + credentials + server + table + evidence + rhythm + tokens + send + queue
        + ignoring

    /// The rule of a name.
    package static func rule(_ name: String) -> Rule? { all.first { $0.name.isExactly(name) } }

    /// The names that an entry of an ignore file may have. A mistake in the file cannot ignore itself.
    package static let ignorable = all.filter { $0.area != .ignoring }.map(\.name)

    /// The rules that a command asks.
    static func rules(of look: Look) -> [Rule] { all.filter { $0.looks.contains(look) } }

    /// What the rules find, each finding once, with the decisions of the ignore file. What an examination found under
    /// a name that is in no book is told all the same.
    static func findings(_ facts: Facts, ignoring list: IgnoreList = .none) -> [Finding] {
        let known = Set(rules(of: facts.look).map(\.name))
        let unnamed = facts.examined.filter { !known.contains($0.rule) }
        var findings: [Finding] = []
        for finding in all.flatMap({ $0.findings(facts) }) + unnamed
        where !findings.contains(finding) {
            findings.append(finding)
        }
        return list.applied(to: findings, of: facts.look, at: facts.now)
    }
}

// MARK: The ignore file

extension RuleBook {
    /// What `IgnoreList` finds in itself, once the other findings are known.
    static let ignoring: [Rule] = [
        .examined("ignore-without-reason", .ignoring, in: [.check, .audit, .preflight]),
        .examined("ignore-without-date", .ignoring, in: [.check, .audit, .preflight]),
        .examined("ignore-past-date", .ignoring, in: [.check, .audit, .preflight]),
        .examined("ignore-unused", .ignoring, in: [.check, .audit, .preflight]),
    ]
}

extension IgnoreList {
    /// The findings with the decisions about them, and findings on entries that do not count. A failure for which a
    /// run refuses to begin stays one.
    func applied(
        to findings: [Finding], of look: Look, at now: EpochMilliseconds
    ) -> [Finding] {
        var result = findings
        for entry in entries {
            guard let reason = entry.reason, let until = entry.until, let ends = entry.ends,
                now.rawValue < ends * 1_000
            else {
                result.append(Self.fault(of: entry))
                continue
            }
            // One file may serve several commands.
            guard let rule = RuleBook.rule(entry.rule), rule.looks.contains(look) else { continue }
            let hits = findings.indices.filter { place in
                let finding = findings[place]
                return finding.rule == rule.name && finding.severity != .ok
                    && (finding.names ?? [finding.object]).contains {
                        fnmatch(entry.object, $0, 0) == 0
                    }
            }
            let decided = hits.filter { findings[$0].exit == 0 }
            for index in decided { result[index].ignored = .init(reason: reason, until: until) }
            if hits.count > decided.count {
                result.append(
                    Finding(
                        .note, entry.place,
                        "\(entry.rule) about \(entry.object) is a failure, for which a run does not begin",
                        cure: "cure it; no entry has an effect on a failure",
                        rule: "ignore-unused"))
            } else if hits.isEmpty {
                result.append(
                    Finding(
                        .note, entry.place,
                        "no finding of \(entry.rule) about \(entry.object) to ignore",
                        cure: "remove the entry, unless the finding comes and goes",
                        rule: "ignore-unused"))
            }
        }
        return result
    }

    /// Why an entry has no effect.
    private static func fault(of entry: Entry) -> Finding {
        let (rule, problem, cure) =
            if entry.reason == nil {
                (
                    "ignore-without-reason", "has no reason",
                    "say why in reason, or remove the entry"
                )
            } else if let until = entry.until {
                (
                    "ignore-past-date", "ended with \(until)",
                    "cure the finding, or decide again with a later day"
                )
            } else {
                (
                    "ignore-without-date", "has no last day",
                    "give a day in until, or remove the entry"
                )
            }
        return Finding(
            .medium, entry.place, "the entry for \(entry.rule) \(problem), so it has no effect",
            cure: cure, rule: rule)
    }
}
