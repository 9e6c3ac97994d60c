import Database
import EvidenceJournal
import FoundationEssentials
import Glibc
import Operations
import PushQueue
import SchemaLook
import Settings
import TokenHygiene
import TokenTable

/// The schema of the token database.
package enum SchemaWork {
    /// Executes the statements for tables that are missing, unless this is a dry run, and returns them.
    /// `creatingTokens` creates the token table too, `upgrading` allows changes to an existing one.
    package static func apply(
        _ settings: Settings, creatingTokens: Bool, upgrading: Bool = false, dryRun: Bool = false
    ) throws(RunFailure) -> SchemaScript {
        try RunFailure.at(.store) {
            let store = StoreSettings(settings)
            // A new file of SQLite would have a new token table.
            let creatingFile = creatingTokens && !dryRun
            if creatingFile {
                try makeFolder(of: store.location, settings)
            } else {
                try settings.ensureOwnStore()
            }
            let tokens = try TokenTable(store, creatingFile: creatingFile)
            return dryRun
                ? try tokens.missingSchema(upgrading: upgrading, creatingTokens: creatingTokens)
                : try tokens.applySchema(upgrading: upgrading, creatingTokens: creatingTokens)
        }
    }

    /// Creates the folder of an SQLite file. By default that is the state folder, which may not exist
    /// yet.
    private static func makeFolder(
        of location: StoreLocation, _ settings: Settings
    ) throws(RunFailure) {
        guard case .sqlite(let path) = location else { return }
        let folder = path.parentPath
        // The next run would refuse a state folder of another user, or one inside another user's
        // folder.
        if folder == settings.state {
            return try RunFailure.at(.state) { try StateFolder.make(folder) }
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

    /// The statements for an existing token table: missing columns and indexes, and missing tables of
    /// this program.
    ///
    /// - Throws: exit 78 where the table does not fit the settings; exit 77 where the account does not
    ///   see all its columns; any failure of the database.
    package static func upgrade(_ settings: Settings) throws(RunFailure) -> SchemaReport {
        try reading(settings) { tokens in
            SchemaReport(
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
        try reading(settings) { tokens in
            let view = try tokens.sendableView(
                named: name, partitions: settings.apps.map(\.storedPartition))
            var notes = ["A sender without the view adds this to the WHERE of its SELECT:", "AND"]
            if let column = view.markColumn {
                notes.insert(
                    "A sender that leaves out rows by \(column) needs neither the view nor a condition.",
                    at: 0)
            }
            for (place, term) in view.condition.enumerated() {
                let text = (place == 0 ? "  " : "  AND ") + term
                notes += text.split(separator: "\n").map(String.init)
            }
            return SchemaReport(
                SchemaScript(statements: view.statements), executed: false, notes: notes,
                condition: view.condition.joined(separator: " AND "))
        }
    }

    private static func reading(
        _ settings: Settings, _ report: (TokenTable) throws -> SchemaReport
    ) throws(RunFailure) -> SchemaReport {
        try settings.reading { tokens in
            // A missing table is named first.
            _ = try tokens.catalogTable()
            try tokens.ensureSeesAllColumns()
            return try report(tokens)
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
    package var exit: Int32 = 0
    package static var form: PrintedForm { .copied }

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

/// The statements that make an account of the token database and give it its rights: one JSON object
/// for scripts. Fields may be added, never renamed.
package struct GrantReport: PrintedLines, Codable, Hashable, Sendable {
    /// The statements for one job.
    package struct Job: Codable, Hashable, Sendable {
        /// The job, such as `undo`.
        package let job: String
        /// The statements in order, without closing semicolons.
        package let statements: [String]
    }

    /// The account; empty for SQLite, where the mode of the file decides.
    package private(set) var account = ""
    /// Why the columns come from the settings and not from the tables; nil where they come from the
    /// tables.
    package private(set) var reason: String?
    /// The jobs with their statements.
    package private(set) var jobs: [Job] = []
    package var exit: Int32 = 0
    package static var form: PrintedForm { .copied }

    /// Makes the statements for the token database of the settings, and for `user` in place of the
    /// account in its address. Without a connection the columns come from the settings.
    ///
    /// - Throws: exit 78 where the settings contradict themselves.
    package init(_ settings: Settings, user: String?) throws(RunFailure) {
        do {
            let store = StoreSettings(settings, for: .reports)
            let grants = try AccountGrants(store, settings.policy, user: user) { table in
                Set(
                    ((try? table.columnQuestions()) ?? []).filter(\.isForAccount)
                        .map(\.column))
            }
            guard let grants else { return }
            account = grants.account
            reason = grants.reason
            jobs = grants.jobs.map { Job(job: $0.name, statements: $0.statements) }
        } catch {
            throw .ofReading(error)
        }
    }

    /// The statements as SQL, with comments. All of them can be executed at once, so those that only
    /// an administrator needs are comments.
    package var lines: [String] {
        guard !jobs.isEmpty else {
            return ["-- SQLite has no accounts: the mode and the owner of the file decide"]
        }
        var lines = [
            "-- For an administrator of the database, after `pushsweep schema apply`. Replace PASSWORD."
        ]
        if let reason {
            lines += [
                "-- The columns are those of the settings and of `pushsweep schema print`, because the",
                "-- table could not be read: \(reason)",
                "-- A grant on a column that the table does not have fails. With an administrator in",
                "-- PUSHSWEEP_STORE_URL and PUSHSWEEP_STORE_PASSWORD the columns are those of the table.",
            ]
        }
        for job in jobs {
            let isForReading = [AccountGrants.schemaJob, AccountGrants.replicaJob].contains(job.job)
            let mark = isForReading ? "-- " : ""
            lines += ["", "-- \(job.job)"] + job.statements.map { "\(mark)\($0);" }
        }
        return lines
    }
}
