// Mistakes in settings, and their sentences.

import YAML

/// All mistakes in the settings, reported together so that the user can correct them at once.
package struct SettingsFailure: Error, Sendable, Equatable, CustomStringConvertible {
    /// The kind of correction that is needed.
    package enum Kind: Sendable, Equatable {
        /// Something must be written differently: exit code 78.
        case configuration
        /// An option must be written differently: exit code 64.
        case usage
        /// A file's mode or owner must change: exit code 77.
        case permission
    }

    /// One thing to correct.
    package struct Problem: Sendable, Equatable, CustomStringConvertible {
        package let kind: Kind
        /// Place, cause and remedy in one line.
        package let description: String
    }

    /// The number of problems that are named; the others are counted.
    static let limit = 20

    /// All problems found, in the order of the file, then of the environment, then of the table.
    package let problems: [Problem]

    /// Permission if any problem is one of permission, because its exit code takes precedence.
    package var kind: Kind {
        problems.first { $0.kind == .permission }?.kind ?? problems.first?.kind ?? .configuration
    }

    /// One line per problem, at most 20 and the number of the others.
    package var description: String { lines.joined(separator: "\n") }

    package var lines: [String] {
        var lines = problems.prefix(Self.limit).map(\.description)
        let others = problems.count - lines.count
        if others > 0 { lines.append("and \(others) more like these") }
        return lines
    }

    /// A failure of several problems, at least one.
    init(problems: [Problem]) { self.problems = problems }

    init(_ kind: Kind, _ description: String) {
        self.init(problems: [Problem(kind: kind, description: description)])
    }
}

/// Mistakes, collected while reading continues.
typealias SettingsProblems = [SettingsFailure.Problem]

extension SettingsProblems {
    /// Records a mistake at a place: `file:line:column` or a variable.
    mutating func add(
        _ place: String, _ text: String, kind: SettingsFailure.Kind = .configuration
    ) {
        append(.init(kind: kind, description: "\(place): \(text)"))
    }
}

extension SettingsDocument {
    /// The sentence about a key that the table does not have.
    static func unknown(_ word: String, below key: String, _ known: [String]) -> String {
        let location = key.isEmpty ? "" : " in \(key)"
        let start = "unknown key \(SettingText.quoted(word))\(location)"
        if let near = NearestName.find(word, in: known.sorted()) {
            return "\(start); nearest known key: \(near)"
        }
        let lower = word.lowercased()
        if lower.contains("pass") || lower.contains("secret") {
            return "\(start); a secret does not belong in this file, "
                + "name the file that holds it with password-file or passphrase-file"
        }
        return "\(start); known keys: \(known.sorted().joined(separator: ", "))"
    }
}

extension YAMLFailure {
    /// The mistake in a text, and what to do.
    func sentence(of text: String) -> String {
        switch kind {
        case .grammar where startsWithTab(text):
            "a tab where YAML wants spaces; indent with spaces"
        case .grammar(let problem): "not valid YAML: \(problem)"
        case .character: "not valid YAML: a character that YAML does not allow"
        case .twice(let key): "key \(SettingText.quoted(key)) given twice; keep one"
        case .depth: "lists and keys in more than \(YAMLNode.deepest) others; write them flatter"
        case .size: "more than \(YAMLNode.most) values, those of aliases counted; write fewer"
        case .documents: "a second document begins here; keep one"
        case .alias(let name): "no anchor \(SettingText.quoted(name)) stands before this alias"
        case .memory: "no memory is left to read it"
        }
    }

    /// Whether white space with a tab stands before the line's text.
    private func startsWithTab(_ text: String) -> Bool {
        let lines = text.utf8.split(
            separator: UInt8(ascii: "\n"), maxSplits: line, omittingEmptySubsequences: false)
        guard lines.indices.contains(line - 1) else { return false }
        return lines[line - 1].prefix { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
            .contains(UInt8(ascii: "\t"))
    }
}

/// Finds the name that a mistyped one probably means.
package enum NearestName {
    /// The candidate with the fewest edits, the first of equals; nil when nothing is near: when
    /// more than a third of the longer name would have to change.
    package static func find(_ name: String, in candidates: some Sequence<String>) -> String? {
        // No name is that long, and the cost grows with the square of the length.
        guard name.utf8.count <= 200 else { return nil }
        var best: (distance: Int, name: String)?
        for candidate in candidates {
            let distance = edits(Array(name.utf8), Array(candidate.utf8))
            guard distance <= max(1, max(name.utf8.count, candidate.utf8.count) / 3) else {
                continue
            }
            if best.map({ distance < $0.distance }) ?? true { best = (distance, candidate) }
        }
        return best?.name
    }

    /// Number of insertions, deletions, replacements and swaps that turn one name into the other.
    static func edits(_ left: [UInt8], _ right: [UInt8]) -> Int {
        var beforeLast = [Int](repeating: 0, count: right.count + 1)
        var last = Array(0...right.count)
        for (row, byte) in left.enumerated() {
            var current = [row + 1]
            current.reserveCapacity(right.count + 1)
            for (column, other) in right.enumerated() {
                var cost = min(
                    last[column + 1] + 1, current[column] + 1,
                    last[column] + (byte == other ? 0 : 1))
                if row > 0, column > 0, byte == right[column - 1], left[row - 1] == other {
                    cost = min(cost, beforeLast[column - 1] + 1)
                }
                current.append(cost)
            }
            beforeLast = last
            last = current
        }
        return last[right.count]
    }
}
