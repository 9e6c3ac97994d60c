import APNsProtocol
import Operations
import TokenHygiene
import TokenTable

// What is said of one report or suspect, in words.

extension TokenReport {
    /// What the report claims of its token, as a clause.
    var claim: String {
        let often = statements > 1 ? ", \(statements) times" : ""
        return switch batch.source {
        case .feedback: "the feedback list of \(batch.label) calls it dead\(often)"
        case .superseded:
            "its device registered another token later, as \(batch.label) says\(often)"
        default: "answers 410 \(batch.source.rawValue) from \(batch.label) call it dead\(often)"
        }
    }
}

extension Suspect {
    /// What APNs said of it in the other environment, as the end of a sentence; empty where it was not asked.
    var wordsOfElsewhere: String {
        guard let other = partition.elsewhere, let known = elsewhere else { return "" }
        let answer =
            known.answer == .accepted ? "accepted it" : "answered \(known.answer.rawValue)"
        return "; the \(other.environment) \(answer) at \(known.time.rfc3339)"
            + (known.isKnown
                ? accepted == nil
                    ? ", so the row is under the wrong environment: pushsweep environments" : ""
                : ", so it is of neither")
    }
}
