import Database

// A command gathers facts, and rules judge them: pure functions from facts to findings. Scripts and ignore
// files name findings by their rules, so the names of rules are part of the version promise.

/// A rule: its name, what it finds in one sentence, and the function that finds it.
struct Rule<Facts>: Sendable {
    let name: String
    let summary: String
    private let judge: @Sendable (Facts) -> [Finding]

    init(
        _ name: String, _ summary: String = "",
        _ judge: @escaping @Sendable (Facts) -> Finding? = { _ in nil }
    ) {
        self = .each(name, summary) { facts in judge(facts).map { [$0] } ?? [] }
    }

    private init(
        name: String, summary: String, judge: @escaping @Sendable (Facts) -> [Finding]
    ) {
        (self.name, self.summary, self.judge) = (name, summary, judge)
    }

    /// A rule that may find several things.
    static func each(
        _ name: String, _ summary: String = "",
        _ judge: @escaping @Sendable (Facts) -> [Finding]
    ) -> Rule {
        Rule(name: name, summary: summary, judge: judge)
    }

    func findings(_ facts: Facts) -> [Finding] {
        judge(facts).map { finding in
            var finding = finding
            finding.rule = name
            return finding
        }
    }
}
