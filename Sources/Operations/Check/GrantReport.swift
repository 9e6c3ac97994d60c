import Database
import PushQueue
import Settings
import TokenHygiene

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
    /// The exit code.
    package var exit: Int32 = 0

    /// Makes the statements for the token database of the settings, and for `user` in place of the
    /// account in its address. Without a connection the columns come from the settings.
    ///
    /// - Throws: exit 78 where the settings contradict themselves.
    package init(_ settings: Settings, user: String?) throws(RunFailure) {
        do {
            guard
                let grants = try AccountGrants(
                    StoreSettings(settings, for: .reports), settings.policy, user: user)
            else { return }
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
