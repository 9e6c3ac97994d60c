// A row changes together with its entry in the ledger, the checkpoint of its feed and the lease, if one
// engine holds all of them. A table of Spider or FEDERATED has its rows on other servers: they commit one
// after the other, and a crash in between keeps the changes of some and loses those of the others. The
// same can happen between two engines of one server.
//
//   together  rows and ledger commit both or not at all
//   apart     the images are committed first, then the rows, and a later look settles what a crash left
//             half done (see ApartConnection)
//   never     rows or ledger keep the changes of a rolled back transaction, or the ledger itself is on
//             other servers: nothing is changed
//
// What each kind means is decided here and nowhere else.

import Database
import TokenHygiene

/// How the rows of the token table and their entries in the ledger are committed.
enum CommitKind: Hashable, Sendable {
    /// In one transaction of one engine.
    case together
    /// In transactions that commit one after the other.
    case apart
    /// Not so that a crash could be settled.
    case never

    /// The engines whose rows are on other servers, in capitals.
    fileprivate static let remote: Set = ["SPIDER", "FEDERATED", "CONNECT"]

    /// The kind for the engines of the token table and of the ledger; nil is an engine that is not
    /// known, and SQLite.
    init(_ table: CatalogEngine?, ledger: CatalogEngine?) {
        guard let table else {
            self = .together
            return
        }
        let name = table.name.uppercased()
        let ledgerName = ledger?.name.uppercased()
        if !table.hasTransactions || ledger?.hasTransactions == false
            || ledgerName.map(Self.remote.contains) ?? false
        {
            self = .never
        } else if Self.remote.contains(name) || ledgerName.map({ $0 != name }) ?? false {
            self = .apart
        } else {
            self = .together
        }
    }
}

extension TokenTable {
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
        return Self.commitFindings(table, ledger: ledger, need)
    }

    /// The same for an engine of the ledger; nil where it is not known.
    static func commitFindings(
        _ table: CatalogTable, ledger: CatalogEngine?, _ need: TableUse
    ) -> [StoreFinding] {
        let kind = CommitKind(table.engine, ledger: ledger)
        guard kind != .together, let engine = table.engine?.name else { return [] }
        if let finding = engineFinding(table) { return [finding] }
        let change = PushsweepTable.change.name
        if kind == .never {
            return [
                StoreFinding(
                    .failure(.configuration),
                    "table \(change) has the engine \(ledger?.name ?? "unknown"), which cannot keep the "
                        + "before-images of changes safely; keep the tables of this program on the server "
                        + "itself: ALTER TABLE \(change) ENGINE=InnoDB")
            ]
        }
        return [
            StoreFinding(
                .ok,
                "the rows of \(table.name) are in the engine \(engine) and the change ledger "
                    + (ledger.map { "is in \($0.name)" } ?? "is to be on the server itself")
                    + ": images are committed before rows, and the next run settles what a crash leaves "
                    + "half done")
        ]
    }

    /// Refuses a queue whose rows are on other servers: its results and its claims, which are local, have
    /// to change together.
    package static func remoteFinding(_ table: CatalogTable) -> StoreFinding? {
        guard let engine = table.engine, CommitKind.remote.contains(engine.name.uppercased()) else {
            return nil
        }
        return StoreFinding(
            .failure(.configuration),
            "table \(table.name) has the engine \(engine.name): its rows are on other servers, and claims "
                + "could not change together with them; keep the queue on the server itself")
    }

    /// Whether the rows of a table commit apart from the ledger.
    static func commitsApart(
        _ session: DatabaseSession, _ table: String
    ) throws(StoreFailure) -> Bool {
        // The layout says what is wrong with a name.
        guard let name = try? TableName(table) else { return false }
        let change = TableName(name: PushsweepTable.change.name)
        return try session.retries.retrying("reading the engine of \(name)") {
            () throws(SQLFailure) in
            let catalog = Catalog(connection: session.connection)
            return try CommitKind(catalog.engine(name), ledger: catalog.engine(change)) == .apart
        }
    }
}
