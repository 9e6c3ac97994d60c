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
import Encodings

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
        let words = names.map { $0.map(SettingRule.variableWord) }
        return apps.indices.map { index in
            guard let name = names[index], let word = words[index], SettingText.isName(name) else {
                return AppLabel(shown: apps[index], variable: nil)
            }
            let environment = environments[index] ?? ""
            let isNameShared = names.count { $0 == name } > 1
            let isWordShared = words.count { $0 == word } > 1
            return AppLabel(
                shown: isNameShared ? "apps[\(name)/\(environment)]" : "apps[\(name)]",
                variable: isWordShared
                    ? "\(word)_\(SettingRule.variableWord(environment))" : word)
        }
    }
}

extension SettingsDocument {
    /// Overrides values with the variables of an environment.
    mutating func overlay(
        _ environment: [String: String], _ labels: [AppLabel],
        _ problems: inout SettingsProblems
    ) {
        let ours = environment.filter { name, _ in
            name.hasPrefix(Self.prefix) && name != SettingsFile.variable
                && !name.hasPrefix("PUSHSWEEP_TEST_") && HookVariable(rawValue: name) == nil
        }
        guard !ours.isEmpty else { return }
        let known = Self.variables(labels)
        // An app without a usable name has variables that nobody can know.
        let isComplete = labels.allSatisfy { $0.variable != nil }
        for (name, value) in ours.sorted(by: { $0.key < $1.key }) {
            let place = "environment \(SettingText.quoted(name))"
            guard let keys = known[name] else {
                if isComplete || !name.hasPrefix("PUSHSWEEP_APPS_") {
                    problems.add(place, Self.unknown(name, among: known.keys.sorted()))
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
            values[key] = RawSetting(
                content: .text(value, plain: true), source: .environment(name),
                place: "environment \(name)")
        }
    }

    private static let prefix = "PUSHSWEEP_"

    /// The keys of the document by variable; several where apps have the same words.
    private static func variables(_ labels: [AppLabel]) -> [String: [String]] {
        var keys: [String: [String]] = [:]
        for rule in SettingsTable.rules {
            guard let variable = rule.variable else { continue }
            guard rule.isPerApp else {
                keys[variable] = [rule.key]
                continue
            }
            for (index, label) in labels.enumerated() {
                guard let name = label.variable else { continue }
                keys[variable.replacing("<NAME>", with: name), default: []].append(
                    "\(app(index)).\(rule.keyWithinApp)")
            }
        }
        return keys
    }

    private static func unknown(_ name: String, among known: [String]) -> String {
        // The common prefix does not show similarity.
        let words = known.map { String($0.dropFirst(prefix.count)) }
        guard let near = NearestName.find(String(name.dropFirst(prefix.count)), in: words) else {
            return "unknown variable; see docs/settings.md for the names of all"
        }
        return "unknown variable; nearest known one: \(prefix)\(near)"
    }

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
            do throws(Refusal) {
                for text in option.texts {
                    _ = try rule.fill(.text(text, plain: true), folder, &settings, 0)
                }
                guard rule.kind.isList else { continue }
                let texts = option.texts.flatMap { $0.split(separator: ",").map(String.init) }
                _ = try rule.fill(.list(texts), folder, &settings, 0)
            } catch {
                throw SettingsFailure(
                    .usage, "reading --\(option.name): it \(error)")
            }
        }
        return settings
    }
}
