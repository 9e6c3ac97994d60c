import Database

// A person reads the end of what a command prints first, and its beginning next. So what is worst stands at the
// beginning, and the last line counts the findings and names the worst one again.

extension Sequence<Finding> {
    /// The findings, the worst first; among equals the one whose exit code asks for more, then the one that was
    /// found first.
    var worstFirst: [Finding] {
        sorted { one, two in
            one.severity != two.severity
                ? one.severity > two.severity : one.urgency < two.urgency
        }
    }

    /// The last line for people: `2 failures, 1 warning: the first is database: ...`; nil where no finding
    /// has a word. `word` names a severity, nil for one that is not counted.
    ///
    /// - Parameter spelled: a number and a word, such as `2 failures`.
    func closing(_ word: (Severity) -> String?, spelled: (Int, String) -> String) -> String? {
        var counts: [(word: String, count: Int)] = []
        let counted = worstFirst.filter { word($0.severity) != nil }
        for word in counted.compactMap({ word($0.severity) }) {
            if counts.last?.word == word {
                counts[counts.count - 1].count += 1
            } else {
                counts.append((word, 1))
            }
        }
        guard let first = counted.first else { return nil }
        return counts.map { spelled($0.count, $0.word) }.joined(separator: ", ") + ": "
            + (counted.count > 1 ? "the first is " : "")
            + "\(first.object): \(first.sentence)".gist
    }
}

extension String {
    /// The beginning of a message: the action and its end. The next step follows after `; `.
    package var gist: String { String(split(separator: "; ", maxSplits: 1).first ?? "") }
}

extension Finding {
    /// The place of its exit code, from most to least urgent.
    fileprivate var urgency: Int {
        ExitStatus.byUrgency.firstIndex { $0.rawValue == exit } ?? ExitStatus.byUrgency.count
    }
}
