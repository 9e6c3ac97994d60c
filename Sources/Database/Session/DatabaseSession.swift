// A connection to the token database with its driver, retries, throttle and catalog. TokenTable and
// PushQueue define the meaning of the tables.
//
// A session belongs to the thread that made it. Neither libmariadb nor this program's use of SQLite
// allows two threads at once on one connection, so the class is not Sendable and the compiler
// enforces the rule.

import APNsProtocol
import Findings

/// One connection to the token database.
package final class DatabaseSession {
    /// The settings with which the database was opened; a second connection uses them again.
    package let settings: StoreSettings
    /// The driver's connection.
    package let connection: any SQLConnection
    /// The patience, the pace, and the clocks.
    package let pacing: Pacing
    /// Makes the run wait between chunks where the throttle's limits are exceeded.
    private let throttler: Throttler
    /// Reads the throttle's values from servers.
    let probe: ThrottleProbe
    /// The size of transactions that the server accepts.
    private let ceiling = ChunkCeiling()
    private let health = SessionHealth()

    /// Connects. Only `creatingFile` creates a SQLite file that does not exist.
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
        let pacing = pacing.following(settings)
        self.settings = settings
        self.connection = connection
        self.pacing = pacing
        probe = ThrottleProbe(connection, pacing, settings.location)
        throttler = Throttler(pacing, probe)
        health.hasWorked = settings.hosts.wereUsed
        var clock = RetryClock(pacing, health, isFirstConnection: true)
        try retries.retrying("connecting to \(settings.location)", on: &clock) {
            () throws(SQLFailure) in
            try connection.connect()
        }
        settings.hosts.noteUse()
    }

    /// The retries of statements on this connection.
    package var retries: RetryPolicy {
        RetryPolicy(connection: connection, pacing: pacing, health: health)
    }

    /// Shortens the patience with the database until an operation succeeds: another connection of the
    /// same run has given it up.
    package func giveUp() { health.isGivenUp = true }

    /// A table of the settings as the database describes it.
    ///
    /// - Throws: `configuration` with `cure` where there is no such table; `permission` with both cures where nobody
    ///   knows; any failure of a query.
    package func catalogTable(
        _ name: TableName, setting: String, cure: String
    ) throws(StoreFailure) -> CatalogTable {
        let table = try retries.retrying(
            "reading the layout of \(name)", do: Catalog(connection: connection).table(name))
        if let table { return table }
        let doing = "reading the layout of \(name): \(settings.location) has no such table"
        if try visibility(of: name.sql(connection.dialect), "1") == .hidden,
            let grant = try grant({ $0.reading(nil, of: name) })
        {
            throw StoreFailure(
                .permission,
                "\(doing) that the account may see; correct \(setting), grant the right: \(grant); or \(cure)"
            )
        }
        throw StoreFailure(.configuration, "\(doing); correct \(setting), or \(cure)")
    }

    /// Whether the account can read columns of a side table.
    package func canRead(_ table: String, _ columns: String) throws(StoreFailure) -> Bool {
        try visibility(of: table, columns) == .readable
    }

    /// The account's view of a table. Determined by reading, because an account with another right
    /// on a table sees it in the catalog too.
    package func visibility(of table: String, _ columns: String) throws(StoreFailure)
        -> TableVisibility
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

    /// Pauses as long as the throttle requires; false where `shouldStop` ended the pause.
    ///
    /// - Throws: `stopped` where the run has to end early; `configuration` or `permission` where
    ///   the servers cannot supply a value that the throttle needs; any failure of a query to the
    ///   store's own server.
    package func waitForThrottle(
        shouldStop: () -> Bool = { false }
    ) throws(StoreFailure) -> Bool {
        try throttler.wait(shouldStop: shouldStop)
    }

    /// Requires that the servers can supply all values that the throttle's limits need.
    ///
    /// - Throws: as `waitForThrottle`, but not `stopped`.
    package func ensureThrottleIsWatched() throws(StoreFailure) {
        if pacing.throttle.asksServers { _ = try probe.read() }
    }

    /// The loop for one change in chunks. `isolation` is shared with the code that writes rows.
    package func chunkLoop(_ isolation: RowIsolation? = nil) -> ChunkLoop {
        ChunkLoop(
            connection, pacing, throttler: throttler,
            isolation: isolation ?? RowIsolation(connection), ceiling: ceiling,
            health: health)
    }

    /// The server's description of itself. Throws any failure of a query.
    package func describe() throws(StoreFailure) -> ServerDescription {
        try retries.retrying("asking \(settings.location) what it is", do: connection.describe())
    }
}

extension DatabaseSession {
    /// The GRANT statement for this connection's account, of a right that `make` chooses; nil for a file.
    ///
    /// - Throws: any failure of asking for the account.
    package func grant(_ make: (PrivilegeMaker) -> Privilege) throws(StoreFailure) -> String? {
        guard case .server(let server) = settings.location else { return nil }
        return make(PrivilegeMaker(server.database, connection.dialect))
            .grant(to: try describe().account ?? server.user)
    }
}

/// The account's view of a table. Servers answer alike for a table that is hidden from an account and for one that is
/// not there, where the account has no right to either. So hidden is not absent: what decides by the rows of a table
/// ends where it is hidden, and what only looks names the gap.
package enum TableVisibility {
    /// The account can read the table.
    case readable
    /// The table is not there.
    case absent
    /// The account cannot read the table, or it is not there.
    case hidden
}

extension DatabaseSession {
    /// Whether a decision can rest on the rows of one of our tables: false where it is not there, and so has none.
    ///
    /// - Throws: `permission` where nobody knows, with both cures; any other failure of a query.
    package func decides(
        by table: PushsweepTable, _ columns: String, to doing: String
    ) throws(StoreFailure) -> Bool {
        let visibility = try visibility(of: table.name, columns)
        guard let gap = try gap(in: table, visibility), visibility == .hidden else {
            return visibility == .readable
        }
        throw StoreFailure(.permission, "\(doing): \(gap)")
    }

    /// Why the rows of one of our tables are not seen, and what to do; nil where they are.
    ///
    /// - Throws: any failure of asking for the account.
    package func gap(
        in table: PushsweepTable, _ visibility: TableVisibility
    ) throws(StoreFailure) -> String? {
        switch visibility {
        case .readable: return nil
        case .absent: return "there is no table \(table.name); run `pushsweep schema apply`"
        case .hidden:
            let grant = try grant { $0.sideTable(table, .read) } ?? "SELECT on it"
            return
                "\(table.name) may not be read, or is not there; grant the right: \(grant); or make the table: "
                + "`pushsweep schema apply`"
        }
    }
}

extension DatabaseSession {
    /// The present by the database's clock. Periods that concern several hosts are counted by it,
    /// because the clocks of hosts differ.
    ///
    /// - Throws: any failure of reading.
    package func databaseTime() throws(StoreFailure) -> EpochMilliseconds {
        let dialect = connection.dialect
        return try retries.retrying(
            "reading the time of the database",
            do: dialect.instant(connection.query("SELECT \(dialect.now)").scalar ?? .null))
    }
}

/// One run of this program, for `pushsweep_run`.
package struct RunRecord: Hashable, Sendable {
    /// The run, as a UUID in text.
    package let id: String
    /// The kind of run: `sweep`, `replay`, `release` and so on.
    package let kind: String
    /// The start of the run.
    package let started: EpochMilliseconds
    /// The end of the run; nil while it lasts.
    package let ended: EpochMilliseconds?
    /// The name of the host.
    package let host: String
    /// The person or service that runs it.
    package let `operator`: String?
    /// The report's numbers as JSON; nil before there are any.
    package let counts: String?
    /// The guard's result in one word; nil where the guard was not used.
    package let guardResult: String?

    /// Makes a record; by default of a run that has not ended.
    package init(
        id: String, kind: String, started: EpochMilliseconds, ended: EpochMilliseconds? = nil,
        host: String, operator: String? = nil, counts: String? = nil,
        guardResult: String? = nil
    ) {
        self.id = id
        self.kind = kind
        self.started = started
        self.ended = ended
        self.host = host
        self.operator = `operator`
        self.counts = counts
        self.guardResult = guardResult
    }
}

extension RunRecord {
    /// The columns of a record that is read, in the order of `init(_:_:)`.
    package static let columns = "id, kind, started, ended, host, operator"

    /// Reads a row of `columns`.
    package init(_ row: ArraySlice<SQLValue>, _ dialect: SQLDialect) {
        func value(_ column: Int) -> SQLValue { row[row.startIndex + column] }
        let time = dialect.ownTime("started")
        self.init(
            id: value(0).text ?? "", kind: value(1).text ?? "",
            started: time.mark(value(2)) ?? EpochMilliseconds(0), ended: time.mark(value(3)),
            host: value(4).text ?? "", operator: value(5).text)
    }
}

extension DatabaseSession {
    /// Writes the record of a run, or overwrites its earlier record.
    package func record(_ run: RunRecord) throws(StoreFailure) {
        let time = connection.dialect.ownTime("started")
        let sql = connection.dialect.upsert(
            "pushsweep_run", key: ["id"],
            columns: ["kind", "started", "ended", "host", "operator", "counts", "guard_result"])
        try retries.retrying("recording run \(run.id)") { () throws(SQLFailure) in
            _ = try connection.execute(
                sql,
                [
                    .text(run.id), .text(run.kind), time.value(run.started),
                    run.ended.map(time.value) ?? .null, .text(run.host),
                    run.operator.map(SQLValue.text) ?? .null,
                    run.counts.map(SQLValue.text) ?? .null,
                    run.guardResult.map(SQLValue.text) ?? .null,
                ])
        }
    }
}

extension DatabaseSession {
    /// The end of the last run of a kind in `pushsweep_run` that ended with 0; nil where there is none, or the account may
    /// not read it. Only runs that changed something are recorded there. A run that ended later than `limit` does not
    /// count: a clock was wrong then, or is wrong now.
    package func lastRecordedRun(
        of kind: String, until limit: EpochMilliseconds
    ) throws(StoreFailure) -> EpochMilliseconds? {
        guard try canRead("pushsweep_run", "kind, ended, counts") else { return nil }
        let time = connection.dialect.ownTime("ended")
        return try retries.retrying("looking for the last \(kind) in pushsweep_run") {
            () throws(SQLFailure) in
            let rows = try connection.query(
                "SELECT MAX(ended) FROM pushsweep_run WHERE kind = ? AND counts LIKE ? AND ended <= ?",
                [.text(kind), .text(#"%"exit":0,%"#), time.value(limit)])
            return time.mark(rows[0, 0])
        }
    }
}
