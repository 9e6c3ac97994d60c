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

/// The statements that `schema print` takes from the token database, which it reads and never
/// changes.
package enum SchemaPrinting {
    /// The statements for an existing token table: missing columns and indexes, and missing tables of
    /// this program.
    ///
    /// - Throws: exit 78 where the table does not fit the settings; exit 77 where the account does not
    ///   see all its columns; any failure of the database.
    package static func upgrade(_ settings: Settings) throws(RunFailure) -> SchemaReport {
        try reading(settings) { (tokens: TokenTable) throws(StoreFailure) in
            return SchemaReport(
                try tokens.missingSchema(upgrading: true, creatingTokens: false), executed: false,
                notes: rightsNotes(settings.store.location)
                    + ["docs/registrations.md has what writes the time of a registration."])
        }
    }

    /// What gives the sweeping account its rights on new columns. A server hides them until then.
    private static func rightsNotes(_ location: StoreLocation) -> [String] {
        guard case .server = location else { return [] }
        return [
            "The account that sweeps does not see a new column before it has rights on it. Then run,",
            "as an administrator too, what `pushsweep check --grants ACCOUNT` prints.",
        ]
    }

    /// The view of sendable rows under a name, with its condition for a sender without the view.
    ///
    /// - Throws: exit 78 where the table does not fit the settings; exit 77 where the account does not
    ///   see all its columns; any failure of the database.
    package static func view(
        named name: String, _ settings: Settings
    ) throws(RunFailure) -> SchemaReport {
        try reading(settings) { (tokens: TokenTable) throws(StoreFailure) in
            let view = try tokens.sendableView(
                named: name, partitions: settings.apps.map(\.storedPartition))
            return SchemaReport(
                SchemaScript(statements: view.statements), executed: false,
                notes: ["A sender without the view adds this to the WHERE of its SELECT:", "AND"]
                    + view.condition.enumerated().map {
                        ($0.offset == 0 ? "  " : "  AND ") + $0.element
                    }, condition: view.condition.joined(separator: " AND "))
        }
    }

    private static func reading(
        _ settings: Settings, _ read: (TokenTable) throws(StoreFailure) -> SchemaReport
    ) throws(RunFailure) -> SchemaReport {
        do {
            try settings.ensureOwnStore()
            let tokens = try TokenTable(StoreSettings(settings, for: .reports))
            // A missing table is named first.
            _ = try tokens.catalogTable()
            try tokens.ensureSeesAllColumns()
            return try read(tokens)
        } catch {
            throw .wrapping(error, at: .store)
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
    /// What to do besides, or in place of the statements, in lines.
    package let notes: [String]
    /// The condition of sendable rows; nil without a view.
    package let condition: String?
    /// The exit code.
    package var exit: Int32 = 0

    /// Makes the report of a script.
    package init(
        _ script: SchemaScript, executed: Bool, notes: [String] = [], condition: String? = nil
    ) {
        self.executed = executed
        statements = script.statements
        self.notes = notes
        self.condition = condition
    }

    /// The statements as text, which a database client can also read.
    package var lines: [String] {
        let comments = notes.isEmpty ? [] : notes.map { "-- \($0)" }
        return statements.isEmpty
            ? ["nothing is missing"] + comments
            : SchemaScript(statements: statements).text.split(
                separator: "\n", omittingEmptySubsequences: false
            ).map(String.init) + comments
    }
}
