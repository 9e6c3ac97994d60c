@testable import Settings

extension FuzzTarget {
    private static let nowhere = Settings.Surroundings(
        homeDirectory: "/nonexistent", isRoot: false, workingDirectory: "/nonexistent",
        systemFile: "/nonexistent/pushsweep.yaml")

    /// The text of a settings file.
    static let settings = FuzzTarget(name: "settings", mutations: 400, longest: 4_096) { input in
        guard let text = String(validating: input, as: UTF8.self) else { return }
        guard let problems = problems(text) else { return }
        try promise(!problems.isEmpty, "settings were refused without a reason")
        for problem in problems {
            try promise(
                !problem.contains(where: \.isNewline), "a problem of several lines: \(problem)")
            try promise(problem.unicodeScalars.count < 1_000, "a problem without end: \(problem)")
        }
    }

    /// Why a text is refused; nil where it is none.
    private static func problems(_ text: String) -> [String]? {
        do throws(SettingsFailure) {
            _ = try Settings.load(
                text: text, file: "/nonexistent/s.yaml", environment: [:], surroundings: nowhere)
            return nil
        } catch {
            return error.problems.map(\.description)
        }
    }
}
