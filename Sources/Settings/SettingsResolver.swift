import Database
import Encodings
import SecureTransport

/// Gives every setting of the table its value: the written one, else its default. Works in the
/// table's order, so a default that follows from an earlier setting finds its value.
struct SettingsResolver {
    /// The shown texts of values by key of the document, for all that have one.
    private(set) var values: [String: String] = [:]
    /// The origin of each value, in the order of the table.
    private var origins: [SettingOrigin] = []
    /// The fields filled so far; complete only without mistakes.
    private(set) var filled = Settings()
    private let document: SettingsDocument
    /// Every written key, and every group of a written key.
    private let groups: Set<String>
    let labels: [AppLabel]
    /// Where relative paths start.
    private let folder: String
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
        self.folder = folder
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
        // An installation that only sweeps has no queue.
        settings.store.wantsQueue =
            settings.apps.contains(where: \.sends)
            || origins.contains { $0.key == "store.push-queue.table" && $0.origin != .builtIn }
        return settings
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
        do throws(Refusal) {
            var content = written?.content
            if content == nil { content = try fallback(rule, key: key) }
            if let content {
                values[key] = try rule.fill(content, folder, &filled, app)
            }
            origins.append(
                SettingOrigin(
                    key: shown, shownValue: values[key] ?? rule.fallback.shown,
                    origin: written?.source ?? .builtIn))
        } catch {
            problems.add(written?.place ?? placeOfGroup(key), "\(shown) \(error)")
        }
    }

    private func fallback(
        _ rule: SettingRule, key: String
    ) throws(Refusal) -> RawSetting.Content? {
        switch rule.fallback {
        case .text(let text) where rule.kind.isOptionalColumn:
            // Settings about a column declare that the column exists. A column without such settings
            // has no group of its own.
            let isExpected =
                key.hasSuffix(".column")
                && isGroupPresent(String(key.dropLast(".column".count)))
            return isExpected ? .text(text, plain: false) : .usual(text)
        case .text(let text): return .text(text, plain: true)
        case .absent, .detected: return nil
        case .required: throw Refusal("is missing; give it a value")
        case .computed(_, let text):
            let defaults = SettingDefaults(
                values: values, key: key, usualState: state, location: filled.store.location)
            return text(defaults).map { .text($0, plain: true) }
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
    fileprivate let values: [String: String]
    /// The key of the document that needs a default.
    fileprivate let key: String
    /// The state folder of this user on this machine.
    let usualState: String
    fileprivate let location: StoreLocation

    /// A path in the state folder; nil where its setting was refused.
    func inState(_ name: String) -> String? { values["state"].map { "\($0)/\(name)" } }

    /// The default TLS mode of the token database; nil where its address was refused.
    var usualTLSMode: String? {
        values["store.url"].map { _ in StoreTLS.usual(for: location).mode.rawValue }
    }

    /// The value of another setting of the same group.
    func neighbour(_ name: String) -> String? {
        key.lastIndex(of: ".").flatMap { values[key[...$0] + name] }
    }
}

extension SettingsResolver {
    /// The reason why a file's content is not a password.
    private static func fault(ofPassword text: String) -> String? {
        if text.isEmpty { return "is empty" }
        if text.utf8.contains(0) { return "holds a zero byte" }
        return text.contains(where: \.isNewline) ? "has several lines" : nil
    }

    /// Takes the database password from the password file, unless the environment holds one.
    mutating func readPassword(_ problems: inout SettingsProblems) {
        let key = "store.password-file"
        guard filled.store.password == nil, let path = filled.passwordFile else { return }
        do {
            let text = try SettingsFile.secret(path, as: key)
            if let fault = Self.fault(ofPassword: text) {
                problems.add(
                    place(key),
                    "\(key) \(path) \(fault); it must hold the password and nothing else, in one line"
                )
                return
            }
            filled.store.password = Secret(text)
            guard let index = origins.firstIndex(where: { $0.key == "store.password" }) else {
                return
            }
            origins[index] = SettingOrigin(
                key: "store.password", shownValue: "(set)", origin: .contents(of: key))
        } catch {
            problems.add(place(key), error.description, kind: error.kind)
        }
    }

    /// Refuses a command of `hooks.after-run` whose program others may change. The program is the first
    /// word of the command where that has a slash; the shell finds any other word itself. A first word
    /// that the shell would change before it looks for the program is refused, since it hides the program.
    func checkHook(in folder: String, _ problems: inout SettingsProblems) {
        let key = "hooks.after-run"
        guard let command = filled.hooks.afterRun else { return }
        let line = command.drop { $0 == " " || $0 == "\t" }
        guard !line.isEmpty else { return }
        let program = line.prefix { !" \t\n;&|<>()".contains($0) }
        guard program == "[" || !program.isEmpty && !program.contains(where: \.isShellSyntax) else {
            problems.add(
                place(key),
                "\(key) must begin with the name or the path of a program, without quotes, "
                    + "backslashes, wildcards, variables or brackets; put any other line into a script "
                    + "and name that")
            return
        }
        guard program.contains("/") else { return }
        do {
            let path = program.hasPrefix("/") ? String(program) : "\(folder)/\(program)"
            try ChangeRights.check(path)
        } catch {
            guard error.code == .changeable else { return }
            problems.add(place(key), "\(key) \(program): \(error)", kind: .permission)
        }
    }
}

extension Character {
    /// Whether the shell takes it for more than a part of a word.
    fileprivate var isShellSyntax: Bool { "\"'\\*?[]{}$`~=#!".contains(self) }
}
