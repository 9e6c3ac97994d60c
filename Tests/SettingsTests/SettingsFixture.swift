import Glibc

@testable import Settings

/// The surroundings of loading: a temporary folder that is home and working folder. It is removed
/// with the value.
final class SettingsFixture {
    let folder: String

    init() throws {
        var template = Array("/tmp/pushsweep-settings-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw Failed(code: errno) }
        folder = template.withUnsafeBufferPointer { buffer in
            buffer.baseAddress.map { String(cString: $0) } ?? ""
        }
    }

    deinit {
        for name in names { unlink("\(folder)/\(name)") }
        rmdir(folder)
    }

    struct Failed: Error { let code: Int32 }

    private var names: Set<String> = []

    /// Surroundings whose files are all in the folder, of a user who is not root.
    var surroundings: Settings.Surroundings {
        Settings.Surroundings(
            homeDirectory: folder, isRoot: false, workingDirectory: folder,
            systemFile: "\(folder)/system.yaml")
    }

    /// Writes a file and gives its path.
    @discardableResult
    func write(_ text: String, to name: String, mode: mode_t = 0o600) throws -> String {
        try write(Array(text.utf8), to: name, mode: mode)
    }

    /// Writes a file and gives its path.
    @discardableResult
    func write(_ bytes: [UInt8], to name: String, mode: mode_t = 0o600) throws -> String {
        names.insert(name)
        let path = "\(folder)/\(name)"
        let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode)
        guard descriptor >= 0 else { throw Failed(code: errno) }
        defer { close(descriptor) }
        guard Glibc.write(descriptor, bytes, bytes.count) == bytes.count,
            fchmod(descriptor, mode) == 0
        else { throw Failed(code: errno) }
        return path
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
