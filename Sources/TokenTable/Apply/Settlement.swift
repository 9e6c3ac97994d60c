// A checkpoint with a pending chunk (see ApartConnection) says: these entries are in the ledger, and
// their rows are changed, or not, or some of them. The rows tell which. Each entry has the row's state
// before and after the change, so it is one of three:
//
//   done   the row has the state after; the entry stays
//   open   the row can still be changed as the entry says; it is changed, with a new before-image
//   void   the device registered since, or another program changed or removed the row; the entry goes
//
// A row without a time of registration that looks open may be that of a device that came back. It is
// left, and counted and named as one that refused: a person who replays the feed has it judged anew.
//
// The entries that stay and those of the changes made now are written again without a gap, the rows
// are committed, and the checkpoint moves to where the chunk would have taken it. This is a chunk like
// any other, so a second failure leaves a pending chunk again. The rows are read with locks: a run that
// was suspended with uncommitted changes is waited for, and none of its changes come later.
//
// What an undo has left open is not made up for here: its entry goes, and the undo does it again.
//
// A table that was converted meanwhile, so that its rows commit with the ledger now, is settled by the
// same steps in one transaction. A chunk of a table with another name is never settled with this one's
// rows: the keys could name other rows there. It is reported instead; see `PendingFeed`.

import APNsProtocol
import Database
import TokenHygiene

/// Finishes the pending chunks of feeds whose rows commit apart from the ledger.
struct Settlement {
    private let lookup: RowLookup
    /// Reads every column, which the account of a run that only marks may not.
    private let wholeLookup: RowLookup
    private let isolation: RowIsolation
    private let lease: Lease?

    /// Prepares for one table. `isolation` is shared with the loop that tries the transactions.
    init(
        _ table: TokenTable, lease: Lease?, _ isolation: RowIsolation
    ) throws(StoreFailure) {
        let layout = try table.layout()
        lookup = try RowLookup(layout, table.connection, nil, wholeRows: false)
        wholeLookup = try RowLookup(layout, table.connection, nil, wholeRows: true)
        self.isolation = isolation
        self.lease = lease
    }

    /// Settles the pending chunk of a checkpoint, in transactions of its own; false where none is
    /// pending.
    func settle(_ checkpoint: FeedCheckpoint) throws(SQLFailure) -> Bool {
        guard try checkpoint.hasPending() else { return false }
        try lookup.connection.begin()
        guard let pending = try checkpoint.pending() else {
            lookup.connection.rollBack()
            return false
        }
        let feed = PendingFeed(
            feed: checkpoint.feed, part: checkpoint.part.index, pending.chunk, began: pending.began)
        guard let chunk = pending.chunk, feed.obstacle(lookup.layout) == nil else {
            // The sentence is its obstacle. It has names of tables and columns, each of at most 64
            // characters but the key's, and the statements in it must be whole.
            throw SQLFailure(
                kind: .configuration, code: 0, message: feed.sentence(lookup.layout), longest: 2_000
            )
        }
        try checkpoint.withdraw()
        let entries = try SettledEntry.read(chunk, in: checkpoint, lookup.layout)
        let work = SettlementTransaction(
            lookup: entries.contains(where: \.isAboutWholeRow) ? wholeLookup : lookup,
            isolation: isolation, lease: lease, pending: pending, chunk: chunk)
        var findings = try work.examine(entries)
        try work.redo(&findings)
        work.examineTokenMarks(entries, &findings)
        try work.commit(findings)
        return true
    }
}

extension TokenTable {
    /// Finishes what failed runs left half done in the token table. To be called at the start of a run
    /// that changes rows.
    ///
    /// - Returns: the pending chunks of other tables, which nobody may be about to settle.
    /// - Throws: any failure of the database; what is settled stays so.
    @discardableResult
    package func settlePending(lease: Lease?) throws(StoreFailure) -> [PendingFeed] {
        let table = try layout().nameInLedger
        var others: [PendingFeed] = []
        for feed in try pendingFeeds() {
            if feed.table == table {
                try settle(feed.feed, part: feed.part, lease: lease)
            } else if !feed.isRecent {
                others.append(feed)
            }
        }
        return others
    }

    /// Settles the pending chunk of one part of a feed; does nothing where there is none.
    func settle(_ feed: String, part: Int, lease: Lease?) throws(StoreFailure) {
        let checkpoint = FeedCheckpoint(
            feed: feed, part: TokenRange(index: part, count: part + 1), connection: connection)
        let isolation = RowIsolation(connection)
        let settlement = try Settlement(self, lease: lease, isolation)
        var loop = session.chunkLoop(isolation)
        _ = try loop.commit(
            after: false, doing: "settling the pending chunk of feed \(feed)",
            checkpointOf: "feed \(feed)"
        ) { (_) throws(SQLFailure) in
            _ = try settlement.settle(checkpoint)
            return .committed(true, entries: 0, bytes: 0)
        } checkpoint: { () throws(SQLFailure) in
            try !checkpoint.hasPending()
        }
    }
}
