import Database
import EvidenceJournal
import Foundation
import Glibc

/// A place where a test runs the real program: a folder, a database, and settings that name them.
package protocol ToolStage: AnyObject {
    /// The test's folder.
    var folder: TemporaryFolder { get }
    /// The database that the settings name.
    var database: TokenDatabase { get }
    /// Writes the present settings and returns the path of the file.
    func settings() throws -> String
}

extension ToolStage {
    /// The state folder of the settings.
    package var state: String { folder.file("state") }
    /// The path of the journal.
    package var journal: String { state + "/journal.sqlite" }
    /// A look at the state folder, or at another one, that changes nothing there.
    package func look(at state: String? = nil) throws -> StateFolder {
        let all = SenderFolders.neighbours(in: state ?? self.state).folders
        guard let own = all.first(where: { $0.sender == nil }) else {
            throw TestFailure("there is no state folder")
        }
        return own.folder
    }

    /// The lists in the state folder, or in another one, oldest first.
    package func lists(in state: String? = nil) throws -> [CapturedList] {
        try look(at: state).lists(.reading, .pending, .held, .applied)
    }

    /// Number of rows of our own schema with a mark.
    package var marked: Int { get throws { try database.marked } }

    /// The text of the present settings.
    package var settingsText: String {
        get throws { try String(contentsOfFile: settings(), encoding: .utf8) }
    }

    /// Makes the state folder that of a sender of this host that has ended.
    package func moveStateToSender() throws {
        let files = FileManager.default
        let aside = folder.file("aside")
        try files.moveItem(atPath: state, toPath: aside)
        try files.createDirectory(
            atPath: state + "/send", withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700])
        try files.moveItem(atPath: aside, toPath: state + "/send/1")
    }

    /// Starts `pushsweep` with these settings. A command given, such as a tracer or a shell, gets
    /// the program as its last words.
    package func start(
        _ words: [String], environment: [String: String] = [:], under command: [String] = []
    ) throws -> RunningTool {
        try RunningTool(
            "pushsweep", words + ["--config", try settings()], environment: environment,
            under: command)
    }

    /// Runs `pushsweep` with these settings to its end.
    package func run(
        _ words: [String], environment: [String: String] = [:], under command: [String] = []
    ) throws -> ToolResult {
        try start(words, environment: environment, under: command).wait()
    }

    /// Runs `pushsweep` with these settings to its end.
    package func run(
        _ words: String..., environment: [String: String] = [:]
    ) throws -> ToolResult {
        try run(words, environment: environment)
    }

    /// Runs a command with JSON output.
    package func json(_ words: String..., environment: [String: String] = [:]) throws -> ToolResult
    {
        try run(words + ["--format", "json"], environment: environment)
    }

    /// Runs a sweep with JSON output.
    package func sweep(_ more: String...) throws -> ToolResult {
        try run(["sweep", "--format", "json"] + more)
    }
}

/// Waits until a condition holds; false when it has not within the time.
@discardableResult
package func eventually(
    seconds: Int = 30, _ condition: () throws -> Bool
) rethrows -> Bool {
    let deadline = ContinuousClock.now + .seconds(seconds)
    while ContinuousClock.now < deadline {
        if try condition() { return true }
        usleep(1_000)
    }
    return try condition()
}
