import Database
import TokenHygiene

// The ledger has no order that a follower could use. Its rows become visible when their transaction
// commits, and neither run, part, sequence number nor `changed_at` follow the order of commits: a
// transaction that wrote its entries first may commit last. A follower that remembers the latest
// entry seen would miss the entries of that transaction.
//
// So every transaction that writes entries takes a number, as its last step before the lease:
//
//   rows -> ledger -> checkpoint -> number: UPDATE the counter, INSERT the number -> lease -> commit
//
// The counter is the row of `pushsweep_commit` whose number is 0; its `last_seq` is the last number
// taken, its `run` the identity of the database. Why a reader that sees number N sees all numbers below N, now and for ever:
//
// 1. The UPDATE of the counter locks its row until the transaction ends. So the transaction that
//    takes N + 1 runs its UPDATE after the transaction of N has ended.
// 2. If that transaction committed, its row is visible to every snapshot from then on, before the
//    lock is free. If it rolled back, the counter went back with it, and N is given out again.
//    So numbers have no gaps, and no number below a visible one is filled later.
// 3. A SELECT under READ COMMITTED reads one snapshot. So one SELECT over the numbers sees a whole
//    beginning of them, 1 to N, whatever the writers do. (SQLite has one writer at a time.)
// 4. The entries of a number committed together with it. A SELECT that follows sees them all,
//    until a purge drops them. `first_seq` and `last_seq` say how many they are.
//
// On a Galera cluster two nodes may take a number at the same time. Both write the counter's row,
// so certification refuses one of them, and its chunk is tried again.
//
// A chunk that is tried again was rolled back with its number. A commit whose answer was lost is
// recognized by the checkpoint, as before, so no chunk has two numbers. A chunk without changes
// takes none, and costs no statement here; others cost two.
//
// The lock is held for the lease's UPDATE and the COMMIT only. Sweeps wait for each other there
// anyway, at the lease. Nothing is locked after it except the lease, by all in this order.

/// Numbers the transactions that write the ledger, in the order of their commits.
struct ChangeOrder {
    let connection: any SQLConnection

    private static let columns =
        "number, run, part, app, environment, source, first_seq, last_seq, committed_at"

    /// Takes a number for each range that has entries. To be called after all other changes of the
    /// transaction, because other transactions wait from here to its end.
    ///
    /// - Throws: a conflict where another transaction takes the very first number at the same time.
    func number(_ ranges: [LedgerRange]) throws(SQLFailure) {
        for range in ranges where range.count > 0 { try number(range) }
    }

    private func number(_ range: LedgerRange) throws(SQLFailure) {
        if try !count() {
            try insertCounter("")
            _ = try count()
        }
        // The time is taken after the lock, so it follows the order of the numbers.
        _ = try connection.execute(
            "INSERT INTO pushsweep_commit (\(Self.columns)) "
                + "SELECT last_seq, \(placeholders(7)), \(connection.dialect.now) "
                + "FROM pushsweep_commit WHERE number = 0",
            [
                .text(range.part.run), range.part.value, .text(range.partition.app),
                .text(range.partition.environment),
                .text(range.source), .integer(range.first), .integer(range.last),
            ])
    }

    /// Increases the counter and keeps it locked; false where it does not exist yet.
    private func count() throws(SQLFailure) -> Bool {
        try connection.changesRow(
            "UPDATE pushsweep_commit SET last_seq = last_seq + 1 WHERE number = 0", []
        ) { () throws(SQLFailure) in
            try connection.query("SELECT 1 FROM pushsweep_commit WHERE number = 0").count > 0
        }
    }

    /// The identity of the database; nil where it has none.
    func identity() throws(SQLFailure) -> String? {
        let found = try connection.query("SELECT run FROM pushsweep_commit WHERE number = 0")
        guard let name = found.scalar?.text, !name.utf8.isEmpty else { return nil }
        return name
    }

    /// The same, which is `new` where there is none; each statement stands for itself.
    ///
    /// - Throws: a conflict where another run makes the counter at the same time.
    func identity(orElse new: String) throws(SQLFailure) -> String {
        if let known = try identity() { return known }
        let changed = try connection.execute(
            "UPDATE pushsweep_commit SET run = ? WHERE number = 0 AND run = ''", [.text(new)])
        if changed == 0, try identity() == nil { try insertCounter(new) }
        // Another run may have been faster, under the lease of another table.
        return try identity() ?? new
    }

    /// Makes the counter, which continues after the numbers that exist, with the identity of the database.
    private func insertCounter(_ identity: String) throws(SQLFailure) {
        do throws(SQLFailure) {
            _ = try connection.execute(
                "INSERT INTO pushsweep_commit (\(Self.columns)) "
                    + "SELECT 0, ?, 0, '', '', '', 0, COALESCE(MAX(number), 0), "
                    + "\(connection.dialect.now) FROM pushsweep_commit", [.text(identity)])
        } catch {
            guard error.isDuplicate else { throw error }
            throw SQLFailure(
                kind: .conflict, code: error.code,
                message: "another run made the counter of changes at the same time")
        }
    }
}
