// The gateway clears its list while we read it: from that moment our copy is the only one. So every
// byte goes to the journal, raw and synced, before anybody looks at it; decoding, judging and
// applying work from the journal and can be repeated from it after a crash.
//
// A feed is `reading` while the run that opened it lives, `pending` once reading has ended in
// whatever way, then `applied` or `held`. The word "applied" is first written by the database in
// the transaction of the last row it changes; here it follows after that commit. A crash between
// the two is found by asking the database, not by guessing.
//
// SQLite is the journal: a feed chunk is one row in one transaction with synchronous=FULL. The
// rollback journal in PERSIST mode writes a chunk once where a write-ahead log writes it twice,
// and 16 KiB pages suit chunks of up to 1 MiB.

import APNsProtocol
import Foundation
import GRDB
import TokenHygiene

/// The durable memory of one host: captured feeds, quarantine and run history. Belongs to the
/// thread that uses it and to the process that holds the state folder.
package final class EvidenceJournal {
    /// Days for which the bytes of an applied feed are kept, as long as the change ledger.
    package static let retentionDays: Int64 = 30

    let database: DatabaseQueue
    /// The folder it lives in.
    package let folder: StateFolder

    /// Opens the journal, creates it on first use, and sets aside a damaged one.
    ///
    /// - Throws: `damaged` after setting a file aside, `cannotCreate`, `inputOutput`.
    package init(in folder: StateFolder) throws(JournalFailure) {
        self.folder = folder
        let path = folder.file("journal.sqlite")
        do {
            database = try Self.open(path)
        } catch let error as DatabaseError
            where error.resultCode == .SQLITE_NOTADB || error.resultCode == .SQLITE_CORRUPT
        {
            throw Self.setAside(path, because: error.message ?? "damaged")
        } catch {
            throw .wrapping(error, while: "opening the journal \(path)")
        }
    }

    private static func open(_ path: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        configuration.prepareDatabase { db in
            try db.execute(
                sql: """
                    PRAGMA page_size = 16384;
                    PRAGMA journal_mode = PERSIST;
                    PRAGMA synchronous = FULL;
                    PRAGMA journal_size_limit = 1048576;
                    PRAGMA trusted_schema = OFF;
                    """)
        }
        umask(0o077)
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        try JournalSchema.migrator.migrate(queue)
        return queue
    }

    private static func setAside(_ path: String, because cause: String) -> JournalFailure {
        let kept = path + ".damaged-\(Int(Date().timeIntervalSince1970))"
        for suffix in ["", "-journal"] where access(path + suffix, F_OK) == 0 {
            rename(path + suffix, kept + suffix)
        }
        return JournalFailure(
            .damaged,
            "the journal \(path) cannot be read (\(cause)); it was set aside as \(kept) and may "
                + "hold feeds that were not applied: keep it, and run again to start a new one")
    }

    /// Does work on the database and words its errors.
    func perform<T>(
        _ doing: String, _ work: (Database) throws -> T
    ) throws(JournalFailure) -> T {
        do {
            return try database.inDatabase(work)
        } catch {
            throw .wrapping(error, while: doing)
        }
    }

    /// Turns feeds whose run ended without a word into pending ones. Call under the lock, before
    /// reading; returns how many there were.
    @discardableResult
    package func recoverInterrupted(at now: EpochMilliseconds) throws(JournalFailure) -> Int {
        try perform("recovering feeds of an interrupted run") { db in
            try db.execute(
                sql: "UPDATE feed SET state = ?, end = ?, closed = ? WHERE state = ?",
                arguments: [
                    FeedState.pending.rawValue, CaptureEnd.crashed.rawValue, now.rawValue,
                    FeedState.reading.rawValue,
                ])
            return db.changesCount
        }
    }

    /// Drops the bytes of applied feeds older than the retention, except those with quarantined
    /// bytes, which a person has to look at first.
    package func purge(at now: EpochMilliseconds) throws(JournalFailure) {
        let oldest = now.advanced(by: -Self.retentionDays * 86_400_000)
        try perform("dropping old feeds from the journal") { db in
            try db.execute(
                sql: """
                    DELETE FROM chunk WHERE feed IN (
                        SELECT id FROM feed WHERE state = ? AND closed < ?
                        AND id NOT IN (SELECT feed FROM quarantine))
                    """, arguments: [FeedState.applied.rawValue, oldest.rawValue])
        }
    }
}
