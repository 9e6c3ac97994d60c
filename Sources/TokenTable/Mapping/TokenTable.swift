import APNsProtocol
import Database
import TokenHygiene

// The user's table of device tokens, as one connection sees it. TokenHygiene decides the changes to
// rows. The code in Apply makes each change once, and only to rows that still have their judged
// state. This class holds the session and the resolved layout together.
//
// Two workers on disjoint parts of a feed open two of these.

/// The table of device tokens, over one connection.
package final class TokenTable {
    /// The session with its connection; it belongs to the thread that opened it.
    package let session: DatabaseSession
    private var resolved: TableLayout?

    /// Connects. Only `creatingFile` creates a SQLite file that does not exist.
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

    /// The settings with which the database was opened.
    package var settings: StoreSettings { session.settings }
    /// The driver's connection.
    package var connection: any SQLConnection { session.connection }
    /// The retries of statements on the connection.
    package var retries: RetryPolicy { session.retries }
    var pacing: Pacing { session.pacing }

    /// The layout, resolved at the first call. Throws `configuration` where the table does not fit
    /// the settings.
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

    /// Whether `pushsweep_invalid` exists and the account may read it. An audit of a database
    /// without side tables continues without it.
    package func hasSideMarks() throws(StoreFailure) -> Bool {
        try session.canRead("pushsweep_invalid", "token, invalidated_at")
    }

    /// Whether `pushsweep_invalid` has marks of a partition. After a table gets a mark column,
    /// earlier marks stay in the side table and still count for a sender.
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
