// What people and scripts type: numbers, the beginnings of names, apps.
//
// Numbers come from scripts that compute them, so any number can occur. Each is read here with a lower
// and an upper bound, which keep later arithmetic in range.

import APNsProtocol
import Database
import Encodings
import Settings
import TokenHygiene

/// The numbers that options take, each with its range.
package enum CommandNumber {
    /// A number of rows.
    package static func rows(_ text: String) throws(Refusal) -> Int {
        Int(try whole(text, 1...1_000_000_000, "a whole number"))
    }

    /// Bytes, of a number of MiB.
    package static func mebibytes(_ text: String) throws(Refusal) -> Int {
        Int(try whole(text, 0...(1 << 20), "whole MiB")) << 20
    }

    /// Notifications per second.
    package static func rate(_ text: String) throws(Refusal) -> Double {
        let range = 1.0...1_000_000
        // Swift also reads nan, infinities and hexadecimal fractions. The range check excludes the
        // first two.
        guard let rate = Double(text), range.contains(rate) else {
            throw Refusal("it must be a number from 1 to 1000000")
        }
        return rate
    }

    private static func whole(
        _ text: String, _ range: ClosedRange<Int64>, _ what: String
    ) throws(Refusal) -> Int64 {
        guard let number = Int64(text), range.contains(number) else {
            throw Refusal(
                "it must be \(what) from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }
}

/// The times that options take.
package enum CommandTime {
    /// Reads a time of the command line: a date, or a date with a time; in UTC where it names no
    /// zone.
    ///
    /// - Throws: exit 64 for any other text.
    package static func read(
        _ text: String, of option: String
    ) throws(RunFailure) -> EpochMilliseconds {
        guard let time = EpochMilliseconds(iso8601: text) else {
            throw RunFailure(
                .usage, .settings,
                "reading \(option) \(SettingText.quoted(text)): it is no time; write 2026-11-22 or "
                    + "2026-11-22T10:00:00Z")
        }
        return time
    }
}

/// The beginning of the name of a run, a batch or a hold, as a person types it. It needs at least four
/// characters. An empty text, from an unset variable of a script, would match every name, and one
/// digit soon matches several.
struct NameBeginning {
    /// The least number of characters.
    static let least = 4

    private let text: String

    /// Takes the typed text; nil when it is too short.
    init?(_ text: String) {
        guard text.count >= Self.least else { return nil }
        self.text = text.lowercased()
    }

    /// Whether a name begins with the text.
    func begins(_ name: String) -> Bool { name.hasPrefix(text) }

    /// The beginning by which a person can name one of several: of eight characters, or of more where another name
    /// begins so.
    static func shortest(of name: String, among names: [String]) -> String {
        let others = names.filter { $0 != name && $0.hasPrefix(name.prefix(8)) }
        let shared = others.map { zip($0.utf8, name.utf8).prefix { $0 == $1 }.count }.max() ?? 0
        return String(name.prefix(max(8, shared + 1)))
    }

    /// The message about a text that is too short.
    static let refusal = "give at least \(least) characters of its name"
}

// The apps that the options --app and --environment choose.
extension Settings {
    /// The apps with their environments, for messages.
    private var appNames: String {
        apps.isEmpty ? "none" : apps.map { "\($0.partition)" }.joined(separator: ", ")
    }

    /// The apps with the given names, in all their environments; all apps when no name is given.
    ///
    /// - Throws: usage, when the settings have no app of a given name.
    package func apps(named names: [String]) throws(RunFailure) -> [App] {
        for name in names where !apps.contains(where: { $0.name == name }) {
            throw RunFailure(
                .usage, .settings,
                "looking for app \(name.isEmpty ? "''" : name): the settings name \(appNames); check --app"
            )
        }
        return apps.filter { names.isEmpty || names.contains($0.name) }
    }

    /// The failure of settings that name no app.
    package func nameless(_ doing: String) -> RunFailure {
        RunFailure(
            .configuration, .settings,
            "\(doing): the settings name no app; add apps: with name, topic and environment, or try: "
                + "pushsweep demo")
    }

    /// The one app with a name and an environment. Either may be nil as long as only one app matches.
    ///
    /// - Throws: usage, when no app matches, or several; configuration, when there is none at all.
    package func app(
        named name: String?, in environment: String?, for doing: String
    ) throws(RunFailure) -> App {
        guard !apps.isEmpty else { throw nameless(doing) }
        let matching = apps.filter {
            (name == nil || $0.name == name)
                && (environment == nil || $0.environment.rawValue == environment)
        }
        guard let app = matching.first, matching.count == 1 else {
            throw RunFailure(
                .usage, .settings,
                matching.isEmpty
                    ? "\(doing): the settings know no such app and environment (they name \(appNames)); "
                        + "check --app and --environment, or add the app under apps:"
                    : "\(doing): the settings name several apps (\(appNames)); say which with --app and "
                        + "--environment")
        }
        return app
    }
}
