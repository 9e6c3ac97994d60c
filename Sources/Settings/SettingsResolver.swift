import Database

/// Gives every setting of the table its value: the written one, else its default. Works in the
/// table's order, so a default that follows from an earlier setting finds its value.
struct SettingsResolver {
    /// Values by key of the document, for all that have one.
    private(set) var values: [String: SettingValue] = [:]
    /// The origin of each value, in the order of the table.
    private var origins: [SettingOrigin] = []
    /// The fields filled so far; complete only without mistakes.
    private var filled = Settings()
    private let document: SettingsDocument
    /// Every written key, and every group of a written key.
    private let groups: Set<String>
    private let labels: [AppLabel]
    private let parser: SettingParser
    /// The default state folder.
    private let state: String

    /// Resolves all settings and fills the fields; mistakes go to `problems`.
    init(
        _ document: SettingsDocument, labels: [AppLabel], folder: String, state: String,
        _ problems: inout SettingsProblems
    ) {
        self.document = document
        self.groups = Self.groups(document)
        self.labels = labels
        self.parser = SettingParser(folder: folder)
        self.state = state
        filled.apps = labels.map { _ in Settings.App() }
        var rules = SettingsTable.rules[...]
        while let rule = rules.popFirst() {
            guard rule.isPerApp else {
                resolve(rule, key: rule.key, shown: rule.key, app: 0, &problems)
                continue
            }
            // The order is by app: all settings of one app, then those of the next.
            let perApp = [rule] + rules.prefix { $0.isPerApp }
            rules = rules.dropFirst(perApp.count - 1)
            for (index, label) in labels.enumerated() {
                for rule in perApp where isPresent(rule, app: index) {
                    resolve(
                        rule, key: "\(SettingsDocument.app(index)).\(rule.keyWithinApp)",
                        shown: "\(label.shown).\(rule.keyWithinApp)", app: index, &problems)
                }
            }
        }
    }

    /// Whether any key of a group was given, or the group itself.
    func isGroupPresent(_ group: String) -> Bool {
        groups.contains(group)
    }

    /// The settings with all fields filled; only valid without mistakes.
    func settings(file: String?) -> Settings {
        var settings = filled
        settings.file = file
        settings.origins = origins
        return settings
    }

    /// Takes the database password that was read from a file.
    mutating func take(password: Settings.Secret, from file: String) {
        filled.store.password = password
        guard let index = origins.firstIndex(where: { $0.key == "store.password" }) else { return }
        origins[index] = SettingOrigin(
            key: "store.password", shownValue: "(set)", origin: .contents(of: file))
    }

    /// The place at which a key was written, for messages.
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
        guard let group = rule.optionalGroup else { return true }
        return isGroupPresent("\(SettingsDocument.app(app)).\(group)")
    }

    private mutating func resolve(
        _ rule: SettingRule, key: String, shown: String, app: Int,
        _ problems: inout SettingsProblems
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
            if let value { rule.store(value, &filled, app) }
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
            // Settings about a column declare that the column exists. A column without such settings
            // has no group of its own.
            let isExpected =
                key.hasSuffix(".column")
                && isGroupPresent(String(key.dropLast(".column".count)))
            return .column(isExpected ? .named(text) : .detect(text))
        case .text(let text): return try parser.value(text, rule.kind)
        case .absent, .detected: return nil
        case .required: throw SettingRefusal("is missing; give it a value")
        case .computed(_, let value):
            return value(SettingDefaults(settled: values, key: key, usualState: state))
        }
    }

    private func placeOfGroup(_ key: String) -> String {
        guard let dot = key.lastIndex(of: ".") else { return document.name }
        return place(String(key[..<dot]))
    }
}

/// The values from which a computed default can follow.
struct SettingDefaults {
    /// Values of the settings above, by key of the document.
    fileprivate let settled: [String: SettingValue]
    /// The key of the document that needs a default.
    fileprivate let key: String
    /// The state folder of this user on this machine.
    let usualState: String

    /// A path in the state folder; nil where its setting was refused.
    func inState(_ name: String) -> String? {
        guard case .text(let state)? = settled["state"] else { return nil }
        return "\(state)/\(name)"
    }

    /// The default TLS mode of the token database; nil where its address was refused.
    var usualTLSMode: SettingValue? {
        guard case .store(let location)? = settled["store.url"] else { return nil }
        let mode: Settings.Store.TLSMode = StoreTLS.usual(for: location) == .off ? .off : .verify
        return .text(mode.rawValue)
    }

    /// The value of another setting of the same group.
    func neighbour(_ name: String) -> SettingValue? {
        guard let dot = key.lastIndex(of: ".") else { return nil }
        return settled[key[...dot] + name]
    }
}
