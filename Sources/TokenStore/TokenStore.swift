import APNsProtocol
import TokenHygiene

// The user's table of device tokens, as one connection sees it. What happens to rows is decided by
// TokenHygiene; how it reaches the database so that it happens once, and only to rows that still
// are what was judged, is decided in Apply. This class holds the connection and the resolved layout
// together.
//
// A store belongs to the thread that made it. Neither libmariadb nor our use of GRDB allows two
// threads at once on one connection, so the class is not Sendable and the compiler holds us to it.
// Two workers on disjoint parts of a feed open two stores.

/// The token database.
package final class TokenStore {
    /// How the database was opened; a second connection is made from it.
    package let settings: StoreSettings
    let connection: any SQLConnection
    let pacing: StorePacing
    private var resolved: TableLayout?
    /// What a removal after the grace period has read of the ledger, for the next app's.
    var recentChanges: RecentChanges?
    /// Stands between chunks.
    private let gate: ThrottleGate
    /// Asks servers how they are.
    let probe: ThrottleProbe

    /// Connects. `creatingFile` makes a SQLite file that does not exist; nothing else does.
    ///
    /// - Throws: `unreachable`, `untrusted`, `busy`, `permission` or `configuration`.
    package convenience init(
        _ settings: StoreSettings, creatingFile: Bool = false,
        pacing: StorePacing = StorePacing()
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
        _ settings: StoreSettings, _ connection: any SQLConnection, _ pacing: StorePacing
    ) throws(StoreFailure) {
        self.settings = settings
        self.connection = connection
        self.pacing = pacing
        probe = ThrottleProbe(
            pacing.throttle, connection, Attempts(connection: connection, pacing: pacing),
            settings.location)
        gate = ThrottleGate(pacing, probe)
        try attempts.retrying("connecting to \(settings.location)") { () throws(SQLFailure) in
            try connection.connect()
        }
    }

    var attempts: Attempts { Attempts(connection: connection, pacing: pacing) }

    /// The table as it is used, resolved once per store.
    func layout() throws(StoreFailure) -> TableLayout {
        if let resolved { return resolved }
        var layout = try LayoutResolver(
            mapping: settings.mapping, table: catalogTable(), dialect: connection.dialect
        ).layout()
        let name = layout.table
        layout.hasUpdateTriggers = try attempts.retrying("reading the triggers of \(name)") {
            () throws(SQLFailure) in
            try Catalog(connection: connection).hasUpdateTriggers(name)
        }
        resolved = layout
        return layout
    }

    /// The token table as the database describes it.
    func catalogTable() throws(StoreFailure) -> CatalogTable {
        try catalogTable(
            TableName(settings.mapping.table), setting: "store.active-users.table",
            cure: "run `pushsweep schema apply`")
    }

    /// A table of the settings as the database describes it.
    func catalogTable(
        _ name: TableName, setting: String, cure: String
    ) throws(StoreFailure) -> CatalogTable {
        let table = try attempts.retrying("reading the layout of \(name)") {
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

    /// Whether `pushsweep_invalid` is there and may be read. An audit of an untouched database does
    /// without it.
    func hasSideMarks() throws(StoreFailure) -> Bool {
        try canRead("pushsweep_invalid", "token, invalidated_at")
    }

    /// Whether there are marks in `pushsweep_invalid`. A table that was given a column for marks has
    /// those from before still there, and they count for whoever sends.
    func hasSideMarks(in partition: Partition) throws(StoreFailure) -> Bool {
        guard try hasSideMarks() else { return false }
        return try attempts.retrying("looking for marks of \(partition)") {
            () throws(SQLFailure) in
            try connection.query(
                "SELECT 1 FROM pushsweep_invalid WHERE app = ? AND environment = ? LIMIT 1",
                [.text(partition.app), .text(partition.environment)]
            ).count > 0
        }
    }

    /// Whether a table of ours can be read.
    func canRead(_ table: String, _ columns: String) throws(StoreFailure) -> Bool {
        try sight(of: table, columns) == .readable
    }

    /// How an account sees a table. Asked by reading, since an account with some other right on a table
    /// sees it in the catalog too.
    func sight(of table: String, _ columns: String) throws(StoreFailure) -> TableSight {
        try attempts.retrying("looking for \(table)") { () throws(SQLFailure) in
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

    /// Finds out what evidence would do to the rows of a partition. Reads only and locks nothing.
    /// `shouldStop` is asked between batches; `report` hears the numbers so far.
    ///
    /// - Throws: any failure of reading.
    package func classify(
        _ evidence: inout some EvidenceStream, in partition: Partition, policy: RemovalPolicy,
        shouldStop: () -> Bool = { false }, report: (Classification) -> Void = { _ in }
    ) throws(StoreFailure) -> Classification {
        let layout = try layout()
        let lookup = try RowLookup(layout, connection.dialect, partition, wholeRows: false)
        let classifier = FeedClassifier(
            layout: layout, connection: connection, partition: partition, policy: policy,
            readsSideMarks: layout.mark == nil ? try hasSideMarks() : false)
        var result = Classification()
        while !shouldStop() {
            guard try gate.pass(shouldStop: shouldStop) else { break }
            let batch: [TokenEvidence]
            do {
                batch = try evidence.next(StatementShape.longest)
            } catch {
                throw StoreFailure(.evidence, "reading evidence: \(error); run again")
            }
            if batch.isEmpty {
                result.isComplete = true
                break
            }
            let before = result
            result = try attempts.retrying("reading rows of \(layout.table)") {
                () throws(SQLFailure) in
                var next = before
                try classifier.classify(batch, into: &next, lookup)
                return next
            }
            report(result)
        }
        return result
    }

    /// How many rows a partition has. Counts them, which on a large table takes seconds.
    package func rows(in partition: Partition) throws(StoreFailure) -> Int {
        let layout = try layout()
        let condition = try layout.partitionCondition(partition, connection.dialect)
        let sql =
            "SELECT COUNT(*) FROM \(layout.table.sql(connection.dialect)) WHERE 1 = 1"
            + condition.sql
        return try attempts.retrying("counting rows of \(layout.table)") {
            () throws(SQLFailure) in
            try connection.query(sql, condition.values).scalar?.count ?? 0
        }
    }

    /// How far a feed is applied, all of its parts together; nil if nothing of it was ever begun.
    package func progress(of feed: String) throws(StoreFailure) -> FeedProgress? {
        guard let count = try parts(of: feed) else { return nil }
        var parts: [FeedProgress?] = []
        for part in FeedPart.parts(count) { parts.append(try progress(of: feed, part: part)) }
        return FeedProgress(of: parts)
    }

    /// The same for dry runs, whose account may see nothing but the token table: nil also where
    /// `pushsweep_feed` is missing or may not be read.
    package func progressIfVisible(of feed: String) throws(StoreFailure) -> FeedProgress? {
        try canRead("pushsweep_feed", "parts") ? try progress(of: feed) : nil
    }

    /// In how many parts a feed was begun; nil if it was not.
    func parts(of feed: String) throws(StoreFailure) -> Int? {
        try attempts.retrying("reading the marker of feed \(feed)") { () throws(SQLFailure) in
            try connection.query(
                "SELECT parts FROM pushsweep_feed WHERE feed = ? ORDER BY part", [.text(feed)]
            ).scalar?.count
        }
    }

    /// How far one part of a feed is applied; nil if nothing of it was ever begun.
    func progress(
        of feed: String, part: FeedPart
    ) throws(StoreFailure) -> FeedProgress? {
        let marker = FeedMarker(feed: feed, part: part, dialect: connection.dialect)
        return try attempts.retrying("reading the marker of feed \(feed)") {
            () throws(SQLFailure) in
            try marker.read(connection, locking: false)
        }
    }

    /// Applies a feed chunk by chunk, each in a transaction that also moves the feed's marker.
    /// Evidence up to the marker is passed over, so a feed may be handed in again from its start or
    /// from `progress(of:)`. `shouldStop` is asked between chunks; then the result is not `isApplied`
    /// and the next call goes on.
    ///
    /// - Throws: any failure; what is committed stands, and the marker tells how far that is.
    package func apply(
        _ evidence: inout some EvidenceStream, _ application: FeedApplication,
        shouldStop: () -> Bool = { false }, report: (FeedProgress) -> Void = { _ in }
    ) throws(StoreFailure) -> FeedProgress {
        var applier = try FeedApplier(application, layout(), connection, pacing, gate)
        return try applier.run(&evidence, shouldStop: shouldStop, report: report)
    }
}

/// How an account sees a table.
enum TableSight {
    case readable
    /// Not there, as far as the account may know.
    case absent
    /// Not to be read, whether or not it is there.
    case hidden
}
