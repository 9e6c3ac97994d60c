import APNsConnection
import APNsProtocol
import Operations
import SecureTransport
import Settings
import TokenHygiene

/// An app in one environment, and the same app in the other one.
struct EnvironmentPair {
    let app: Settings.App
    /// The app in the other environment; nil where neither the settings nor Apple's hosts say how it is reached.
    let other: Settings.App?
    /// Whether the settings name it, so that rows which move there belong to somebody.
    let isNamed: Bool

    /// The app and environment as the settings name them.
    var partition: Partition { app.partition }
    /// The same as the rows of the table name it.
    var stored: Partition { app.storedPartition }

    /// Whether the rows of the two have different values in the app's column.
    var hasOtherApp: Bool {
        other.map { !$0.value.utf8.elementsEqual(app.value.utf8) } ?? false
    }

    /// Pairs apps of the settings. One that is named in one environment only has the other at Apple's host for it.
    static func all(of chosen: [Settings.App], in settings: Settings) -> [EnvironmentPair] {
        chosen.map { app in
            let named = settings.apps.first {
                $0.name.utf8.elementsEqual(app.name.utf8) && $0.environment != app.environment
            }
            return EnvironmentPair(
                app: app, other: named ?? app.atApple, isNamed: named != nil)
        }
    }

    /// Requires that both environments have one value of the app's column: else a row would change its app, too.
    ///
    /// - Throws: exit 78.
    func requireOneApp() throws(RunFailure) {
        guard hasOtherApp, let other else { return }
        throw RunFailure(
            .configuration, .settings,
            "looking at environments of \(partition): its rows have the app `\(app.value.prefix(40))`, and those of "
                + "\(other.partition) `\(other.value.prefix(40))` (apps[].value), so a row would change its app, too; let the "
                + "application move such rows")
    }

    /// Why the answers of the other environment would prove nothing, or cannot be had, before any request.
    ///
    /// - Throws: exit 78.
    func requireAnswers(at now: EpochMilliseconds) throws {
        func refusal(_ why: String) -> RunFailure {
            RunFailure(
                .configuration, .settings,
                "asking the other environment about tokens of \(partition): \(why)")
        }
        try requireOneApp()
        guard let other, let theirs = other.provider else {
            let name = partition.elsewhere.map { "\($0)" } ?? ""
            throw refusal(
                "the settings name no provider of \(name); add the app with that environment under apps, with its "
                    + "provider and credential")
        }
        guard let ours = app.provider else {
            throw refusal(
                "the settings name no provider of \(partition), which is asked about three of them first: else nothing "
                    + "shows that the reports which call them bad are of this gateway; add it under apps"
            )
        }
        if ours.host.lowercased() == theirs.host.lowercased(),
            ours.port == theirs.port
        {
            throw refusal(
                "both environments have the gateway \(ours.host):\(ours.port), so an answer would prove nothing; "
                    + "correct provider.host of one of them")
        }
        if let environment = theirs.environment, environment != other.environment {
            throw refusal(
                "\(theirs.host) is Apple's host of \(environment.rawValue), and apps[\(other.partition)] is of "
                    + "\(other.environment.rawValue); correct its provider.host")
        }
        guard other.tokenKey == nil, let identity = try other.identity(at: now) else { return }
        let named = identity.environments.map(\.rawValue).sorted()
        guard named.isEmpty || named.contains(other.environment.rawValue) else {
            throw refusal(
                "its certificate is for \(named.joined(separator: ", ")) only, so each answer would be 403; name one of "
                    + "\(other.environment.rawValue) under apps[\(other.partition)].certificate")
        }
        guard identity.covers(topic: other.topic) else {
            throw refusal(
                "its certificate is for \(identity.topics.joined(separator: ", ")), and the topic is \(other.topic)"
            )
        }
    }
}

extension Settings.App {
    /// The app at Apple's host of the other environment; nil where it sends through another host.
    fileprivate var atApple: Settings.App? {
        guard let known = provider?.environment, known == environment else { return nil }
        return known == .production
            ? elsewhere(.sandbox, host: "api.sandbox.push.apple.com")
            : elsewhere(.production, host: "api.push.apple.com")
    }
}
