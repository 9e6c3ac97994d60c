/// Where the value of a setting came from.
package enum SettingSource: Sendable, Hashable, CustomStringConvertible {
    /// Nothing was written.
    case builtIn
    /// A line of the settings file, counted from 1.
    case file(line: Int)
    /// An environment variable.
    case environment(String)
    /// The content of the file that another setting names.
    case contents(of: String)

    /// One clause for `pushsweep check`.
    package var description: String {
        switch self {
        case .builtIn: "default"
        case .file(let line): "file, line \(line)"
        case .environment(let name): "environment \(name)"
        case .contents(let key): "file of \(key)"
        }
    }
}

/// One setting with its value and where that came from, as `pushsweep check` prints it.
package struct SettingOrigin: Sendable, Equatable {
    /// The key, with the app's name in place of `[]`; `name/environment` where two apps share one.
    package let key: String
    /// The value as the file could write it; `(set)` for a secret, `none` for nothing.
    package let shownValue: String
    /// Where it came from.
    package let origin: SettingSource
}

/// Everything wrong with the settings, told together so that one look mends all of it.
package struct SettingsFailure: Error, Sendable, Equatable, CustomStringConvertible {
    /// What kind of person can mend it.
    package enum Kind: Sendable, Equatable {
        /// Something must be written differently: exit code 78.
        case configuration
        /// A file's mode or owner must change: exit code 77.
        case permission
    }

    /// One thing wrong.
    package struct Problem: Sendable, Equatable, CustomStringConvertible {
        /// What kind it is.
        package let kind: Kind
        /// Place, cause and remedy in one line.
        package let description: String
    }

    /// How many problems are told; the rest is counted.
    static let limit = 20

    /// All problems found, in the order of the file, then of the environment, then of the table.
    package let problems: [Problem]

    /// Permission if any problem is one of permission, for its exit code wins.
    package var kind: Kind {
        problems.contains { $0.kind == .permission } ? .permission : .configuration
    }

    /// One line per problem, at most 20 and the number of the others.
    package var description: String { lines.joined(separator: "\n") }

    /// The same line by line.
    package var lines: [String] {
        var lines = problems.prefix(Self.limit).map(\.description)
        let others = problems.count - lines.count
        if others > 0 { lines.append("and \(others) more like these") }
        return lines
    }

    /// A failure of one problem.
    init(_ kind: Kind, _ description: String) {
        self.init(problems: [Problem(kind: kind, description: description)])
    }

    /// A failure of several problems, at least one.
    init(problems: [Problem]) { self.problems = problems }
}

/// Collects what is wrong while reading goes on.
struct SettingsProblems {
    private(set) var all: [SettingsFailure.Problem] = []

    /// Takes down what is wrong at a place: `file:line:column` or a variable.
    mutating func add(
        _ place: String, _ text: String, kind: SettingsFailure.Kind = .configuration
    ) {
        all.append(.init(kind: kind, description: "\(place): \(text)"))
    }
}
