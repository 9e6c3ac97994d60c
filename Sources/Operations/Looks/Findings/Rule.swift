import Database
import Findings

// A command gathers facts, and rules judge them: pure functions from facts to findings. Scripts and ignore
// files name findings by their rules, so the names of rules are part of the version promise.

/// A rule: its name, and the function that finds what it is about.
struct Rule<Facts>: Sendable {
    let name: String
    private let judge: @Sendable (Facts) -> [Finding]

    init(
        _ name: String, _ judge: @escaping @Sendable (Facts) -> Finding? = { _ in nil }
    ) {
        self = .each(name) { facts in judge(facts).map { [$0] } ?? [] }
    }

    private init(name: String, judge: @escaping @Sendable (Facts) -> [Finding]) {
        (self.name, self.judge) = (name, judge)
    }

    /// A rule that may find several things.
    static func each(
        _ name: String, _ judge: @escaping @Sendable (Facts) -> [Finding]
    ) -> Rule {
        Rule(name: name, judge: judge)
    }

    func findings(_ facts: Facts) -> [Finding] {
        judge(facts).map { finding in
            var finding = finding
            finding.rule = name
            return finding
        }
    }
}
