import APNsProtocol
import Database
import Encodings
import YAML

// A person may decide to live with a finding of `check`, `audit` or `preflight` for some time. The decision is an
// entry in a file beside the deploy script: which rule, about what, why, and until when. A decision without a reason
// or past its day must not hide anything, so such an entry has no effect and is itself a finding.
//
//   - rule: certificate-ends
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
        try self.init(
            text: SettingsFile.text(path, as: "ignore file"), name: path, rules: rules)
    }

    /// Reads a text as the content of the file `name`.
    package init(text: String, name: String, rules: [String]) throws(SettingsFailure) {
        var problems: SettingsProblems = []
        var entries: [Entry] = []
        func place(_ node: YAMLNode) -> String { "\(name):\(node.line)" }
        do throws(YAMLFailure) {
            let root = try YAMLNode.document(text)
            let items = root.flatMap { $0.text == "" ? [] : $0.items }
            if let root, items == nil {
                problems.add(place(root), "must be a list, each item after a -: \(Entry.form)")
            }
            for node in items ?? [] {
                do throws(Refusal) {
                    entries.append(try Entry(node, at: place(node), rules: rules))
                } catch {
                    problems.add(place(node), error.description)
                }
            }
        } catch {
            problems.add("\(name):\(error.line):\(error.column)", error.sentence(of: text))
        }
        guard problems.isEmpty else { throw SettingsFailure(problems: problems) }
        self.entries = entries
    }
}

extension IgnoreList.Entry {
    fileprivate static let form = "rule, object, reason and until, each with one text, given once"

    fileprivate init(_ node: YAMLNode, at place: String, rules: [String]) throws(Refusal) {
        var values: [String: String] = [:]
        guard let pairs = node.pairs else {
            throw Refusal("must be keys with values: \(Self.form)")
        }
        for pair in pairs {
            guard let word = pair.key.text, let text = pair.value.text,
                ["rule", "object", "reason", "until"].contains(word)
            else { throw Refusal("must have no other keys than \(Self.form)") }
            values[word] = text
        }
        guard let rule = values["rule"], rules.contains(rule) else {
            let near = values["rule"].flatMap { NearestName.find($0, in: rules) }
            throw Refusal(
                "rule must be the name of a rule" + (near.map { "; did you mean \($0)?" } ?? ""))
        }
        func given(_ word: String) -> String? {
            values[word].flatMap { $0.allSatisfy(\.isWhitespace) ? nil : $0 }
        }
        let until = given("until")
        // The time at which the day begins; other forms of a time are longer.
        let start = until.flatMap { $0.utf8.count == 10 ? EpochMilliseconds(iso8601: $0) : nil }
        guard until == nil || start != nil else {
            throw Refusal("until must be a day, such as 2026-12-31")
        }
        self.init(
            rule: rule, object: values["object"] ?? "*", reason: given("reason"), until: until,
            ends: start.map { $0.rawValue / 1_000 + 86_400 }, place: place)
    }
}
