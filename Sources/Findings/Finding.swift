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

/// What an examination or a rule found. `check`, `preflight` and `audit` print it and have it as JSON, and a
/// run refuses to begin by its failure. Fields of its JSON may be added, never renamed.
package struct Finding: Codable, Hashable, Sendable, CustomStringConvertible {
    /// A person's decision to live with a finding.
    package struct Ignored: Codable, Hashable, Sendable {
        package let reason: String
        /// The last day on which it counts.
        package let until: String

        package init(reason: String, until: String) {
            (self.reason, self.until) = (reason, until)
        }
    }

    /// The name of the rule, such as `open-hold`; empty for what is well in `check`.
    package var rule = ""
    package private(set) var severity: Severity
    /// What it is about: `chat/production`, a table, a file, a gateway, a hold; for `check` the area, such as
    /// `settings` or `database`.
    package let object: String
    // The sentence by its name in JSON: `message` in that of `preflight`, `summary` in that of `audit`.
    private var message: String?
    private var summary: String?
    /// Why it matters or where it comes from; nil in findings of `preflight`, perhaps empty in those of
    /// `audit`.
    package private(set) var cause: String?
    /// What to do next; empty where nothing is to be done, and where the sentence says it.
    package let cure: String
    /// The decision to live with it; nil where there is none.
    package var ignored: Ignored?
    /// What an entry of an ignore file may call the object; nil: as it is. Not in JSON.
    package var names: [String]?
    /// The exit code of a command that refuses for it; 0 where none does. Of JSON only that of `check` has
    /// it.
    package var exit: Int32 = 0

    /// Why no evidence may be taken or applied; nil where the finding forbids nothing.
    package private(set) var failure: StoreFailure?
    /// The GRANT statement that removes the obstacle; nil where no single one does.
    package private(set) var grant: String?
    /// Whether it is about the values in the rows: commands that only show what the table has go on.
    package private(set) var isAboutRows = false

    private enum CodingKeys: CodingKey {
        case rule, severity, object, message, summary, cause, cure, ignored
    }

    /// What was found, in one sentence.
    package var sentence: String { message ?? summary ?? "" }
    package var description: String { sentence }

    package init(
        _ severity: Severity, _ object: String, _ sentence: String, cause: String? = nil,
        cure: String = "", rule: String = ""
    ) {
        (self.severity, self.object, self.rule) = (severity, object, rule)
        (self.cause, self.cure) = (cause, cure)
        message = sentence
    }

    /// What was found and why it matters, where no other line says that.
    package var told: String {
        cause.map { $0.isEmpty ? sentence : "\(sentence): \($0)" } ?? sentence
    }

    /// The same finding with another weight.
    package func weighing(_ severity: Severity) -> Finding {
        var finding = self
        finding.severity = severity
        return finding
    }

    /// The finding as the JSON of a gate has it: the sentence says why, too.
    package var shown: Finding {
        var finding = self
        (finding.message, finding.summary, finding.cause) = (told, nil, nil)
        return finding
    }

    /// The finding as the JSON of an audit has it.
    package var audited: Finding {
        var finding = self
        (finding.summary, finding.message, finding.cause) = (sentence, nil, cause ?? "")
        return finding
    }
}

extension Sequence<Finding> {
    /// The first failure, with those after it beside it; nil where nothing is forbidden.
    package var refusal: StoreFailure? {
        let failures = compactMap(\.failure)
        return failures.first?.with(Array(failures.dropFirst()))
    }
}

extension Finding {
    /// What the findings about the database are about.
    private static let database = "database"

    package init(_ failure: StoreFailure) {
        self.init(.high, Self.database, failure.sentence, rule: failure.code.rule)
        self.failure = failure
    }

    static package func ok(_ sentence: String) -> Finding { Finding(.ok, database, sentence) }

    /// No obstacle, but the user should know it. `rule` is its name in the book of rules.
    static package func warning(
        _ rule: String, _ sentence: String, grant: String? = nil
    ) -> Finding {
        var finding = Finding(.medium, database, sentence, rule: rule)
        finding.grant = grant
        return finding
    }

    /// Evidence must not be taken or applied. See `StoreFailure` for the hint.
    static package func failure(
        _ code: StoreFailure.Code, _ sentence: String, hint: String = "", grant: String? = nil,
        isAboutRows: Bool = false, rule: String? = nil
    ) -> Finding {
        var finding = Finding(StoreFailure(code, sentence, hint: hint))
        finding.rule = rule ?? finding.rule
        (finding.grant, finding.isAboutRows) = (grant, isAboutRows)
        return finding
    }
}
