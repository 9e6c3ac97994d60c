import Glibc
import TestSupport

@testable import Settings

/// The surroundings of loading: a temporary folder that is home and working folder.
struct SettingsFixture {
    private let temporary: TemporaryFolder
    var folder: String { temporary.path }

    init() throws { temporary = try TemporaryFolder() }

    /// Surroundings whose files are all in the folder, of a user who is not root.
    var surroundings: Settings.Surroundings {
        Settings.Surroundings(
            homeDirectory: folder, isRoot: false, workingDirectory: folder,
            systemFile: "\(folder)/system.yaml")
    }

    /// Writes a file and gives its path.
    @discardableResult
    func write(_ text: String, to name: String, mode: mode_t = 0o600) throws -> String {
        try temporary.write(name, text, mode: Int(mode))
    }

    /// Writes a file and gives its path.
    @discardableResult
    func write(_ bytes: [UInt8], to name: String, mode: mode_t = 0o600) throws -> String {
        try temporary.write(name, bytes, mode: Int(mode))
    }

    /// Loads a file of this text, named `s.yaml`.
    func load(
        _ text: String, environment: [String: String] = [:]
    ) throws(SettingsFailure) -> Settings {
        try Settings.load(
            text: text, file: "\(folder)/s.yaml", environment: environment,
            surroundings: surroundings)
    }

    /// The mistakes in a file of this text, without the folder's name; empty if there are none.
    func problems(_ text: String, environment: [String: String] = [:]) -> [String] {
        do throws(SettingsFailure) {
            _ = try load(text, environment: environment)
            return []
        } catch {
            return error.problems.map { $0.description.replacing("\(folder)/", with: "") }
        }
    }
}
