extension SettingsTable {
    /// The text of `pushsweep.example.yaml`: every setting that a file may hold, with its sentence.
    /// What most installations write is written; the rest stands as a comment with its default or
    /// an example, and is switched on by removing the `#` that has no space behind it.
    package static func sampleFile() -> String {
        var lines = [
            "# Settings of Pushsweep. Read from --config, else from the file that PUSHSWEEP_CONFIG",
            "# names, else from /etc/pushsweep/pushsweep.yaml. Unknown keys are errors. Relative",
            "# paths start at this file's folder. Every setting can be overridden by a variable, for",
            "# instance PUSHSWEEP_POLICY_ACTION. All names: docs/settings.md or `pushsweep check`.",
            "#",
            "# To set what stands as a comment, remove its # and those of the groups it stands in.",
        ]
        var open: [String] = []
        for (index, rule) in fileRules.enumerated() {
            let path = rule.path
            if index == 0 || fileRules[index - 1].path[0] != path[0] { lines.append("") }
            let shared = zip(open, path.dropLast()).prefix { $0 == $1 }.count
            open = Array(open.prefix(shared))
            for word in path.dropLast().dropFirst(shared) {
                lines.append(header(word, below: open))
                open.append(word)
            }
            lines += entry(rule)
        }
        return lines.joined(separator: "\n") + "\n"
    }

    private static let fileRules = rules.filter { !$0.isEnvironmentOnly }

    /// The line that opens a group; a comment if all of the group is one.
    private static func header(_ word: String, below open: [String]) -> String {
        let prefix = (open + [word]).joined(separator: ".") + "."
        let isWritten = fileRules.contains { rule in
            guard rule.key.hasPrefix(prefix), case .written = rule.sample else { return false }
            return true
        }
        let name = word.hasSuffix("[]") ? String(word.dropLast(2)) : word
        return "\(indentation(open))\(isWritten ? "" : "#")\(name):"
    }

    /// The sentence and the setting.
    private static func entry(_ rule: SettingRule) -> [String] {
        let groups = rule.path.dropLast()
        let name = rule.path.last ?? ""
        // The first key of a list's item carries its dash, the others stand below it.
        let isFirstOfItem = groups.last?.hasSuffix("[]") == true && rule.key == "apps[].name"
        let indent = indentation(Array(groups))
        let dash = isFirstOfItem ? String(indent.dropLast(2)) + "- " : indent
        let comment =
            "\(indent)# \(rule.summary)" + (rule.isInForce ? "" : " Not in force yet.")
        switch rule.sample {
        case .written(let value): return [comment, "\(dash)\(name): \(quoted(value))"]
        case .comment(let value): return [comment, "\(indent)#\(name): \(quoted(value))"]
        case .omitted: return [comment]
        }
    }

    private static func indentation(_ open: [String]) -> String {
        // A list indents its items, and its items their keys.
        let depth = open.reduce(0) { $0 + ($1.hasSuffix("[]") ? 2 : 1) }
        return String(repeating: "  ", count: depth)
    }

    /// Quotes what would be read as a mapping or has a sign at its start.
    private static func quoted(_ value: String) -> String {
        value.hasPrefix("+") ? "\"\(value)\"" : value
    }
}
