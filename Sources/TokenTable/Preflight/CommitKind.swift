// A row changes together with its entry in the ledger, the checkpoint of its feed and the lease. That
// takes one engine that holds all of them. A table of Spider or FEDERATED has its rows on other servers:
// they commit one after the other, and a crash in between keeps the changes of some and loses those of
// the others. The same can happen between two engines of one server.
//
//   together  rows and ledger commit both or not at all: every action is allowed
//   apart     after a crash a row may be changed without an entry, or the other way round: rows may be
//             marked, which loses nothing but the undo of some, and not removed
//   never     the table keeps the changes of a rolled back transaction: nothing is changed
//
// What each kind allows is decided here and nowhere else.

import Database
import TokenHygiene

/// How the rows of the token table and their entries in the ledger are committed.
enum CommitKind: Hashable, Sendable {
    /// In one transaction of one engine.
    case together
    /// In transactions that commit one after the other.
    case apart
    /// The table has no transactions.
    case never

    /// The engines whose rows are on other servers, in capitals.
    private static let remote: Set = ["SPIDER", "FEDERATED", "CONNECT"]

    /// The kind for the engines of the token table and of the ledger; nil is an engine that is not
    /// known, and SQLite.
    init(_ table: CatalogEngine?, ledger: CatalogEngine?) {
        guard let table else {
            self = .together
            return
        }
        let name = table.name.uppercased()
        if !table.hasTransactions {
            self = .never
        } else if Self.remote.contains(name) {
            self = .apart
        } else if let ledger, ledger.name.uppercased() != name {
            self = .apart
        } else {
            self = .together
        }
    }

    /// Whether rows may be removed: never without a before-image that is committed before or with it.
    var allowsRemoval: Bool { self == .together }
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
        guard kind == .apart, let engine = table.engine?.name else {
            return [engineFinding(table)].compactMap { $0 }
        }
        let other = ledger.map { "in \($0.name)" } ?? "elsewhere"
        let fact =
            "the rows of \(table.name) are in the engine \(engine) and the change ledger is \(other), and "
            + "the two commit one after the other"
        guard need.removesRows, !kind.allowsRemoval else {
            return [
                StoreFinding(
                    .warning,
                    "\(fact): after a crash in between a row may be marked without an entry in the ledger, "
                        + "so that undo does not find it, or have an entry without its mark")
            ]
        }
        return [
            StoreFinding(
                .failure(.configuration),
                "\(fact): after a crash in between rows would be gone without a before-image, and undo could "
                    + "not restore them; set policy.action to mark, or keep the rows in the engine and on "
                    + "the server of the ledger")
        ]
    }
}
