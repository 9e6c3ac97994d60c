import APNsProtocol
import Database
import Encodings
import TokenHygiene

/// Tells which app and environment of the settings a report is about. It names them by their names in the settings or
/// by the values that the table of tokens has, which a statement that reads that table copies.
package struct AppWords: Sendable {
    /// The table's values of each app, by its name.
    private let stored: [Partition: Partition]
    /// The names, by the table's value of the app in an environment.
    private let names: [Partition: [Partition]]
    /// The table's value of each environment, by its name.
    private let environments: [String: String]

    /// Takes the apps of the settings, each with its value in the table, and the table's values of environments.
    package init(_ stored: [Partition: Partition], environments: [String: String] = [:]) {
        (self.stored, self.environments) = (stored, environments)
        names = Dictionary(grouping: stored.keys) { name in
            Partition(app: stored[name]?.app ?? name.app, environment: name.environment)
        }
    }

    /// The app that two words mean, as a name or as a value.
    package func app(_ words: Partition) -> Result<Partition, UnnamedApp> {
        let read = Partition(app: words.app, environment: environment(words.environment))
        var meant = Set(names[read] ?? [])
        if stored[read] != nil {
            meant.insert(read)
        } else if !meant.isEmpty {
            // An app of this name in the other environment may be meant too.
            meant.formUnion(stored.keys.filter { $0.app.isExactly(read.app) })
        }
        guard let app = meant.first, meant.count == 1 else {
            return .failure(UnnamedApp(words: words, meant: Array(meant)))
        }
        return .success(app)
    }

    /// The words that mean an app.
    package func words(of app: Partition) -> Set<Partition> {
        let words = [app.app, stored[app]?.app ?? app.app].flatMap { word in
            [app.environment, environments[app.environment] ?? app.environment].map {
                Partition(app: word, environment: $0)
            }
        }
        return Set(words).filter { (try? self.app($0).get()) == app }
    }

    private func environment(_ word: String) -> String {
        guard !environments.keys.contains(exactly: word) else { return word }
        return environments.first { $0.value.isExactly(word) }?.key ?? word
    }
}

/// What a report says in place of an app and environment of the settings.
package struct UnnamedApp: Error, Hashable, Sendable, CustomStringConvertible {
    /// The most apps that are named.
    private static let most = 3

    private let words: Partition
    /// The apps that it may mean; empty where none has such a name or value.
    private let meant: [Partition]

    init(words: Partition, meant: [Partition]) {
        self.words = words
        self.meant = meant.sorted { "\($0)" < "\($1)" }
    }

    /// The words, and what they may mean. A long word may be a token in the wrong column.
    package var description: String {
        let shown = [words.app, words.environment].map { name in
            name.isEmpty ? "''" : name.count > 20 ? name.prefix(12) + "…" : name
        }
        let said = "app \(shown[0]) in environment \(shown[1])"
        guard !meant.isEmpty else { return said }
        let more = meant.count > Self.most ? ["\(meant.count - Self.most) more"] : []
        return said + ", which may be "
            + (meant.prefix(Self.most).map { "\($0)" } + more).joined(separator: " or ")
    }
}
