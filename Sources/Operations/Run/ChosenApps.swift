// Which of the settings' apps a command is about, as its options --app and --environment say.

import Settings

extension Settings {
    /// The apps with their environments, for messages.
    private var appNames: String {
        apps.isEmpty ? "none" : apps.map { "\($0.partition)" }.joined(separator: ", ")
    }

    /// The apps of some names, in all their environments; all apps where no name is given.
    ///
    /// - Throws: usage, where a name is none of the settings.
    func apps(named names: [String]) throws(RunFailure) -> [App] {
        for name in names where !apps.contains(where: { $0.name == name }) {
            throw RunFailure(
                .usage, .settings,
                "looking for app \(name): the settings name \(appNames); check --app")
        }
        return apps.filter { names.isEmpty || names.contains($0.name) }
    }

    /// The one app that a name and an environment mean; either may be left out while there is no
    /// other.
    ///
    /// - Throws: usage, where they mean none or several.
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
