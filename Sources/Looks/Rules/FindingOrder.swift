import Database
import Findings
import Operations

// A person reads the end of what a command prints first, and its beginning next. So what is worst stands at the
// beginning, and the last line counts the findings and names the worst one again.

extension Sequence<Finding> {
    /// The findings, the worst first; among equals the one whose exit code asks for more, then the one that was
    /// found first.
    var worstFirst: [Finding] {
        enumerated().sorted { one, two in
            if one.element.severity != two.element.severity {
                return one.element.severity > two.element.severity
            }
            return (one.element.urgency, one.offset) < (two.element.urgency, two.offset)
        }.map(\.element)
    }

    /// The last line for people: `2 failures, 1 warning: the first is database: ...`; nil where no finding
    /// has a word. `word` names a severity, nil for one that is not counted.
    ///
    /// - Parameter spelled: a number and a word, such as `2 failures`.
    func closing(_ word: (Severity) -> String?, spelled: (Int, String) -> String) -> String? {
        worstFirst.compactMap { finding in
            word(finding.severity).map {
                (word: $0, message: "\(finding.object): \(finding.sentence)")
            }
        }.closing(spelled)
    }
}

extension Sequence<RunFailure> {
    /// The failures, the one whose exit code asks for most first.
    package var gravestFirst: [RunFailure] {
        enumerated().sorted {
            ($0.element.exit.urgency, $0.offset) < ($1.element.exit.urgency, $1.offset)
        }.map(\.element)
    }

    /// The last line for people where there are several sentences: how many, and the first of them. What
    /// they list does not count.
    package var closing: String? {
        let sentences = gravestFirst.flatMap(\.sentences)
        guard sentences.count > 1 else { return nil }
        return sentences.map { (word: "failure", message: $0) }.closing { $0.counting($1) }
    }
}

extension Sequence<(word: String, message: String)> {
    /// One line about messages in order, the worst first: how many there are of each word, and the gist of the
    /// first; nil where there is none.
    fileprivate func closing(_ spelled: (Int, String) -> String) -> String? {
        var counts: [(word: String, count: Int)] = []
        var first: String?
        var total = 0
        for (word, message) in self {
            first = first ?? message.gist
            total += 1
            if counts.last?.word == word {
                counts[counts.count - 1].count += 1
            } else {
                counts.append((word, 1))
            }
        }
        return first.map { first in
            counts.map { spelled($0.count, $0.word) }.joined(separator: ", ") + ": "
                + (total > 1 ? "the first is " : "") + first
        }
    }
}

extension String {
    /// The beginning of a message: the action and its end. The next step follows after `; `.
    package var gist: String { String(split(separator: "; ", maxSplits: 1).first ?? "") }
}

extension Finding {
    /// The place of its exit code, from most to least urgent.
    fileprivate var urgency: Int {
        ExitStatus(rawValue: exit)?.urgency ?? ExitStatus.byUrgency.count
    }
}

extension ExitStatus {
    /// The place among all codes, from most to least urgent.
    fileprivate var urgency: Int {
        Self.byUrgency.firstIndex(of: self) ?? Self.byUrgency.count
    }
}
