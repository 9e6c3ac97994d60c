// A connection to the token database with all that everything else needs of it: the driver, retries, the
// throttle, and what the catalog says. What the tables mean is decided in TokenTable and PushQueue.
//
// A session belongs to the thread that made it. Neither libmariadb nor our use of GRDB allows two
// threads at once on one connection, so the class is not Sendable and the compiler holds us to it.

/// One connection to the token database.
package final class DatabaseSession {
    /// How the database was opened; a second connection is made from it.
    package let settings: StoreSettings
    /// The driver's connection.
    package let connection: any SQLConnection
    /// How often to try again, how fast to go, and the clocks for it.
    package let pacing: Pacing
    /// Stands between chunks.
    package let gate: ThrottleGate
    /// Asks servers how they are.
    let probe: ThrottleProbe

    /// Connects. `creatingFile` makes a SQLite file that does not exist; nothing else does.
    ///
    /// - Throws: `unreachable`, `untrusted`, `busy`, `permission` or `configuration`.
    package convenience init(
        _ settings: StoreSettings, creatingFile: Bool = false,
        pacing: Pacing = Pacing()
    ) throws(StoreFailure) {
        let connection: any SQLConnection =
            switch settings.location {
            case .server(let server): MariaDBConnection(server, settings)
            case .sqlite(let path): SQLiteConnection(path: path, creates: creatingFile, settings)
            }
        try self.init(settings, connection, pacing)
    }

    /// Connects through a given driver.
    package init(
        _ settings: StoreSettings, _ connection: any SQLConnection, _ pacing: Pacing
    ) throws(StoreFailure) {
        self.settings = settings
        self.connection = connection
        self.pacing = pacing
        probe = ThrottleProbe(
            pacing.throttle, connection, RetryPolicy(connection: connection, pacing: pacing),
            settings.location)
        gate = ThrottleGate(pacing, probe)
        try retries.retrying("connecting to \(settings.location)") { () throws(SQLFailure) in
            try connection.connect()
        }
    }

    /// Retries on this connection.
    package var retries: RetryPolicy { RetryPolicy(connection: connection, pacing: pacing) }

    /// A table of the settings as the database describes it.
    ///
    /// - Throws: `configuration` with `cure` where the account sees no such table; any failure of asking.
    package func catalogTable(
        _ name: TableName, setting: String, cure: String
    ) throws(StoreFailure) -> CatalogTable {
        let table = try retries.retrying("reading the layout of \(name)") {
            () throws(SQLFailure) in
            try Catalog(connection: connection).table(name)
        }
        guard let table else {
            throw StoreFailure(
                .configuration,
                "reading the layout of \(name): \(settings.location) has no such table that the "
                    + "account may see; correct \(setting), grant SELECT on it, or \(cure)")
        }
        return table
    }

    /// Whether a table of ours can be read.
    package func canRead(_ table: String, _ columns: String) throws(StoreFailure) -> Bool {
        try sight(of: table, columns) == .readable
    }

    /// How an account sees a table. Asked by reading, since an account with some other right on a table
    /// sees it in the catalog too.
    package func sight(of table: String, _ columns: String) throws(StoreFailure) -> TableVisibility
    {
        try retries.retrying("looking for \(table)") { () throws(SQLFailure) in
            do throws(SQLFailure) {
                _ = try connection.query("SELECT \(columns) FROM \(table) WHERE 1 = 0")
                return .readable
            } catch {
                guard error.isAbsentOrHidden else { throw error }
                return error.kind == .permission ? .hidden : .absent
            }
        }
    }

    /// Waits as long as the throttle says; false where `shouldStop` said so in the meantime.
    ///
    /// - Throws: `stopped` where the run has to end early, and what the throttle asks for that the
    ///   servers cannot tell.
    package func waitForThrottle(
        shouldStop: () -> Bool = { false }
    ) throws(StoreFailure) -> Bool {
        try gate.pass(shouldStop: shouldStop)
    }

    /// What the server says about itself.
    package func describe() throws(StoreFailure) -> ServerDescription {
        try retries.retrying("asking \(settings.location) what it is") { () throws(SQLFailure) in
            try connection.describe()
        }
    }
}

/// How an account sees a table.
package enum TableVisibility {
    /// It can be read.
    case readable
    /// Not there, as far as the account may know.
    case absent
    /// Not to be read, whether or not it is there.
    case hidden
}
