import Yams

// The settings file, from YAML to texts by key.
//
// YAML guesses types from spelling: `no` is false, `1e3` a number, `2:30` sexagesimal. Here the
// table knows the type, so every scalar stays the text of the file, and only the table's parser
// gives it a meaning. A key that the table does not know is refused with its place. If it were
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
        // Some editors put a byte order mark before the text. The library does not accept it.
        let hasMark = text.unicodeScalars.first == "\u{FEFF}"
        let text = hasMark ? String(text.unicodeScalars.dropFirst()) : text
        do {
            // The basic resolver leaves every scalar as it is written, and saves compiling the
            // expressions of the default one; the encoding is fixed because otherwise an
            // environment variable of the library chooses it.
            let parser = try Yams.Parser(yaml: text, resolver: .basic, encoding: .utf8)
            guard let root = try parser.singleRoot() else { return }
            walk(root, key: "", row: "", &problems)
        } catch {
            isUnreadable = true
            let place = (error as? YamlError)?.place(in: name, text) ?? name
            problems.add(place, (error as? YamlError)?.sentence(text) ?? "is not valid YAML")
        }
    }

    /// The key of an app by its place in the list, counted from 0.
    static func app(_ index: Int) -> String { "apps[#\(index + 1)]" }

    /// Reads a group. `row` is its key in the table, where a list's name has its `[]`.
    private mutating func walk(
        _ node: Node, key: String, row: String, _ problems: inout SettingsProblems
    ) {
        if isNull(node) { return }
        guard case .mapping(let mapping) = node else {
            let what = key.isEmpty ? "the settings" : key
            problems.add(place(node), "\(what) must be keys with values, found \(found(node))")
            return
        }
        let known = SettingsTable.words[row] ?? []
        var seen: Set<String> = []
        for (keyNode, value) in mapping {
            guard case .scalar(let scalar) = keyNode else {
                problems.add(place(keyNode), "a key must be a word, found \(found(keyNode))")
                continue
            }
            let word = scalar.string
            guard seen.insert(word).inserted else {
                problems.add(place(keyNode), "key \(SettingText.quoted(word)) is given twice")
                continue
            }
            guard known.contains(word) else {
                problems.add(place(keyNode), Self.unknown(word, below: key, known))
                continue
            }
            take(
                value, key.isEmpty ? word : "\(key).\(word)",
                row: row.isEmpty ? word : "\(row).\(word)", &problems)
        }
    }

    private mutating func take(
        _ value: Node, _ key: String, row: String, _ problems: inout SettingsProblems
    ) {
        if let rule = SettingsTable.rule(row) {
            scalar(value, rule, key, &problems)
        } else if SettingsTable.words[row + "[]"] != nil {
            list(value, key, row: row + "[]", &problems)
        } else if let column = SettingsTable.rule(row + ".column"), value.mapping == nil {
            // `app: app_id` is short for `app: {column: app_id}`.
            scalar(value, column, "\(key).column", &problems)
        } else {
            groups[key] = place(value)
            walk(value, key: key, row: row, &problems)
        }
    }

    private mutating func list(
        _ value: Node, _ key: String, row: String, _ problems: inout SettingsProblems
    ) {
        if isNull(value) { return }
        guard case .sequence(let items) = value else {
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
        _ node: Node, _ rule: SettingRule, _ key: String, _ problems: inout SettingsProblems
    ) {
        let content: RawSetting.Content
        switch node {
        case .scalar(let scalar):
            guard hasNoTag(node) else {
                problems.add(place(node), "\(key) has a YAML tag; write the value alone")
                return
            }
            content =
                isNull(node)
                ? .null : .text(scalar.string, plain: scalar.style == .plain)
        case .sequence(let items) where rule.kind.isList:
            let names = items.compactMap { isNull($0) ? nil : $0.scalar?.string }
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
            content: content, source: .file(line: node.mark?.line ?? 0), place: place(node))
    }

    private func place(_ node: Node) -> String {
        guard let mark = node.mark else { return name }
        return "\(name):\(mark.line):\(mark.column)"
    }

    private func found(_ node: Node) -> String {
        switch node {
        case .mapping: "keys with values"
        case .sequence: "a list"
        case .scalar(let scalar):
            isNull(node) ? "nothing" : "the text \(SettingText.quoted(scalar.string))"
        case .alias: "an alias"
        }
    }

    private func isNull(_ node: Node) -> Bool {
        guard case .scalar(let scalar) = node, scalar.style == .plain, hasNoTag(node) else {
            return false
        }
        return ["", "~", "null", "Null", "NULL"].contains(scalar.string)
    }

    // Yams' usual resolver compiles a regular expression per type, which takes a tenth of the time
    // of a sweep of an empty feed. The setting decides the type of a scalar anyway.
    private let untagged = [Tag(.implicit, .basic), Tag(.str, .basic)]

    private func hasNoTag(_ node: Node) -> Bool { untagged.contains(node.tag) }
}
