import YAML

// The settings file, from YAML to texts by key.
//
// Every scalar is the text of the file, and only the table's parser gives it a meaning. A key that the table does not know is refused with its place. If it were
// ignored, the setting would silently have its default, which must not happen in a tool that
// removes rows. Reading continues after a mistake, so that all mistakes are reported at once. A
// file that is not YAML, or that has a key twice in one place, has only this one error, because the
// rest cannot be trusted.

/// A written value with its place.
struct RawSetting: Equatable {
    /// The written form.
    enum Content: Equatable {
        /// `~`, `null` or nothing after the colon.
        case null
        /// A text; `plain` if it was not quoted.
        case text(String, plain: Bool)
        /// A list of texts.
        case list([String])
        /// Nothing is written: the usual name of a column that the table may lack.
        case usual(String)
    }

    let content: Content
    let source: SettingSource
    /// `file:line:column` or `environment NAME`.
    let place: String
}

/// The content of a settings file, by key. Apps are numbered from 1: `apps[#1].name`.
struct SettingsDocument {
    /// Values by key.
    var values: [String: RawSetting] = [:]
    /// Written groups with their places, also empty ones.
    var groups: [String: String] = [:]
    /// The number of apps.
    var apps = 0
    /// The name of the file in messages.
    let name: String
    /// Whether the text is not YAML, so that its content is unknown.
    private(set) var isUnreadable = false

    /// Reads a file's text; mistakes go to `problems`.
    init(_ text: String, name: String, problems: inout SettingsProblems) {
        self.name = name
        do throws(YAMLFailure) {
            guard let root = try YAMLNode.document(text) else { return }
            walk(root, key: "", row: "", &problems)
        } catch {
            isUnreadable = true
            problems.add("\(name):\(error.line):\(error.column)", error.sentence(of: text))
        }
    }

    /// The key of an app by its place in the list, counted from 0.
    static func app(_ index: Int) -> String { "apps[#\(index + 1)]" }

    /// Reads a group. `row` is its key in the table, where a list's name has its `[]`.
    private mutating func walk(
        _ node: YAMLNode, key: String, row: String, _ problems: inout SettingsProblems
    ) {
        if node.isNull { return }
        guard let pairs = node.pairs else {
            let what = key.isEmpty ? "the settings" : key
            problems.add(place(node), "\(what) must be keys with values, found \(found(node))")
            return
        }
        let known = SettingsTable.words[row] ?? []
        for pair in pairs {
            guard let word = pair.key.text else {
                problems.add(place(pair.key), "a key must be a word, found \(found(pair.key))")
                continue
            }
            guard known.contains(word) else {
                problems.add(place(pair.key), Self.unknown(word, below: key, known))
                continue
            }
            take(
                pair.value, key.isEmpty ? word : "\(key).\(word)",
                row: row.isEmpty ? word : "\(row).\(word)", &problems)
        }
    }

    private mutating func take(
        _ value: YAMLNode, _ key: String, row: String, _ problems: inout SettingsProblems
    ) {
        if let rule = SettingsTable.rule(row) {
            scalar(value, rule, key, &problems)
        } else if SettingsTable.words[row + "[]"] != nil {
            list(value, key, row: row + "[]", &problems)
        } else if let column = SettingsTable.rule(row + ".column"), value.pairs == nil {
            // `app: app_id` is short for `app: {column: app_id}`.
            scalar(value, column, "\(key).column", &problems)
        } else {
            groups[key] = place(value)
            walk(value, key: key, row: row, &problems)
        }
    }

    private mutating func list(
        _ value: YAMLNode, _ key: String, row: String, _ problems: inout SettingsProblems
    ) {
        if value.isNull { return }
        guard let items = value.items else {
            problems.add(
                place(value), "\(key) must be a list, each item after a -, found \(found(value))")
            return
        }
        for item in items {
            let path = Self.app(apps)
            apps += 1
            groups[path] = place(item)
            walk(item, key: path, row: row, &problems)
        }
    }

    private mutating func scalar(
        _ node: YAMLNode, _ rule: SettingRule, _ key: String, _ problems: inout SettingsProblems
    ) {
        let content: RawSetting.Content
        switch node.content {
        case .scalar(let text, let isPlain):
            guard !node.isTagged else {
                problems.add(place(node), "\(key) has a YAML tag; write the value alone")
                return
            }
            content = node.isNull ? .null : .text(text, plain: isPlain)
        case .sequence(let items) where rule.kind.isList:
            let names = items.compactMap { $0.isNull ? nil : $0.text }
            guard names.count == items.count else {
                problems.add(place(node), "\(key) must be a list of texts")
                return
            }
            content = .list(names)
        default:
            problems.add(
                place(node),
                "\(key) must be one value, \(rule.kind.plainWords), found \(found(node))")
            return
        }
        values[key] = RawSetting(
            content: content, source: .file(line: node.line), place: place(node))
    }

    private func place(_ node: YAMLNode) -> String { "\(name):\(node.line):\(node.column)" }

    private func found(_ node: YAMLNode) -> String {
        switch node.content {
        case .mapping: "keys with values"
        case .sequence: "a list"
        case .scalar(let text, _):
            node.isNull ? "nothing" : "the text \(SettingText.quoted(text))"
        }
    }
}
