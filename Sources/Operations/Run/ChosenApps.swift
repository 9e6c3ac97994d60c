// Selects the apps for a command by its options --app and --environment.

import Settings

extension Settings {
    /// The apps with their environments, for messages.
    private var appNames: String {
        apps.isEmpty ? "none" : apps.map { "\($0.partition)" }.joined(separator: ", ")
    }

    /// The apps with the given names, in all their environments; all apps when no name is given.
    ///
    /// - Throws: usage, when the settings have no app of a given name.
    func apps(named names: [String]) throws(RunFailure) -> [App] {
        for name in names where !apps.contains(where: { $0.name == name }) {
            throw RunFailure(
                .usage, .settings,
                "looking for app \(name.isEmpty ? "''" : name): the settings name \(appNames); check --app"
            )
        }
        return apps.filter { names.isEmpty || names.contains($0.name) }
    }

    /// The one app with a name and an environment. Either may be nil as long as only one app matches.
    ///
    /// - Throws: usage, when no app matches, or several.
    func app(
        named name: String?, in environment: String?, for doing: String
    ) throws(RunFailure) -> App {
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
