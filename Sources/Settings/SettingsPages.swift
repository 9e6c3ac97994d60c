// The pages made from the table: docs/settings.md and the sample file.

extension SettingsTable {
    /// The text of `docs/settings.md`.
    static func reference() -> String {
        var text = introduction
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

    private static let introduction = """
        # Settings

        This page lists all settings, their meaning and where their values come from.

        Pushsweep reads one YAML file: the one named by `--config`, else the one named by the
        variable `PUSHSWEEP_CONFIG`, else `/etc/pushsweep/pushsweep.yaml`. Only the last may be
        missing; then the defaults apply: a SQLite database in the state folder, and no apps.
        Variables override the file. `pushsweep check` prints every setting with its origin, and
        `pushsweep check --example` prints a short file as a start, with `--all` one with all of them,
        and with `--example=NAME` the file of one of the [recipes](recipes/README.md).

        - A key that is not listed here is an error, and so are a wrong type, a value out of range,
          a key given twice, and an unknown variable that starts with `PUSHSWEEP_`. All mistakes are
          reported at once, with line, column and the nearest known name. Exit code: 78, or 77 where
          the mode or the owner of a file is wrong.
        - Relative paths start at the folder of the settings file; without one, at the working
          folder.
        - A time is a whole number with its unit: `500ms`, `30s`, `5m`, `2h`. A size is a number of
          bytes or has a unit: `64KiB`, `64MiB`, `1GiB`.
        - A column with settings besides its name may be given by its name alone:
          `app: app_id` means `app: {column: app_id}`.
        - An optional column is used if the table has it under its default name. A column that the
          settings name, or whose type, zone or values they give, must exist. `~` or `none` means that
          the table has no such column.
        - A default that is found in the table comes from its columns and keys. Where these do not
          decide, as whole numbers may be seconds or milliseconds, the setting is required.
        - A group of an app (`certificate`, `token-key`, `feedback`, `provider`, `binary`) that is
          left out does not exist, and its defaults do not apply.
        - Zones are `UTC`, `Z` or a fixed offset. A zone such as Europe/Berlin is refused: an hour
          repeats there each year, and a time in it cannot be compared. For a column in such a zone
          name the smallest offset of the year, for Berlin `+01:00`: then no registration is read
          earlier than it was. In summer it is read an hour later.
        - The settings file holds no passwords. A password is the only content of a separate file, or
          the value of a variable. A file with a password, a passphrase or a key belongs to the user of
          the run or to root, only its owner may read it, and it is a regular file or a link to one.
        - `<NAME>` in a variable is the app's name in capitals, with `_` for all but letters and
          digits. Where two apps get the same word, the environment follows: `CHAT_SANDBOX`.
          Variables override the apps of the file and cannot add one.
        - Variables that start with `PUSHSWEEP_TEST_` belong to the tests and are ignored. So are
          `PUSHSWEEP_EXIT`, `PUSHSWEEP_KIND` and `PUSHSWEEP_RUN`, which [hooks](hooks.md) get.

        """
}

extension SettingsTable {
    /// The text of `pushsweep.example.yaml`: every setting that a file may hold, with its sentence.
    /// Settings that most installations need are active; the others are comments with the default
    /// or an example, and become active without the `#` that has no space after it.
    package static func sampleFile() -> String {
        var lines = [
            "# Settings of Pushsweep. Read from --config, else from the file that PUSHSWEEP_CONFIG",
            "# names, else from /etc/pushsweep/pushsweep.yaml. Unknown keys are errors. Relative",
            "# paths start at this file's folder. Every setting can be overridden by a variable, for",
            "# instance PUSHSWEEP_POLICY_ACTION. All names: docs/settings.md or `pushsweep check`.",
            "#",
            "# To activate a setting in a comment, remove its # and those of its groups.",
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
