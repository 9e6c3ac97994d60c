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

    private let database: DatabaseQueue
    /// Set once damage was met: the file has another name by then, and what SQLite would still write
    /// beside the old one would be taken for part of the next journal.
    private var damage: JournalFailure?
    /// The folder it lives in.
    package let folder: StateFolder

    /// Opens the journal, creates it on first use, and sets aside a damaged one. Any other call does so
    /// too where it meets damage, and every call after it throws the same.
    ///
    /// - Throws: `damaged` after setting a file aside, or where the file is another program's;
    ///   `cannotCreate`, `inputOutput`.
    package init(in folder: StateFolder) throws(JournalFailure) {
        self.folder = folder
        let path = folder.file(StateFolder.journalName)
        let real = folder.realFile(StateFolder.journalName)
        let header = try folder.makePrivate(StateFolder.journalName)
        try Self.checkOwner(of: path, header)
        do {
            database = try Self.open(real, isNew: header.isEmpty)
        } catch let error as DatabaseError where error.isDamage {
            // SQLite calls it damage too when the disk does not give a page back
            // (SQLITE_IOERR_CORRUPTFS). A good journal shall not be set aside for that, so the disk
            // is asked once more, by ourselves and by SQLite.
            try folder.ensureReadable(StateFolder.journalName)
            do {
                database = try Self.open(real, isNew: header.isEmpty)
            } catch let error as DatabaseError where error.isDamage {
                throw folder.failure(ofDamage: error.message ?? "damaged")
            } catch {
                throw .wrapping(error, while: "opening the journal \(path)")
            }
        } catch {
            throw .wrapping(error, while: "opening the journal \(path)")
        }
    }

    /// Opens the journal of a folder in which somebody else may be at work, to read. Nothing is changed
    /// there: one of another version, or with a transaction to be rolled back, cannot be read.
    ///
    /// - Throws: `inputOutput`; `permission` where a file of it is a link or somebody else's.
    package init(reading folder: StateFolder) throws(JournalFailure) {
        self.folder = folder
        let path = folder.file(StateFolder.journalName)
        for ending in ["", "-journal", "-wal", "-shm"] {
            try folder.folder.check(StateFolder.journalName + ending)
        }
        var configuration = Configuration()
        configuration.readonly = true
        configuration.busyMode = .timeout(1)
        do {
            database = try DatabaseQueue(
                path: folder.realFile(StateFolder.journalName), configuration: configuration)
            let isOurs = try database.read { db in
                try JournalSchema.migrator.hasCompletedMigrations(db)
                    && !JournalSchema.migrator.hasBeenSuperseded(db)
            }
            guard isOurs else {
                throw JournalFailure(
                    .inputOutput, "reading the journal \(path): it is of another version")
            }
        } catch let error as JournalFailure {
            throw error
        } catch {
            throw .wrapping(error, while: "reading the journal \(path)")
        }
    }

    /// Journals set aside as damaged, by file name. They may hold feeds that were not applied.
    package var damagedFiles: [String] {
        get throws(JournalFailure) { try folder.damagedFiles }
    }

    /// Refuses the database of another program before SQLite has touched it: to set it aside would
    /// break that program, and to use it would mix its tables with ours.
    private static func checkOwner(of path: String, _ header: [UInt8]) throws(JournalFailure) {
        // The application's number stands at byte 68, big-endian (SQLite file format, 1.3). What
        // is no SQLite file at all is for SQLite to judge, after it has rolled back a transaction.
        guard header.count >= 72, header.starts(with: Array("SQLite format 3\0".utf8)) else {
            return
        }
        let number = header[68..<72].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        guard number != JournalSchema.applicationID else { return }
        throw JournalFailure(
            .damaged,
            "opening the journal \(path): it is an SQLite database of another program (application "
                + "id \(number)) and was left alone; move it away, or name another folder in state:"
        )
    }

    private static func open(_ path: String, isNew: Bool) throws -> DatabaseQueue {
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
            // Before the first table: a run killed in between must leave a file that is ours.
            if try isNew || Int.fetchOne(db, sql: "PRAGMA page_count") == 0 {
                try db.execute(sql: "PRAGMA application_id = \(JournalSchema.applicationID)")
            }
        }
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        try JournalSchema.migrator.migrate(queue)
        return queue
    }

    /// Whether SQLite finds no fault with the whole file, its indexes included, now that the disk gives
    /// all of it back.
    ///
    /// - Throws: what else keeps it from looking; that is no word about the file.
    private func isSound(_ doing: String) throws(JournalFailure) -> Bool {
        do {
            return try database.inDatabase { db in
                try String.fetchOne(db, sql: "PRAGMA integrity_check(1)") == "ok"
            }
        } catch let error as DatabaseError where error.isDamage {
            return false
        } catch {
            throw .wrapping(error, while: "checking the journal after \(doing)")
        }
    }

    /// Does work on the database and words its errors. A page that is damaged is met only when it is
    /// read, which may be long after opening; then the file is set aside as it would have been there,
    /// and nothing more is done with this journal.
    func perform<T>(
        _ doing: String, _ work: (Database) throws -> T
    ) throws(JournalFailure) -> T {
        if let damage { throw damage }
        do {
            return try database.inDatabase(work)
        } catch let error as DatabaseError where error.isDamage {
            // As at opening: a disk that does not give a page back is no damage of the file.
            try folder.ensureReadable(StateFolder.journalName)
            if try isSound(doing) { throw .wrapping(error, while: doing) }
            try? database.close()
            let failure = folder.failure(ofDamage: "\(doing): \(error.message ?? "damaged")")
            damage = failure
            throw failure
        } catch {
            throw .wrapping(error, while: doing)
        }
    }

    /// Turns feeds whose run ended without a word into pending ones, and those whose hold was decided
    /// before they were told. Call under the lock, before reading; returns how many were interrupted.
    @discardableResult
    package func recoverInterrupted(at now: EpochMilliseconds) throws(JournalFailure) -> Int {
        try freeFollowers()
        return try perform("recovering feeds of an interrupted run") { db in
            try db.execute(
                sql: "UPDATE feed SET state = ?, end = ?, closed = ? WHERE state = ?",
                arguments: [
                    FeedState.pending.rawValue, CaptureEnd.crashed.rawValue, now.rawValue,
                    FeedState.reading.rawValue,
                ])
            return db.changesCount
        }
    }

    /// Drops the bytes of feeds applied or discarded longer ago than the retention, except those with
    /// quarantined bytes, which a person has to look at first. That there was such a feed stays.
    package func purge(at now: EpochMilliseconds) throws(JournalFailure) {
        let oldest = now.advanced(by: -Self.retentionDays * 86_400_000)
        try perform("dropping old feeds from the journal") { db in
            try db.inTransaction(.immediate) {
                try db.execute(
                    sql: """
                        UPDATE feed SET purged = 1 WHERE state IN (?, ?) AND settled < ? AND purged = 0
                        AND id NOT IN (SELECT feed FROM quarantine)
                        """,
                    arguments: [
                        FeedState.applied.rawValue, FeedState.discarded.rawValue, oldest.rawValue,
                    ])
                if db.changesCount > 0 {
                    try db.execute(
                        sql: """
                            DELETE FROM chunk WHERE feed IN (SELECT id FROM feed WHERE purged = 1)
                            """)
                }
                return .commit
            }
        }
    }
}

extension DatabaseError {
    /// Whether what is in the file is at fault, and not a disk, a right or a lock.
    fileprivate var isDamage: Bool {
        resultCode == .SQLITE_NOTADB || resultCode == .SQLITE_CORRUPT
    }
}
