import Yams

/// The table of settings as the tree in which a file writes them.
struct SettingsTree {
    /// What may stand below, by word.
    var children: [String: SettingsTree] = [:]
    /// The setting itself, where there is nothing below.
    var rule: SettingRule?
    /// Whether this is a list of what stands below.
    var isList = false

    /// The tree of all settings that a file may hold.
    static let root: SettingsTree = {
        var root = SettingsTree()
        for rule in SettingsTable.rules where !rule.isEnvironmentOnly {
            root.insert(rule, path: rule.path[...])
        }
        return root
    }()

    private mutating func insert(_ rule: SettingRule, path: ArraySlice<String>) {
        guard let first = path.first else {
            self.rule = rule
            return
        }
        let word = first.hasSuffix("[]") ? String(first.dropLast(2)) : first
        var child = children[word] ?? SettingsTree()
        child.isList = first.hasSuffix("[]")
        child.insert(rule, path: path.dropFirst())
        children[word] = child
    }
}

extension SettingsDocument {
    /// The sentence about a key that the table does not have.
    static func unknown(_ word: String, below key: String, _ tree: SettingsTree) -> String {
        let location = key.isEmpty ? "" : " in \(key)"
        let start = "unknown key \(SettingText.quoted(word))\(location)"
        if word == "<<" {
            return "\(start); merge keys are not read, use an alias for a whole value"
        }
        if let near = NearestName.find(word, in: tree.children.keys.sorted()) {
            return "\(start); nearest known key: \(near)"
        }
        let lower = word.lowercased()
        if lower.contains("pass") || lower.contains("secret") {
            return "\(start); a secret does not belong in this file, "
                + "name the file that holds it with password-file or passphrase-file"
        }
        let known = tree.children.keys.sorted().joined(separator: ", ")
        return "\(start); known keys: \(known)"
    }
}

extension YamlError {
    /// Where in the file the library stopped.
    func place(in name: String, _ text: String) -> String {
        switch self {
        case .scanner(_, _, let mark, _), .parser(_, _, let mark, _), .composer(_, _, let mark, _):
            return "\(name):\(mark.line):\(mark.column)"
        case .duplicatedKeysInMapping(_, let context):
            return "\(name):\(context.mark.line):\(context.mark.column)"
        case .reader(_, let offset?, _, _):
            let before = text.prefix(offset)
            let line = before.count { $0.isNewline } + 1
            let column = before.reversed().prefix { !$0.isNewline }.count + 1
            return "\(name):\(line):\(column)"
        default: return name
        }
    }

    /// What is wrong there, and what to do.
    func sentence(_ text: String) -> String {
        switch self {
        case .scanner(_, let problem, let mark, _):
            if Self.startsWithTab(text, line: mark.line) {
                return "a tab where YAML wants spaces; indent with spaces"
            }
            return "no valid YAML: \(problem)"
        case .parser(_, let problem, _, _), .composer(_, let problem, _, _):
            return "no valid YAML: \(problem)"
        case .reader: return "no valid YAML: a character that YAML does not allow"
        case .duplicatedKeysInMapping(let keys, _):
            let shown = keys.prefix(3).map { SettingText.quoted($0) }.joined(separator: ", ")
            return "\(keys.count == 1 ? "key" : "keys") \(shown) given twice; keep one"
        default: return "cannot be read as YAML"
        }
    }

    private static func startsWithTab(_ text: String, line: Int) -> Bool {
        let lines = text.split(
            separator: "\n", maxSplits: max(line, 1), omittingEmptySubsequences: false)
        guard lines.indices.contains(line - 1) else { return false }
        return lines[line - 1].prefix { $0 == " " || $0 == "\t" }.contains("\t")
    }
}
