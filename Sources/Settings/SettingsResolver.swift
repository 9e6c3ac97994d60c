import Database

/// Gives every setting of the table its value: what was written, else its default. Goes through
/// the table in order, so a default that follows from a setting above finds it settled.
struct SettingsResolver {
    /// Values by key of the document, for all that have one.
    private(set) var values: [String: SettingValue] = [:]
    /// Where each came from, in the order of the table.
    private(set) var origins: [SettingOrigin] = []
    private let document: SettingsDocument
    /// Every key that was written or that something was written below.
    private let groups: Set<String>
    private let labels: [AppLabel]
    private let parser: SettingParser
    /// The state folder that holds when none is written.
    private let state: String

    /// Resolves everything; what is wrong goes to `problems`.
    init(
        _ document: SettingsDocument, labels: [AppLabel], folder: String, state: String,
        _ problems: inout SettingsProblems
    ) {
        self.document = document
        self.groups = Self.groups(document)
        self.labels = labels
        self.parser = SettingParser(folder: folder)
        self.state = state
        var rules = SettingsTable.rules[...]
        while let rule = rules.popFirst() {
            guard rule.isPerApp else {
                resolve(rule, key: rule.key, shown: rule.key, &problems)
                continue
            }
            // All settings of one app stand together, not one setting of all apps.
            let perApp = [rule] + rules.prefix { $0.isPerApp }
            rules = rules.dropFirst(perApp.count - 1)
            for (index, label) in labels.enumerated() {
                for rule in perApp where isPresent(rule, app: index) {
                    resolve(
                        rule, key: "\(SettingsDocument.app(index)).\(rule.keyWithinApp)",
                        shown: "\(label.shown).\(rule.keyWithinApp)", &problems)
                }
            }
        }
    }

    /// Whether any key of a group was given, or the group itself.
    func isGroupPresent(_ group: String) -> Bool {
        groups.contains(group)
    }

    /// Notes that a secret was read from the file that another setting names.
    mutating func tellOrigin(_ key: String, from file: String) {
        guard let index = origins.firstIndex(where: { $0.key == key }) else { return }
        origins[index] = SettingOrigin(
            key: key, shownValue: "(set)", origin: .contents(of: file))
    }

    /// Where something was written, for messages about it.
    func place(_ key: String) -> String {
        if let place = document.values[key]?.place ?? document.groups[key] { return place }
        let inside = document.values.filter { $0.key.hasPrefix(key + ".") }
        return inside.min { $0.key < $1.key }?.value.place ?? document.name
    }

    private static func groups(_ document: SettingsDocument) -> Set<String> {
        var groups = Set(document.groups.keys)
        for var key in document.values.keys {
            while let dot = key.lastIndex(of: ".") {
                key = String(key[..<dot])
                guard groups.insert(key).inserted else { break }
            }
        }
        return groups
    }

    private func isPresent(_ rule: SettingRule, app: Int) -> Bool {
        let path = rule.path
        guard path.count > 2, SettingsTable.optionalGroups.contains(path[1]) else { return true }
        return isGroupPresent("\(SettingsDocument.app(app)).\(path[1])")
    }

    private mutating func resolve(
        _ rule: SettingRule, key: String, shown: String, _ problems: inout SettingsProblems
    ) {
        let written = document.values[key]
        do throws(SettingRefusal) {
            let value: SettingValue?
            if let written {
                value = try read(written, rule)
            } else {
                value = try fallback(rule, key: key)
            }
            values[key] = value
            origins.append(
                SettingOrigin(
                    key: shown, shownValue: value?.shown(rule.kind) ?? rule.fallback.shown,
                    origin: written?.source ?? .builtIn))
        } catch {
            problems.add(written?.place ?? placeOfGroup(key), "\(shown) \(error.reason)")
        }
    }

    private func read(_ raw: RawSetting, _ rule: SettingRule) throws(SettingRefusal) -> SettingValue
    {
        let mayBeAbsent = rule.kind == .optionalColumn
        switch raw.content {
        case .null where mayBeAbsent: return .column(.absent)
        case .text("none", plain: true) where mayBeAbsent: return .column(.absent)
        case .null: throw SettingRefusal("has no value; give one or remove the key")
        case .text(let text, _): return try parser.value(text, rule.kind)
        case .list(let names): return try parser.list(names, rule.kind)
        }
    }

    private func fallback(_ rule: SettingRule, key: String) throws(SettingRefusal) -> SettingValue?
    {
        switch rule.fallback {
        case .text(let text) where rule.kind == .optionalColumn:
            // Whoever writes something about a column says that there is one.
            let isExpected = isGroupPresent(String(key.dropLast(".column".count)))
            return .column(isExpected ? .named(text) : .detect(text))
        case .text(let text): return try parser.value(text, rule.kind)
        case .absent, .detected: return nil
        case .required: throw SettingRefusal("is missing; give it a value")
        case .computed: return computed(rule.key, app: key)
        }
    }

    private func computed(_ pattern: String, app key: String) -> SettingValue? {
        switch pattern {
        case "state": return .text(state)
        case "store.url":
            guard case .text(let state)? = values["state"] else { return nil }
            return .store(.sqlite(path: "\(state)/tokens.sqlite"))
        case "throttle.stop-file":
            guard case .text(let state)? = values["state"] else { return nil }
            return .text("\(state)/stop")
        case "store.tls.mode":
            guard case .store(let location)? = values["store.url"] else { return nil }
            let mode: Settings.Store.TLSMode =
                StoreTLS.usual(for: location) == .off ? .off : .verify
            return .text(mode.rawValue)
        case "apps[].value": return values[sibling(key, "name")]
        case "apps[].feedback.host-name": return values[sibling(key, "host")]
        default: return nil
        }
    }

    private func sibling(_ key: String, _ name: String) -> String {
        guard let dot = key.lastIndex(of: ".") else { return name }
        return key[...dot] + name
    }

    private func placeOfGroup(_ key: String) -> String {
        guard let dot = key.lastIndex(of: ".") else { return document.name }
        return place(String(key[..<dot]))
    }
}
