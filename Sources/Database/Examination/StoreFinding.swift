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

    /// Makes a finding from its consequence and its sentence.
    package init(_ severity: Severity, _ sentence: String) {
        self.severity = severity
        self.sentence = sentence
    }

    /// The finding for a failure.
    package init(_ failure: StoreFailure) { self.init(.failure(failure.code), failure.sentence) }

    /// The finding's sentence, without its severity.
    package var description: String { sentence }
}
