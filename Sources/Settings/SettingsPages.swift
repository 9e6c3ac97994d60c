// The pages made from the table: docs/settings.md and the sample file.

extension SettingsTable {
    /// The text of `docs/settings.md`.
    static func reference() -> String {
        var text = String(decoding: PackageResources.settings_md, as: UTF8.self)
        for (title, rules) in sections {
            text += "\n## \(title)\n\n"
            for rule in rules { text += entry(rule) }
        }
        return text
    }

    private static var sections: [(title: String, rules: [SettingRule])] {
        let titles = [
            ("state", "State"), ("store.", "Token database"),
            ("store.active-users.", "Table of registered devices"),
            ("store.push-queue.", "Table of notifications to send"), ("apps[].", "Apps"),
            ("policy.", "Stale rows"),
            ("throttle.", "Pauses and early ends"),
            ("evidence.", "Reports of other senders"), ("send.", "Sending"),
            ("guard.", "When a removal is held"), ("report.", "Reports"),
            ("hooks.", "Commands after a run"),
        ]
        return titles.map { prefix, title in
            let longer = titles.map(\.0).filter { $0 != prefix && $0.hasPrefix(prefix) }
            let own = rules.filter { rule in
                rule.key.hasPrefix(prefix) && !longer.contains { rule.key.hasPrefix($0) }
            }
            return (title, own)
        }
    }

    private static func entry(_ rule: SettingRule) -> String {
        var facts = [rule.kind.words]
        if case .required = rule.fallback {
            facts.append("required")
        } else {
            facts.append("default: \(rule.fallback.words)")
        }
        if rule.isEnvironmentOnly { facts.append("secret, from the environment only") }
        var text = "- `\(rule.key)`: \(facts.joined(separator: "; ")).  \n  \(rule.summary)"
        if let variable = rule.variable { text += "  \n  `\(variable)`" }
        return text + "\n"
    }
}

extension SettingsTable {
    /// The text of `pushsweep.example.yaml`: every setting that a file may hold, with its sentence.
    /// Settings that most installations need are active; the others are comments with the default
    /// or an example, and become active without the `#` that has no space after it.
    package static func sampleFile() -> String {
        var lines = [String(decoding: PackageResources.sample_yaml.dropLast(), as: UTF8.self)]
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

    /// The line that opens a group; a comment if the whole group is one.
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
        // The first key of a list's item has its dash, the others follow below.
        let isFirstOfItem = groups.last?.hasSuffix("[]") == true && rule.key == "apps[].name"
        let indent = indentation(Array(groups))
        let dash = isFirstOfItem ? String(indent.dropLast(2)) + "- " : indent
        let comment = "\(indent)# \(rule.summary)"
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

    /// Quotes a value that starts with a plus sign.
    private static func quoted(_ value: String) -> String {
        value.hasPrefix("+") ? "\"\(value)\"" : value
    }
}
