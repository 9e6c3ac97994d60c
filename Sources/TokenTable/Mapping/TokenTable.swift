import APNsProtocol
import Database
import TokenHygiene

// The user's table of device tokens, as one connection sees it. What happens to rows is decided by
// TokenHygiene; how it reaches the database so that it happens once, and only to rows that still
// are what was judged, is decided in Apply. This class holds the session and the resolved layout
// together.
//
// Two workers on disjoint parts of a feed open two of these.

/// The table of device tokens.
package final class TokenTable {
    /// The connection it is reached over.
    package let session: DatabaseSession
    private var resolved: TableLayout?

    /// Connects. `creatingFile` makes a SQLite file that does not exist; nothing else does.
    ///
    /// - Throws: `unreachable`, `untrusted`, `busy`, `permission` or `configuration`.
    package init(
        _ settings: StoreSettings, creatingFile: Bool = false,
        pacing: Pacing = Pacing()
    ) throws(StoreFailure) {
        session = try DatabaseSession(settings, creatingFile: creatingFile, pacing: pacing)
    }

    /// Connects through a given driver.
    package init(
        _ settings: StoreSettings, _ connection: any SQLConnection, _ pacing: Pacing
    ) throws(StoreFailure) {
        session = try DatabaseSession(settings, connection, pacing)
    }

    /// How the database was opened.
    package var settings: StoreSettings { session.settings }
    /// The driver's connection.
    package var connection: any SQLConnection { session.connection }
    /// Retries on the connection.
    package var retries: RetryPolicy { session.retries }
    var pacing: Pacing { session.pacing }

    /// The table as it is used, resolved once per store.
    package func layout() throws(StoreFailure) -> TableLayout {
        if let resolved { return resolved }
        var layout = try LayoutResolver(
            mapping: settings.mapping, table: catalogTable(), dialect: connection.dialect
        ).layout()
        let name = layout.table
        layout.hasUpdateTriggers = try retries.retrying("reading the triggers of \(name)") {
            () throws(SQLFailure) in
            try Catalog(connection: connection).hasUpdateTriggers(name)
        }
        resolved = layout
        return layout
    }

    /// The token table as the database describes it.
    package func catalogTable() throws(StoreFailure) -> CatalogTable {
        try session.catalogTable(
            TableName(settings.mapping.table), setting: "store.active-users.table",
            cure: "run `pushsweep schema apply`")
    }

    /// Whether `pushsweep_invalid` is there and may be read. An audit of an untouched database does
    /// without it.
    package func hasSideMarks() throws(StoreFailure) -> Bool {
        try session.canRead("pushsweep_invalid", "token, invalidated_at")
    }

    /// Whether there are marks in `pushsweep_invalid`. A table that was given a column for marks has
    /// those from before still there, and they count for whoever sends.
    package func hasSideMarks(in partition: Partition) throws(StoreFailure) -> Bool {
        guard try hasSideMarks() else { return false }
        return try retries.retrying("looking for marks of \(partition)") {
            () throws(SQLFailure) in
            try connection.query(
                "SELECT 1 FROM pushsweep_invalid WHERE app = ? AND environment = ? LIMIT 1",
                [.text(partition.app), .text(partition.environment)]
            ).count > 0
        }
    }
}
