import APNsProtocol
import Database
import Findings
import TokenHygiene

// The user's table of device tokens, as one connection sees it. TokenHygiene decides the changes to
// rows. The code in Apply makes each change once, and only to rows that still have their judged
// state. This class holds the session and the resolved layout together.
//
// Two workers on disjoint parts of a batch open two of these.

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
        let table = try withHidden(settings.mapping.judgedByDefault, of: catalogTable())
        var layout = try seeingColumns(of: table.name) { () throws(StoreFailure) in
            try LayoutResolver(
                mapping: settings.mapping, table: table, dialect: connection.dialect
            ).layout()
        }
        let name = layout.table
        let catalog = Catalog(connection: connection)
        layout = try retries.retrying("reading the triggers and rules of \(name)") {
            () throws(SQLFailure) in
            var layout = layout
            let triggers = try catalog.triggers(of: name)
            let updating = triggers.filter { $0.event == "UPDATE" }
            layout.hidesUpdateTriggers =
                updating.isEmpty ? try !catalog.seesTriggers(of: name) : false
            layout.mayHaveUpdateTriggers = !updating.isEmpty || layout.hidesUpdateTriggers
            layout.knownTriggers = Set(triggers.map(\.name))
            layout.mayRunForeignTriggers =
                layout.hidesUpdateTriggers || updating.contains { !layout.owns($0) }
            let rules = try catalog.rules(of: name)
            layout.marksMayBeRefused = rules.mayRefuse(layout.markColumns, of: table)
            layout.rowsMayBreakRules = rules.mayBeBroken
            layout.orAbort = rules.resolvesConflicts ? " OR ABORT" : ""
            let tests = try [layout.exactness].compactMap { $0 } + catalog.insertConditions(name)
            layout.exactness = tests.isEmpty ? nil : "(\(tests.joined(separator: " AND ")))"
            layout.ignoresNameCase = try catalog.ignoresNameCase()
            return layout
        }
        resolved = layout
        return layout
    }

    /// Resolves the layout anew at its next use.
    func forgetLayout() { resolved = nil }

    /// The token table as the database describes it.
    package func catalogTable() throws(StoreFailure) -> CatalogTable {
        try session.catalogTable(
            TableName(settings.mapping.table), setting: "store.active-users.table",
            cure: "create it with `pushsweep schema apply --create-token-table`")
    }

    /// Runs a body that looks for columns of a table. To an account that may not see all of them one that is
    /// hidden looks missing, so a missing one is then a right that it lacks.
    ///
    /// - Throws: the failure of the body; `permission` with the GRANT for a column that may be hidden.
    package func seeingColumns<R>(
        of table: TableName, _ body: () throws(StoreFailure) -> R
    ) throws(StoreFailure) -> R {
        do {
            return try body()
        } catch {
            guard let column = error.unseenColumn, case .server = settings.location,
                try hidesColumns(of: table)
            else { throw error }
            let (columns, doubt): ([String]?, String) =
                switch try presence(of: column, in: table) {
                case .absent: throw error
                case .hidden: ([column], "")
                // A GRANT of a column that the table lacks would be refused.
                case .untold:
                    (nil, "the account may read nothing of the table, so this is not known; ")
                }
            guard let grant = try session.grant({ $0.reading(columns, of: table) }) else {
                throw error
            }
            throw StoreFailure(
                .permission,
                "\(error.sentence): \(doubt)run \(grant), or what `pushsweep check --grants` prints for "
                    + "an administrator, with all that the settings need")
        }
    }

    /// What an account may know of a column that the catalog does not show it.
    enum ColumnPresence {
        /// The table has it.
        case hidden
        /// The table has none of that name.
        case absent
        /// The account may read no column of the table, and the server tells it nothing.
        case untold
    }

    /// Whether a table has a column that the catalog does not show. A join by name finds a column before the
    /// right to it is checked, so the server says by its error whether there is one.
    func presence(
        of name: String, in table: TableName
    ) throws(StoreFailure) -> ColumnPresence {
        let column = connection.dialect.quoted(name)
        let probe =
            "SELECT 1 FROM \(table.sql(connection.dialect)) JOIN (SELECT 1 AS \(column)) AS own "
            + "USING (\(column)) WHERE 1 = 0"
        return try retries.retrying("looking for column \(name) of \(table)") {
            () throws(SQLFailure) in
            do throws(SQLFailure) {
                _ = try connection.query(probe)
                return .hidden
            } catch {
                switch error.code {
                case 1_054: return .absent  // ER_BAD_FIELD_ERROR
                case 1_142: return .untold  // ER_TABLEACCESS_DENIED_ERROR
                default:
                    guard error.kind == .permission else { throw error }
                    return .hidden
                }
            }
        }
    }

    /// A table with those of some default columns that it has and that are hidden from the account. The
    /// catalog leaves such columns out, and they must not count as absent.
    ///
    /// - Throws: any failure of a query.
    package func withHidden(
        _ usual: [OptionalColumn], of table: CatalogTable
    ) throws(StoreFailure) -> CatalogTable {
        let names = usual.compactMap { column -> String? in
            guard case .detect(let name) = column, table.column(name) == nil else { return nil }
            return name
        }
        guard case .server = settings.location, !names.isEmpty,
            try hidesColumns(of: table.name)
        else { return table }
        var table = table
        for name in names {
            if try presence(of: name, in: table.name) == .hidden { table.hidden.insert(name) }
        }
        return table
    }

    private func hidesColumns(of table: TableName) throws(StoreFailure) -> Bool {
        do {
            try retries.retrying("reading all columns of \(table)") { () throws(SQLFailure) in
                // Its result has one column, however many the table has when it is asked again.
                _ = try connection.query(
                    "SELECT 1 FROM (SELECT * FROM \(table.sql(connection.dialect)) WHERE 1 = 0) AS own"
                )
            }
            return false
        } catch {
            guard error.code == .permission else { throw error }
            return true
        }
    }

    /// Refuses an account that sees only some columns of the token table, as the printed grants give
    /// it: to that account the others look missing, and would be added again or left out.
    ///
    /// - Throws: `permission` for such an account; any failure of the query.
    package func ensureSeesAllColumns() throws(StoreFailure) {
        guard case .server = settings.location,
            try hidesColumns(of: try TableName(settings.mapping.table))
        else { return }
        throw StoreFailure(
            .permission,
            "reading all columns of \(settings.mapping.table): the account may see only some of them, and "
                + "the others look missing to it; name an administrator in PUSHSWEEP_STORE_URL and "
                + "PUSHSWEEP_STORE_PASSWORD for this command")
    }
}

// Hosts that share a table share its lease.

extension TokenTable {
    /// The lease's name: one per token table, for every spelling in the settings. Tables of several
    /// products in one database have one each.
    ///
    /// - Throws: `configuration` where the table does not fit the settings; any failure of a query.
    package func leaseName() throws(StoreFailure) -> String {
        String(try layout().table.name.lowercased().prefix(64))
    }

    /// Takes the table's lease; see `DatabaseSession.takeLease`.
    ///
    /// - Throws: any failure of the database; the lease may then have been taken, and ends by
    ///   itself.
    package func takeLease(_ applicant: LeaseApplicant) throws(StoreFailure) -> LeaseAnswer {
        try session.takeLease(applicant, on: leaseName())
    }

    /// The present holder of the table's lease; see `DatabaseSession.leaseHolder`.
    ///
    /// - Throws: any failure of the database.
    package func leaseHolder() throws(StoreFailure) -> LeaseHolder? {
        try session.leaseHolder(of: leaseName())
    }
}
