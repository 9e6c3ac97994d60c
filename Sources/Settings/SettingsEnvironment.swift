// Variables override single settings, so that a container or a test needs no file of its own. Any
// variable of our prefix that means nothing is refused, for the same reason as unknown keys: a
// mistyped PUSHSWEEP_POLICY_ACTON must not leave a default in force.
//
// Apps exist only in the file; a variable finds its app by name, in capitals and with `_` for all
// but letters and digits. Where two apps come out the same, by chance or because one app stands
// there for production and for the sandbox, the environment's word follows:
// PUSHSWEEP_APPS_CHAT_SANDBOX_FEEDBACK_HOST.

/// How one app of the file is called in keys that people see and in variables.
struct AppLabel: Equatable {
    /// `apps[chat]`, `apps[chat/sandbox]`, or `apps[#2]` for one without a usable name.
    let shown: String
    /// The words after `PUSHSWEEP_APPS_`; nil for an app without a usable name.
    let variable: String?

    /// Labels for all apps of a document, in order.
    static func labels(_ document: SettingsDocument) -> [AppLabel] {
        let apps = (0..<document.apps).map(SettingsDocument.app)
        let names = apps.map { document.word("\($0).name") }
        let environments = apps.map { document.word("\($0).environment") }
        let words = names.map { $0.map { SettingRule.variableWord($0) } }
        let sameName = Dictionary(grouping: names) { $0 }
        let sameWord = Dictionary(grouping: words) { $0 }
        return names.indices.map { index in
            guard let name = names[index], let word = words[index], SettingText.isName(name) else {
                return AppLabel(shown: apps[index], variable: nil)
            }
            let environment = environments[index] ?? ""
            let isNameShared = (sameName[name]?.count ?? 0) > 1
            let isWordShared = (sameWord[word]?.count ?? 0) > 1
            return AppLabel(
                shown: isNameShared ? "apps[\(name)/\(environment)]" : "apps[\(name)]",
                variable: isWordShared
                    ? "\(word)_\(SettingRule.variableWord(environment))" : word)
        }
    }
}

/// The variables that this document's settings have.
struct SettingsVariables {
    /// Keys of the document by variable; more than one where apps cannot be told apart.
    private(set) var keys: [String: [String]] = [:]
    /// Whether every app has a usable name, so that the list is complete.
    private(set) var isComplete = true

    /// Lists the variables of all settings and of the apps of a document.
    init(_ document: SettingsDocument, labels: [AppLabel]) {
        for rule in SettingsTable.rules where !rule.isPerApp {
            if let variable = rule.variable { keys[variable] = [rule.key] }
        }
        for (index, label) in labels.enumerated() {
            guard let name = label.variable else {
                isComplete = false
                continue
            }
            for rule in SettingsTable.rules where rule.isPerApp && rule.variable != nil {
                let within = SettingRule.variable(forKey: rule.keyWithinApp)
                let variable = "PUSHSWEEP_APPS_\(name)_\(within.dropFirst("PUSHSWEEP_".count))"
                keys[variable, default: []].append(
                    "\(SettingsDocument.app(index)).\(rule.keyWithinApp)")
            }
        }
    }

    /// The variables of an environment that must mean something to the settings.
    static func ours(_ environment: [String: String]) -> [String: String] {
        environment.filter { name, _ in
            name.hasPrefix("PUSHSWEEP_") && name != SettingsFile.variable
                && !name.hasPrefix("PUSHSWEEP_TEST_")
        }
    }

    /// Lays our variables over what the document says.
    func overlay(
        _ environment: [String: String], on document: inout SettingsDocument,
        _ problems: inout SettingsProblems
    ) {
        for (name, value) in environment.sorted(by: { $0.key < $1.key }) {
            let place = "environment \(SettingText.quoted(name))"
            guard let keys = keys[name] else {
                if isComplete || !name.hasPrefix("PUSHSWEEP_APPS_") {
                    problems.add(place, unknown(name))
                }
                continue
            }
            guard keys.count == 1, let key = keys.first else {
                problems.add(
                    place, "stands for settings of several apps; give them different names")
                continue
            }
            guard !value.isEmpty else {
                problems.add(place, "is empty; give it a value or unset it")
                continue
            }
            document.values[key] = RawSetting(
                content: .text(value, plain: true), source: .environment(name),
                place: "environment \(name)")
        }
    }

    private func unknown(_ name: String) -> String {
        // The prefix that all share says nothing about nearness.
        let start = "PUSHSWEEP_"
        let known = keys.keys.sorted().map { String($0.dropFirst(start.count)) }
        guard let near = NearestName.find(String(name.dropFirst(start.count)), in: known) else {
            return "unknown variable; see docs/settings.md for the names of all"
        }
        return "unknown variable; nearest known one: \(start)\(near)"
    }
}

extension SettingsDocument {
    /// The text of a value, if it is one.
    func word(_ key: String) -> String? {
        guard case .text(let text, _)? = values[key]?.content else { return nil }
        return text
    }
}
