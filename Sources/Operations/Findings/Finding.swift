// A command gathers facts, and rules judge them: pure functions from facts to findings. Scripts and ignore
// files name findings by their rules, so the names of rules are part of the version promise.

/// How much a finding says, from least to most.
package enum Severity: String, Codable, Hashable, Sendable, CaseIterable, Comparable {
    /// Everything is as it should be.
    case ok
    /// A fact worth knowing.
    case note
    /// A loss that is small, or something to put right some time.
    case low
    /// A loss that is not small, or something not known that should be.
    case medium
    /// A person has to act: nothing would work, or the wrong devices would be reached.
    case high

    package static func < (left: Severity, right: Severity) -> Bool { left.rank < right.rank }

    private var rank: Int { Self.allCases.firstIndex(of: self) ?? 0 }
}

/// What a rule found. Fields of its JSON may be added, never renamed.
package struct Finding: Codable, Hashable, Sendable {
    /// A person's decision to live with a finding.
    package struct Ignored: Codable, Hashable, Sendable {
        package let reason: String
        /// The last day on which it counts.
        package let until: String
    }

    /// The name of the rule, such as `open-hold`.
    package internal(set) var rule: String
    package let severity: Severity
    /// What it is about: `chat/production`, a table, a file, a gateway, a hold.
    package let object: String
    // The sentence by its name in JSON: `message` in that of `preflight`, `summary` in that of `audit`.
    private var message: String?
    private var summary: String?
    /// Why it matters or where it comes from; nil in findings of `preflight`, perhaps empty in those of
    /// `audit`.
    package private(set) var cause: String?
    /// What to do next; empty where nothing is to be done.
    package let cure: String
    /// The decision to live with it; nil where there is none.
    package internal(set) var ignored: Ignored?

    /// What was found, in one sentence.
    package var sentence: String { message ?? summary ?? "" }

    package init(
        _ severity: Severity, _ object: String, _ sentence: String, cause: String? = nil,
        cure: String = "", rule: String = ""
    ) {
        (self.severity, self.object, self.rule) = (severity, object, rule)
        (self.cause, self.cure) = (cause, cure)
        message = sentence
    }

    /// The finding as the JSON of an audit has it.
    var audited: Finding {
        var finding = self
        (finding.summary, finding.message, finding.cause) = (sentence, nil, cause ?? "")
        return finding
    }
}

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
