// How far back the ledger tells what the table was. A purge drops old entries, but not simply those
// before a time: entries of a feed that was continued later stay, whatever their age. The numbers
// of the transactions (`ChangeOrder`) have no gaps when they are given out, and a purge drops a number
// with its last entry. So the ledger is complete from the first number of the last run of numbers
// without a gap, and the time of that number is the earliest for which the past is known.
//
// A purge keeps the last number, even without entries. Its time tells when the last change was, so
// the past is known after it, whatever the setting of the purge was. Purges of older versions dropped
// it too. Then nothing tells when the last change was, and only the present is known.

import APNsProtocol
import Database
import TokenHygiene

/// The part of the past that the ledger knows.
package struct LedgerReach: Hashable, Sendable {
    /// The earliest time for which the ledger has every later change; nil: it has all changes ever
    /// made.
    package let earliest: EpochMilliseconds?

    /// Whether the ledger has every change after a time.
    package func includes(_ time: EpochMilliseconds) -> Bool {
        earliest.map { time >= $0 } ?? true
    }
}

extension TokenTable {
    /// How far back the ledger reaches. `now` is the database's time.
    ///
    /// - Throws: any failure of reading.
    package func ledgerReach(now: EpochMilliseconds) throws(StoreFailure) -> LedgerReach {
        let last = try ChangeStarts(session: session).lastNumber()
        // A purge adds the counts of the checkpoints that it drops to the totals of days.
        let canTell = try session.canRead(PushsweepTable.day.name, "day")
        return try retries.retrying("looking for the oldest change of the ledger") {
            () throws(SQLFailure) in
            let dialect = connection.dialect
            let first = try connection.query(
                "SELECT c.number, c.committed_at, (SELECT MAX(number) FROM pushsweep_commit) "
                    + "FROM pushsweep_commit c WHERE c.number > 0 AND (c.number = 1 OR NOT EXISTS "
                    + "(SELECT 1 FROM pushsweep_commit p WHERE p.number > 0 "
                    + "AND p.number = c.number - 1)) ORDER BY c.number DESC LIMIT 1")
            guard first.count > 0, let newest = first[0, 2].integer, newest >= last else {
                // No number was ever given out, or the last one was dropped.
                if last == 0, try !hasOlderEntries() { return LedgerReach(earliest: nil) }
                return LedgerReach(earliest: now)
            }
            let time = dialect.ownTime("committed_at").mark(first[0, 1]) ?? now
            for number in [newest, first[0, 0].integer ?? newest] {
                guard let lost = try timeOfLoss(number) else { continue }
                // What was before the number is not known at its own time either.
                return LedgerReach(earliest: lost.advanced(by: 1))
            }
            guard first[0, 0].integer == 1, try !hasOlderEntries(), canTell,
                try connection.query("SELECT 1 FROM pushsweep_day LIMIT 1").count == 0
            else {
                return LedgerReach(earliest: time)
            }
            return LedgerReach(earliest: nil)
        }
    }

    /// The time of a number that a purge left without all its entries; nil where it has them.
    private func timeOfLoss(_ number: Int64) throws(SQLFailure) -> EpochMilliseconds? {
        let rows = try connection.query(
            "SELECT c.committed_at, c.last_seq - c.first_seq + 1, (SELECT COUNT(*) "
                + "FROM pushsweep_change e WHERE e.run = c.run AND e.feed = c.feed "
                + "AND e.part = c.part AND e.seq BETWEEN c.first_seq AND c.last_seq) "
                + "FROM pushsweep_commit c WHERE c.number = ?", [.integer(number)])
        guard rows.count > 0, rows[0, 1].integer != rows[0, 2].integer else { return nil }
        return connection.dialect.ownTime("committed_at").mark(rows[0, 0])
    }

    /// Whether the ledger has entries of versions that did not number them.
    private func hasOlderEntries() throws(SQLFailure) -> Bool {
        try connection.query(
            "SELECT 1 FROM pushsweep_change WHERE seq >= 0 AND state IS NULL "
                + "AND action NOT LIKE 'side-%' LIMIT 1"
        ).count > 0
    }
}
