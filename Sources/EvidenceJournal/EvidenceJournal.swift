// The record of runs of one host: what ran, when, by whom, and how it ended. It is an SQLite database with
// synchronous=FULL and the rollback journal in PERSIST mode.

import Database
import Encodings

/// The run history of one host. An instance belongs to the thread that uses it and to the process that holds the state
/// folder.
package final class EvidenceJournal {
    private let database: SQLiteConnection
    /// The failure, once damage was found. The file has another name by then, and SQLite's later
    /// writes beside the old name would count as part of the next journal.
    private var damage: JournalFailure?
    /// The state folder of the journal.
    package let folder: StateFolder

    /// Opens the journal, creates it on first use, and sets aside a damaged one. Every other call
    /// also sets the journal aside when it finds damage, and every call after that throws the same
    /// failure.
    ///
    /// - Throws: `damaged` after setting a file aside, or when the file belongs to another program; `otherBuild` for
    ///   one with lists; `cannotCreate`, `inputOutput`.
    package init(in folder: StateFolder) throws(JournalFailure) {
        self.folder = folder
        let path = folder.file(StateFolder.journalName)
        let real = folder.realFile(StateFolder.journalName)
        let header = try folder.makePrivate(StateFolder.journalName)
        try Self.checkOwner(of: path, header)
        do {
            do {
                database = try Self.open(real, isNew: header.isEmpty)
            } catch let error as SQLFailure where error.isDamage {
                // SQLite also reports damage when the disk cannot read a page (SQLITE_IOERR_CORRUPTFS).
                // A good journal must not be set aside for that. So the whole file is read again,
                // directly and by SQLite.
                try folder.ensureReadable(StateFolder.journalName)
                database = try Self.open(real, isNew: header.isEmpty)
            }
        } catch let error as SQLFailure where error.isDamage {
            throw folder.failure(ofDamage: error.message)
        } catch {
            throw .wrapping(error, while: "opening the journal \(path)")
        }
    }

    /// Opens for reading the journal of a folder in which another run may be at work. Nothing is
    /// changed there. A journal of another version, or with a transaction to roll back, cannot be
    /// read.
    ///
    /// - Throws: `inputOutput`; `permission` when one of its files is a link or belongs to another
    ///   user.
    package init(reading folder: StateFolder) throws(JournalFailure) {
        self.folder = folder
        let path = folder.file(StateFolder.journalName)
        for ending in ["", "-journal", "-wal", "-shm"] {
            try folder.folder.check(StateFolder.journalName + ending)
        }
        database = SQLiteConnection(
            path: folder.realFile(StateFolder.journalName), .reading, busySeconds: 1)
        do {
            try database.connect()
            guard try JournalSchema.isThere(database) else { throw Refusal.otherLayout }
        } catch {
            throw .wrapping(error, while: "reading the journal \(path)")
        }
    }

    /// Refuses the database of another program before SQLite opens it. Setting it aside would break
    /// that program, and using it would mix its tables with ours.
    private static func checkOwner(of path: String, _ header: [UInt8]) throws(JournalFailure) {
        // The application ID is at byte 68, big-endian (SQLite file format, 1.3). SQLite itself
        // judges a file without the SQLite header, after it has rolled back a transaction.
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

    private static func open(_ path: String, isNew: Bool) throws -> SQLiteConnection {
        let database = SQLiteConnection(
            path: path, .existing, busySeconds: 10,
            """
            PRAGMA page_size = 16384;
            PRAGMA journal_mode = PERSIST;
            PRAGMA synchronous = FULL;
            PRAGMA journal_size_limit = 1048576;
            PRAGMA trusted_schema = OFF;
            """)
        try database.connect()
        // The first page has our application ID from its first byte on, since a file without it is one
        // of another program.
        if try isNew || database.query("PRAGMA page_count").scalar?.count == 0 {
            try database.run("PRAGMA application_id = \(JournalSchema.applicationID)")
        }
        try JournalSchema.dropLists(database, of: path)
        if try !JournalSchema.isThere(database) {
            try database.transaction { try database.run(JournalSchema.tables) }
        }
        return database
    }

    /// Whether SQLite finds no fault in the whole file, its indexes included, once the disk can read
    /// all of it.
    ///
    /// - Throws: failures that prevent the check. They do not prove damage.
    private func isSound(_ doing: String) throws(JournalFailure) -> Bool {
        do {
            return try database.query("PRAGMA integrity_check(1)").scalar?.text == "ok"
        } catch {
            if error.isDamage { return false }
            throw .wrapping(error, while: "checking the journal after \(doing)")
        }
    }

    /// Runs a body on the database and wraps its errors. SQLite finds a damaged page only when it
    /// reads the page, which may be long after opening. Then the file is set aside as it would have
    /// been at opening, and this journal is not used any more.
    @discardableResult
    func perform<T>(
        _ doing: String, _ work: (SQLiteConnection) throws -> T
    ) throws(JournalFailure) -> T {
        if let damage { throw damage }
        do {
            return try work(database)
        } catch let error as SQLFailure where error.isDamage {
            // As at opening: a page that the disk cannot read is not damage of the file.
            try folder.ensureReadable(StateFolder.journalName)
            if try isSound(doing) { throw .wrapping(error, while: doing) }
            database.close()
            let failure = folder.failure(ofDamage: "\(doing): \(error.message)")
            damage = failure
            throw failure
        } catch {
            throw .wrapping(error, while: doing)
        }
    }
}

extension SQLFailure {
    /// Whether the error comes from the file's content, and not from a disk, a permission or a lock:
    /// SQLITE_CORRUPT or SQLITE_NOTADB.
    fileprivate var isDamage: Bool { code == 11 || code == 26 }
}
