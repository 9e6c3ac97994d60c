import Foundation

/// A folder of one test. Only its user can read it, and it is removed with the last reference.
package final class TemporaryFolder: Sendable {
    /// The absolute path.
    package let path: String

    /// Makes a new empty folder.
    package init() throws {
        let place = FileManager.default.temporaryDirectory.path
        path = place + "/pushsweep-test-" + UUID().uuidString.lowercased()
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700])
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    /// The path of a file in the folder.
    package func file(_ name: String) -> String { path + "/" + name }

    /// Writes a file into the folder and returns its path.
    @discardableResult
    package func write(
        _ name: String, _ bytes: some Sequence<UInt8>, mode: Int = 0o600
    ) throws -> String {
        let path = file(name)
        try Data(bytes).write(to: URL(fileURLWithPath: path))
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
        return path
    }

    /// Writes a text file into the folder and returns its path.
    @discardableResult
    package func write(_ name: String, _ text: String, mode: Int = 0o600) throws -> String {
        try write(name, text.utf8, mode: mode)
    }
}
