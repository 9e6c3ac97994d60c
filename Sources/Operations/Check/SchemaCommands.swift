import Database
import EvidenceJournal
import Foundation
import Settings
import TokenTable

/// Creates the tables that the token database lacks.
package struct SchemaWork {
    private let settings: Settings
    private let creatingTokens: Bool
    private let upgrade: Bool
    private let dryRun: Bool

    /// Prepares the work. `creatingTokens` creates a token table that is missing, `upgrade` allows
    /// changes to an existing one.
    package init(settings: Settings, creatingTokens: Bool, upgrade: Bool, dryRun: Bool) {
        self.settings = settings
        self.creatingTokens = creatingTokens
        self.upgrade = upgrade
        self.dryRun = dryRun
    }

    /// Executes the missing statements, unless this is a dry run, and returns them.
    package func run() throws(RunFailure) -> SchemaScript {
        do {
            let store = StoreSettings(settings)
            // A new file of SQLite would have a new token table.
            let creatingFile = creatingTokens && !dryRun
            if creatingFile {
                try makeFolder(of: store.location)
            } else {
                try settings.ensureOwnStore()
            }
            let tokens = try TokenTable(store, creatingFile: creatingFile)
            return dryRun
                ? try tokens.missingSchema(upgrading: upgrade, creatingTokens: creatingTokens)
                : try tokens.applySchema(upgrading: upgrade, creatingTokens: creatingTokens)
        } catch {
            throw .wrapping(error, at: .store)
        }
    }

    /// Creates the folder of an SQLite file. By default that is the state folder, which may not exist
    /// yet.
    private func makeFolder(of location: StoreLocation) throws(RunFailure) {
        guard case .sqlite(let path) = location else { return }
        let folder = URL(fileURLWithPath: path).deletingLastPathComponent().path
        // The next run would refuse a state folder of another user, or one inside another user's
        // folder.
        if folder == settings.state {
            do {
                return try StateFolder.make(folder)
            } catch {
                throw .wrapping(error, at: .state)
            }
        }
        do {
            try FileManager.default.createDirectory(
                atPath: folder, withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700])
        } catch {
            throw RunFailure(
                .cannotCreate, .store,
                "creating the folder \(folder) of the SQLite store: "
                    + "\(String(cString: strerror(errno))); create it or correct store.url")
        }
    }
}

/// The statements of `pushsweep schema`: one JSON object for scripts. Fields may be added, never
/// renamed.
package struct SchemaReport: PrintedLines, Codable, Hashable, Sendable {
    /// Whether the statements were executed.
    package let executed: Bool
    /// The statements in order, without closing semicolons.
    package let statements: [String]
    /// The exit code.
    package var exit: Int32 = 0

    /// Makes the report of a script.
    package init(_ script: SchemaScript, executed: Bool) {
        self.executed = executed
        statements = script.statements
    }

    /// The statements as text, which a database client can also read.
    package var lines: [String] {
        statements.isEmpty
            ? ["nothing is missing"]
            : SchemaScript(statements: statements).text.split(
                separator: "\n", omittingEmptySubsequences: false
            ).map(String.init)
    }
}
