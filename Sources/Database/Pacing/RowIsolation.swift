// One statement changes hundreds of rows, and one row that cannot be changed makes it fail: a trigger
// signals an error, a foreign key protects the row, a value does not fit. The chunk is then rolled back and
// redone row by row, and refused rows are left out and named. The next chunk is done together again.
//
//   together --refused, or twice not found--> row by row --commit--> together
//
// Two refusals are worse than a failed statement. A trigger of SQLite may end the whole transaction
// (RAISE(ROLLBACK)): the row is remembered and skipped in the next try. A foreign key of SQLite may be
// checked at COMMIT only, which names no row: row by row it is checked after each. If a commit is refused
// all the same, the chunk shrinks until one entry is left, and its rows are refused.
//
// A trigger may also give its SIGNAL the number of a deadlock. A deadlock ends the transaction, a SIGNAL
// does not. So the second try sets a savepoint first. Where the rollback to it succeeds, the row refused.

/// The refused rows of a chunk, over all tries of the chunk. Confined to the store's thread.
package final class RowIsolation {
    /// Whether rows are changed one by one.
    package private(set) var isOn = false
    private var misses = 0
    private var remembered: [String: RowRefusal] = [:]
    private var most: Int?
    private var wantsRetry = false
    /// Whether a statement of the chunk failed with a deadlock.
    private var hadDeadlock = false

    /// Starts without refused rows, with whole chunks.
    package init() {}

    /// The number of entries that the next try may take, at most `entries`.
    func limited(_ entries: Int) -> Int { min(entries, most ?? entries) }

    /// Requests another try, row by row.
    package func isolate() {
        isOn = true
        wantsRetry = true
    }

    /// Records that a statement failed; a failure about a row requests another try, row by row.
    package func note(_ failure: SQLFailure, isAboutRow: Bool = false) {
        if RowRefusal(failure) != nil || isAboutRow && failure.mayBeAboutRow { isolate() }
    }

    /// Runs a statement that changes many rows. A deadlock that did not end the transaction
    /// requests another try, row by row.
    package func watching<R>(
        _ connection: any SQLConnection, _ statement: () throws(SQLFailure) -> R
    ) throws(SQLFailure) -> R {
        if hadDeadlock { try connection.run("SAVEPOINT pushsweep_row") }
        do {
            return try statement()
        } catch {
            guard error.isDeadlock else { throw error }
            if hadDeadlock && isSignal(error, connection) { isolate() }
            hadDeadlock = true
            throw error
        }
    }

    /// Whether a deadlock is the SIGNAL of a trigger, because the transaction is still open. Called
    /// after `SAVEPOINT pushsweep_row`, to which it rolls back.
    package func isSignal(_ failure: SQLFailure, _ connection: any SQLConnection) -> Bool {
        guard failure.isDeadlock else { return false }
        return (try? connection.run("ROLLBACK TO SAVEPOINT pushsweep_row")) != nil
    }

    /// Records that a statement did not find all of its rows. At the first miss another transaction
    /// may have changed a row.
    package func noteMiss() {
        misses += 1
        if misses > 1 && !isOn { isolate() }
    }

    /// Records that the commit of `entries` entries was refused because of `rows`.
    package func noteCommit(_ failure: SQLFailure, entries: Int, rows: [String]) {
        guard let refusal = RowRefusal(failure) else { return }
        if !isOn {
            isOn = true
        } else if entries > 1 {
            most = entries / 2
        } else {
            for row in rows { remembered[row] = refusal }
        }
        wantsRetry = !rows.isEmpty
    }

    /// Remembers a row whose change ended the transaction.
    package func remember(_ refusal: RowRefusal, of row: String) {
        remembered[row] = refusal
        wantsRetry = true
    }

    /// The reason for skipping a row; nil for one that is to be tried.
    package func refusal(of row: String) -> RowRefusal? { remembered[row] }

    /// Whether to try the chunk again at once, because the next try differs from the last one.
    func takesRetry() -> Bool {
        defer { wantsRetry = false }
        return wantsRetry
    }

    /// Returns to whole chunks.
    func committed() {
        isOn = false
        misses = 0
        remembered = [:]
        most = nil
        wantsRetry = false
        hadDeadlock = false
    }
}
