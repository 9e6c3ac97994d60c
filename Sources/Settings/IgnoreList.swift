import Database
import Encodings
import SecureTransport
import Yams

// A person may decide to live with a finding of `preflight` for some time. The decision is an entry in a
// file beside the deploy script: which rule, about what, why, and until when. A decision without a reason
// or past its day must not keep a gate open, so such an entry has no effect and is itself a finding.
//
//   - rule: certificate-ends-soon
//     object: chat/production*
//     reason: The new certificate is ordered, ticket OPS-12.
//     until: 2026-12-31
//
// As in the settings, every scalar is the text of the file, and an unknown word is refused.

/// The findings that a person decided to live with.
package struct IgnoreList: Hashable, Sendable {
    /// One decision.
    package struct Entry: Hashable, Sendable {
        /// The rule's name.
        package let rule: String
        /// A pattern for the finding's object, with `*` and `?` as in file names; `*` where none is given.
        package let object: String
        /// The reason; nil where none is given.
        package let reason: String?
        /// The last day on which the entry counts, as written: `2026-12-31`; nil where none is given.
        package let until: String?
        /// The end of that day in UTC, seconds since 1970.
        package let ends: Int64?
        /// The entry's place: `file:line`.
        package let place: String
    }

    /// The entries, in the order of the file.
    package let entries: [Entry]

    /// A list without entries.
    package static let none = IgnoreList(entries: [])

    private init(entries: [Entry]) { self.entries = entries }

    /// Reads the file at a path. `rules` are the names that an entry may have.
    ///
    /// - Throws: all mistakes together: of the file, of YAML, of words and dates.
    package init(file path: String, rules: [String]) throws(SettingsFailure) {
        let text: String
        do {
            text = try SettingsFile.text(path)
        } catch {
            throw SettingsFailure(problems: [error.problem(reading: "ignore file \(path)")])
        }
        try self.init(text: text, name: path, rules: rules)
    }

    /// Reads a text as the content of the file `name`.
    package init(text: String, name: String, rules: [String]) throws(SettingsFailure) {
        var problems = SettingsProblems()
        var entries: [Entry] = []
        do {
            let parser = try Yams.Parser(yaml: text, resolver: .basic, encoding: .utf8)
            let reader = IgnoreListReader(name: name, rules: rules)
            if let root = try parser.singleRoot() { entries = reader.entries(root, &problems) }
        } catch {
            problems.add(name, "is not valid YAML; check its indentation and quotes")
        }
        guard problems.all.isEmpty else { throw SettingsFailure(problems: problems.all) }
        self.entries = entries
    }
}

/// Turns the nodes of an ignore file into entries.
private struct IgnoreListReader {
    let name: String
    let rules: [String]

    private static let words = ["rule", "object", "reason", "until"]

    private func place(_ node: Node) -> String { "\(name):\(node.mark?.line ?? 0)" }

    func entries(_ root: Node, _ problems: inout SettingsProblems) -> [IgnoreList.Entry] {
        if case .scalar(let scalar) = root, scalar.string.isEmpty { return [] }
        guard case .sequence(let items) = root else {
            problems.add(
                place(root), "must be a list, each item after a -, with rule, reason and until")
            return []
        }
        return items.compactMap { entry($0, &problems) }
    }

    private func entry(_ node: Node, _ problems: inout SettingsProblems) -> IgnoreList.Entry? {
        guard case .mapping(let mapping) = node else {
            problems.add(place(node), "must be keys with values: rule, object, reason, until")
            return nil
        }
        var values: [String: String] = [:]
        for (key, value) in mapping {
            guard case .scalar(let word) = key, Self.words.contains(word.string) else {
                let known = Self.words.joined(separator: ", ")
                problems.add(place(key), "there is no such key; the keys are \(known)")
                return nil
            }
            guard case .scalar(let text) = value, values[word.string] == nil else {
                problems.add(place(value), "\(word.string) must be one text, given once")
                return nil
            }
            values[word.string] = text.string
        }
        guard let rule = values["rule"], rules.contains(rule) else {
            let near = values["rule"].flatMap { NearestName.find($0, in: rules) }
            problems.add(
                place(node),
                "rule must be the name of a rule" + (near.map { "; did you mean \($0)?" } ?? ""))
            return nil
        }
        let until = values["until"].flatMap { $0.isBlank ? nil : $0 }
        let ends = until.flatMap(Self.end)
        guard until == nil || ends != nil else {
            problems.add(place(node), "until must be a day, such as 2026-12-31")
            return nil
        }
        return IgnoreList.Entry(
            rule: rule, object: values["object"] ?? "*",
            reason: values["reason"].flatMap { $0.isBlank ? nil : $0 }, until: until, ends: ends,
            place: place(node))
    }

    /// The end of a day in UTC; nil for a text that is no day.
    private static func end(_ day: String) -> Int64? {
        let parts = day.split(separator: "-", omittingEmptySubsequences: false)
        guard day.utf8.count == 10, parts.map(\.utf8.count) == [4, 2, 2] else { return nil }
        let numbers = parts.compactMap { PlainText.wholeNumber($0) }
        guard numbers.count == 3, (1...12).contains(numbers[1]),
            numbers[2] >= 1, numbers[2] <= CivilDate.days(inMonth: numbers[1], of: numbers[0])
        else { return nil }
        let date = CivilDate(year: numbers[0], month: numbers[1], day: numbers[2])
        return Int64(date.daysSince1970 + 1) * 86_400
    }
}

extension String {
    fileprivate var isBlank: Bool { allSatisfy(\.isWhitespace) }
}
