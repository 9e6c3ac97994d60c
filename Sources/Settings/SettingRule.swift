import Database
import Encodings

/// One row of the table of settings. The parser, `pushsweep check`, the sample file and the
/// documentation read all facts about a setting from its row.
package struct SettingRule: Sendable {
    /// The default of a setting.
    enum Fallback: Sendable, ExpressibleByStringLiteral {
        /// This text, read like a text of the file.
        case text(String)
        /// A text that follows from the machine or from settings above, in words and as a function; nil
        /// where the setting that it follows from was refused.
        case computed(String, @Sendable (SettingDefaults) -> String?)
        /// No value: the token table decides. The words say how.
        case detected(String)
        /// No value. The words say what this means.
        case absent(String)
        /// An error: a written group must have the setting.
        case required

        init(stringLiteral text: String) { self = .text(text) }

        /// The default in words, for the documentation.
        var words: String {
            switch self {
            case .text(let text): "`\(text)`"
            case .detected(let words): "found in the table: \(words)"
            case .computed(let words, _), .absent(let words): words
            case .required: "none"
            }
        }

        /// The text of `pushsweep check` for a setting without a value.
        var shown: String {
            switch self {
            case .detected: "found in the table"
            case .absent(Self.authorities): Self.authorities
            default: "none"
            }
        }

        /// No file of authorities: the system's are trusted.
        static let systemAuthorities = Fallback.absent(authorities)
        private static let authorities = "the system's authorities"
    }

    /// The form of the setting in the sample file.
    enum Sample: Sendable, Equatable {
        /// Writes it with this value.
        case written(String)
        /// Writes it as a comment with this value.
        case comment(String)
        /// Leaves it out, because it does not belong in a file.
        case omitted
    }

    /// Path of the setting: kebab-case words joined by dots, `[]` after the name of a list.
    let key: String
    let kind: SettingFacts
    let fallback: Fallback
    let sample: Sample
    /// The help sentence: the effect of the setting.
    let summary: String

    /// The words of the key, a list's name with its `[]`.
    let path: [String]
    /// The group of an app that the setting belongs to and that a file may leave out; nil for none.
    let optionalGroup: String?
    /// Reads a value, puts it into its field, and returns the text of it that is shown. The folder is
    /// where relative paths start; the number is the app's place in the list, counted from 0, and means
    /// nothing to a setting that belongs to no app.
    let fill: Fill

    typealias Fill =
        @Sendable (RawSetting.Content, _ folder: String, inout Settings, _ app: Int)
        throws(Refusal) -> String

    /// The environment variable that overrides it, with `<NAME>` for the name of an app; nil for an
    /// app's name, by which variables find the app.
    var variable: String? {
        if key == "apps[].name" { return nil }
        return "PUSHSWEEP_"
            + key.replacing("apps[]", with: "apps.<NAME>").split(separator: ".")
            .map(Self.variableWord).joined(separator: "_")
    }

    /// Whether only the environment may hold it.
    var isEnvironmentOnly: Bool { kind.isSecret }

    var isPerApp: Bool { key.hasPrefix("apps[].") }

    /// The key below `apps[].`, or the whole key.
    var keyWithinApp: String { isPerApp ? String(key.dropFirst("apps[].".count)) : key }

    /// One word of a variable's name: upper case, everything but letters and digits turned into `_`.
    /// The placeholder `<NAME>` stays as it is.
    static func variableWord(_ word: some StringProtocol) -> String {
        if word == "<NAME>" { return String(word) }
        return String(
            word.uppercased().map { $0.isASCII && ($0.isLetter || $0.isNumber) ? $0 : "_" })
    }
}

/// A part of the settings in which fields are filled: the settings as a whole, one table, one app,
/// or a group of an app. Called with a row of the table, it makes the rule. The `example` of a row
/// stands in the sample file as a comment; that which is `written` there is active.
struct SettingPlace<Part: Sendable>: Sendable {
    /// Changes the part; the number is that of `SettingRule.fill`.
    typealias Change =
        @Sendable (inout Settings, _ app: Int, _ change: (inout Part) -> Void) -> Void

    private let prefix: String
    private let optionalGroup: String?
    /// The part with the defaults of its own type.
    private let usual: Part?
    private let change: Change

    init(
        _ prefix: String = "", optionalGroup: String? = nil, usual: Part? = nil,
        _ change: @escaping Change
    ) {
        self.prefix = prefix
        self.optionalGroup = optionalGroup
        self.usual = usual
        self.change = change
    }

    /// A setting whose default is the field's own.
    func callAsFunction<Value: Sendable>(
        _ key: String, _ kind: SettingKind<Value>,
        _ field: any WritableKeyPath<Part, Value> & Sendable, _ summary: String
    ) -> SettingRule {
        guard let value = usual?[keyPath: field] else {
            preconditionFailure("\(prefix)\(key) has no default")
        }
        let text = (value as? OptionalColumn).map { $0.name ?? "none" } ?? "\(value)"
        return self(key, kind, .text(text), field, summary)
    }

    /// A setting that always has a value. Without an example the sample file shows the default as a
    /// comment.
    func callAsFunction<Value: Sendable>(
        _ key: String, _ kind: SettingKind<Value>, _ fallback: SettingRule.Fallback,
        _ field: any WritableKeyPath<Part, Value> & Sendable, written: String? = nil,
        example: String? = nil, _ summary: String
    ) -> SettingRule {
        rule(key, kind, fallback, (written, example), summary) { $0[keyPath: field] = $1 }
    }

    /// The same of a setting that may have no value; its field is nil then.
    func callAsFunction<Value: Sendable>(
        _ key: String, _ kind: SettingKind<Value>, _ fallback: SettingRule.Fallback,
        _ field: any WritableKeyPath<Part, Value?> & Sendable, written: String? = nil,
        example: String? = nil, _ summary: String
    ) -> SettingRule {
        rule(key, kind, fallback, (written, example), summary) { $0[keyPath: field] = $1 }
    }

    private func rule<Value: Sendable>(
        _ key: String, _ kind: SettingKind<Value>, _ fallback: SettingRule.Fallback,
        _ sample: (written: String?, example: String?), _ summary: String,
        set: @escaping @Sendable (inout Part, Value) -> Void
    ) -> SettingRule {
        let key = prefix + key
        let usual = if case .text(let text) = fallback { text } else { String?.none }
        return SettingRule(
            key: key, kind: kind.facts, fallback: fallback,
            sample: sample.written.map { .written($0) }
                ?? (sample.example ?? usual).map { .comment($0) } ?? .omitted,
            summary: summary, path: key.split(separator: ".").map(String.init),
            optionalGroup: optionalGroup
        ) { content, folder, settings, app throws(Refusal) in
            let reading = try kind.read(content, folder)
            change(&settings, app) { set(&$0, reading.value) }
            return reading.shown
        }
    }
}

/// Collects rows that are written one below the other.
@resultBuilder enum SettingRows {
    static func buildBlock(_ rules: SettingRule...) -> [SettingRule] { rules }
}
