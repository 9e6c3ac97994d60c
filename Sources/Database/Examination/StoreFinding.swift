/// One result of examining the database.
package struct StoreFinding: Hashable, Sendable, CustomStringConvertible {
    /// The consequence of a finding.
    package enum Severity: Hashable, Sendable {
        /// No problem.
        case ok
        /// No obstacle, but the user should know it.
        case warning
        /// Cannot damage a row but loses signals: `check` fails on it, a sweep continues.
        case refusedByCheck
        /// Evidence must not be applied: code 77 or 78.
        case failure(StoreFailure.Code)
    }

    /// The consequence of the finding.
    package let severity: Severity
    /// One line: the finding, and the remedy where one is needed.
    package let sentence: String
    /// A clause after the sentence that names the command which tells more; see `StoreFailure.hint`.
    package let hint: String

    /// States a finding.
    package init(_ severity: Severity, _ sentence: String, hint: String = "") {
        self.severity = severity
        self.sentence = sentence
        self.hint = hint
    }

    /// The finding that a failure amounts to.
    package init(_ failure: StoreFailure) {
        self.init(.failure(failure.code), failure.sentence, hint: failure.hint)
    }

    /// The failure that the finding amounts to; nil where it forbids nothing.
    package var failure: StoreFailure? {
        guard case .failure(let code) = severity else { return nil }
        return StoreFailure(code, sentence, hint: hint)
    }

    /// The finding's sentence, without its severity.
    package var description: String { sentence }
}
