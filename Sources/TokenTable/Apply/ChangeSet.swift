import APNsProtocol
import Database
import Encodings
import TokenHygiene

// A sweep, an undo and the removal after a grace period change rows in the same way. Each chunk is
// one transaction:
//
//   begin, lock the checkpoint and compare it -> lock rows and judge them -> change them
//   -> ledger -> move the checkpoint -> number the entries -> renew the lease -> commit
//
// It does all of this or nothing.

/// A change to one row.
struct RowChange {
    /// `mark`, `advance` or `delete`.
    let verdict: Verdict
    /// The row as it was read.
    let row: MatchedRow
    /// The time of the mark to set; for a removal the time of the evidence.
    let time: EpochMilliseconds
    /// The source of the evidence, where it differs from the ledger's.
    var source: String?
    /// The change of the mark beside the row, of which the row's entry of the ledger tells; nil where none goes with it.
    var beside: TokenMarkChange?
}

/// A row that stays unchanged although the evidence calls for a change.
struct RefusedRow {
    let row: MatchedRow
    let reason: RowRefusal
    /// The time of the evidence.
    let time: EpochMilliseconds
}

/// The changes of one transaction to rows and to `pushsweep_invalid`, and the rows that refuse a
/// change.
struct ChangeSet {
    var rows: [RowChange] = []
    /// Changes of marks that have an entry of the ledger of their own.
    var tokenMarks: [TokenMarkChange] = []
    /// All changes of marks, each token once.
    var allTokenMarks: [TokenMarkChange] {
        var last: DeviceToken?
        return tokenMarks
            + rows.compactMap(\.beside).filter { change in
                // The rows of a token follow one another.
                defer { last = change.token }
                return change.token != last
            }
    }
    var refused: [RefusedRow] = []

    /// The number of ledger entries that the changes take, without those of refused rows.
    var count: Int { rows.count + tokenMarks.count }

    /// Moves the changes that the database refused, by their place, to the refused rows. Returns
    /// them in order.
    mutating func refuse(at places: [Int: RowRefusal]) -> [RowChange] {
        guard !places.isEmpty else { return [] }
        let all = rows
        rows = all.indices.filter { places[$0] == nil }.map { all[$0] }
        return all.indices.compactMap { place in
            guard let reason = places[place] else { return nil }
            refused.append(RefusedRow(row: all[place].row, reason: reason, time: all[place].time))
            return all[place]
        }
    }
}

/// Whether a transaction found its layout outdated. Confined to the store's thread.
private final class LayoutWatch {
    var isOutdated = false
}

/// The part that is the same in every transaction that changes rows: its begin at a checkpoint, the
/// writer, and its commit under the lease.
struct ChangeTransaction {
    /// Reads the rows to change.
    let lookup: RowLookup
    let writer: ChangeWriter
    /// Shared with the loop that tries the transactions.
    let isolation: RowIsolation
    /// The lease that every transaction requires to be in force; nil where there is none.
    let lease: Lease?
    private let watch = LayoutWatch()

    var connection: any SQLConnection { lookup.connection }

    /// Whether the layout was found outdated; see `isOutdated(by:)`.
    var isOutdated: Bool { watch.isOutdated }

    /// Whether changes remove rows whose table has other columns than its layout: their images would lack
    /// what was added meanwhile. Asked with the rows locked, so that no column comes or goes until the
    /// transaction ends.
    func isOutdated(by changes: [RowChange]) throws(SQLFailure) -> Bool {
        guard changes.contains(where: { $0.verdict == .delete }) else { return false }
        let layout = lookup.layout
        let forms = try Catalog(connection: connection).columnForms(of: layout.table)
        watch.isOutdated = forms.map(ExactText.init) != layout.columnForms.map(ExactText.init)
        return watch.isOutdated
    }

    /// Begins, and requires that the checkpoint is still where the last chunk left it.
    ///
    /// - Throws: a conflict if it is not, because another run changes the same rows.
    func begin(ifUnmoved isUnmoved: () throws(SQLFailure) -> Bool) throws(SQLFailure) {
        try connection.begin()
        guard try isUnmoved() else {
            throw SQLFailure(
                kind: .conflict, code: 0, message: "the checkpoint was moved by another run")
        }
    }

    /// Runs `moving`, which moves the checkpoint and changes marks of the side table, numbers the
    /// entries written (see `ChangeOrder`), renews the lease and commits. If only the commit of the
    /// `entries` is refused, the failure does not name the row at fault; `rows` are the changed ones, as
    /// the ledger spells them.
    func commit(
        _ written: [LedgerRange], entries: Int, rows: () -> [ExactText],
        moving: () throws(SQLFailure) -> Void
    ) throws(SQLFailure) {
        try moving()
        try ChangeOrder(connection: connection).number(written)
        try lease?.renew(connection)
        do {
            try connection.commit()
        } catch {
            isolation.noteCommit(error, entries: entries, rows: rows())
            throw error
        }
    }

    /// The rows of a set, as the ledger spells them.
    func names(_ set: ChangeSet) -> [ExactText] { set.rows.map { lookup.name(of: $0.row) } }
}
