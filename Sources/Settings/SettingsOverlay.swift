// Overrides of the settings file: variables of the environment, and options of the command line.
//
// Variables override single settings, so that a container or a test needs no file of its own. An
// unknown variable with our prefix is refused, for the same reason as an unknown key: a mistyped
// PUSHSWEEP_POLICY_ACTON must not leave the default active.
//
// Apps exist only in the file; a variable finds its app by name, in capitals and with `_` for all
// but letters and digits. Where two apps get the same word, by chance or because one app has
// entries for production and for the sandbox, the environment's word follows:
// PUSHSWEEP_APPS_CHAT_SANDBOX_FEEDBACK_HOST.

import Database

/// The names of one app of the file, in shown keys and in variables.
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
    /// Keys of the document by variable; several where apps have the same words.
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

    /// The variables of an environment that must name settings.
    static func ours(_ environment: [String: String]) -> [String: String] {
        environment.filter { name, _ in
            name.hasPrefix("PUSHSWEEP_") && name != SettingsFile.variable
                && !name.hasPrefix("PUSHSWEEP_TEST_") && HookVariable(rawValue: name) == nil
        }
    }

    /// Overrides values of the document with our variables.
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
        for (key, why) in SettingsTable.withdrawn where SettingRule.variable(forKey: key) == name {
            return "\(key) is refused: \(why)"
        }
        // The common prefix does not show similarity.
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

/// The variables that the command of `hooks.after-run` gets. They set nothing, so that it can start
/// `pushsweep`.
package enum HookVariable: String, Sendable {
    /// The exit code of the run.
    case exit = "PUSHSWEEP_EXIT"
    /// The kind of run, such as `sweep`.
    case kind = "PUSHSWEEP_KIND"
    /// The name of the run; absent for a purge.
    case run = "PUSHSWEEP_RUN"
}

extension Settings {
    /// The variables of an environment without those of settings that are secret.
    package static func withoutSecrets(_ environment: [String: String]) -> [String: String] {
        let secrets = SettingsTable.rules.filter(\.isEnvironmentOnly).compactMap(\.variable)
        return environment.filter { !secrets.contains($0.key) }
    }
}

/// The values of one option of the command line that sets a setting.
package struct SettingOption: Sendable {
    /// The option without its hyphens.
    let name: String
    /// The key that it sets.
    let key: String
    /// The texts, one for each time the option was given.
    let texts: [String]

    /// An option that may be given several times, for a list.
    package init(_ name: String, sets key: String, _ texts: [String]) {
        self.name = name
        self.key = key
        self.texts = texts
    }

    /// An option that may be given once; nil if it was not given. `unit` is for a number without a
    /// unit.
    package init(_ name: String, sets key: String, _ text: String?, unit: String = "") {
        let isBare = text.map { !$0.isEmpty && $0.allSatisfy { ("0"..."9").contains($0) } } ?? false
        self.init(name, sets: key, text.map { [isBare ? $0 + unit : $0] } ?? [])
    }
}

extension Settings {
    /// These settings, overridden by options. Each option is read by the rules of the key that it
    /// sets; relative paths start at `folder`, an absolute path. `origins` do not change.
    ///
    /// - Throws: the first option with a text that its key does not allow.
    package func overlaid(
        with options: [SettingOption], folder: String
    ) throws(SettingsFailure) -> Settings {
        var settings = self
        for option in options where !option.texts.isEmpty {
            guard let rule = SettingsTable.rule(option.key), !rule.isPerApp else {
                preconditionFailure("--\(option.name) sets \(option.key), which is not a key")
            }
            do throws(SettingRefusal) {
                for text in option.texts {
                    _ = try rule.fill(.text(text, plain: true), folder, &settings, 0)
                }
                guard rule.kind.isList else { continue }
                let texts = option.texts.flatMap { $0.split(separator: ",").map(String.init) }
                _ = try rule.fill(.list(texts), folder, &settings, 0)
            } catch {
                throw SettingsFailure(
                    .usage, "reading --\(option.name): it \(error.reason)")
            }
        }
        return settings
    }
}
