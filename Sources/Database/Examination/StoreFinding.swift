/// One thing found out about the database.
package struct StoreFinding: Hashable, Sendable, CustomStringConvertible {
    /// How much it matters.
    package enum Severity: Hashable, Sendable {
        /// As it should be.
        case ok
        /// Works, but somebody should know.
        case warning
        /// Cannot wrong a row but loses signals: `check` fails on it, a sweep goes on.
        case refusedByCheck
        /// Nothing may be applied: code 77 or 78.
        case failure(StoreFailure.Code)
    }

    /// How much it matters.
    package let severity: Severity
    /// One line: what was found, and what to do where something is to be done.
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

    /// The sentence.
    package var description: String { sentence }
}
