// A row changes together with its entry in the ledger, the checkpoint of its feed and the lease: one engine
// of one server holds all of them, and it has transactions. Elsewhere two commits follow one another, and a
// crash in between keeps one without the other. That holds for engines that do not roll back (MyISAM), for
// two engines of one server, and for those whose rows are on other servers (Spider, FEDERATED, CONNECT). No
// such table is changed.

import Database
import TokenHygiene

extension TokenTable {
    /// The engines whose rows are on other servers, in capitals.
    private static let remote: Set = ["SPIDER", "FEDERATED", "CONNECT"]

    private static func isRemote(_ engine: CatalogEngine) -> Bool {
        remote.contains(engine.name.uppercased())
    }

    /// Findings about the commits of rows and ledger, for a use that changes rows.
    func commitFindings(
        _ table: CatalogTable, _ need: TableUse
    ) throws(StoreFailure) -> [StoreFinding] {
        guard need.writes else { return [] }
        let change = TableName(name: PushsweepTable.change.name)
        let ledger = try retries.retrying("reading the engine of \(change)") {
            () throws(SQLFailure) in
            try Catalog(connection: connection).engine(change)
        }
        return [Self.commitFinding(table, ledger: ledger)].compactMap { $0 }
    }

    /// Refuses a table whose rows do not commit together with a ledger of some engine; nil where they do.
    /// An engine is nil where it is not known, and for SQLite.
    static func commitFinding(
        _ table: CatalogTable, ledger: CatalogEngine?
    ) -> StoreFinding? {
        guard let engine = table.engine else { return nil }
        if let finding = engineFinding(table) { return finding }
        let change = PushsweepTable.change.name
        if let ledger, !ledger.hasTransactions || isRemote(ledger) {
            return StoreFinding(
                .failure(.configuration),
                "table \(change) has the engine \(ledger.name), which cannot keep the before-images of "
                    + "changes safely; keep the tables of this program on the server itself: ALTER TABLE "
                    + "\(change) ENGINE=InnoDB")
        }
        let isOther = ledger.map { $0.name.uppercased() != engine.name.uppercased() } ?? false
        guard isRemote(engine) || isOther else { return nil }
        return StoreFinding(
            .failure(.configuration),
            "the rows of \(table.name) are in the engine \(engine.name) and would commit apart from the "
                + "change ledger, so a crash could keep a change without its before-image; keep both in one "
                + "engine of this server: ALTER TABLE \(table.name.sql(.mariaDB)) ENGINE="
                + (ledger?.name ?? "InnoDB"))
    }

    /// Refuses a queue whose rows are on other servers: its results and its claims, which are local, have
    /// to change together.
    package static func remoteFinding(_ table: CatalogTable) -> StoreFinding? {
        guard let engine = table.engine, isRemote(engine) else { return nil }
        return StoreFinding(
            .failure(.configuration),
            "table \(table.name) has the engine \(engine.name): its rows are on other servers, and claims "
                + "could not change together with them; keep the queue on the server itself")
    }
}
