// A feed may name a token more than once and only its latest time counts; a feed may also hold
// more tokens than memory should. So the tuples are laid into a scratch table and SQLite sorts and
// groups them, spilling to disk by itself. The order by token matters twice: it makes neighbours
// in the user's token index neighbours in time, and it lets an interrupted application go on after
// the last token done.
//
// The scratch file can be made again from the journal at any moment, so it is written without
// journal or sync, and is removed when it is no longer needed.

import APNsProtocol
import Foundation
import GRDB
import TokenHygiene

/// The evidence of one feed, each token once, in token order, on disk.
package final class EvidenceTable {
    private static let tuplesPerInsert = 256

    private let database: DatabaseQueue
    private let path: String
    private var waiting: [(token: DeviceToken, time: EpochMilliseconds)] = []

    /// Makes an empty table in the state folder; an abandoned one is replaced.
    package init(in folder: StateFolder) throws(JournalFailure) {
        path = folder.file("scratch.sqlite")
        unlink(path)
        var configuration = Configuration()
        configuration.prepareDatabase { db in
            try db.execute(
                sql: """
                    PRAGMA page_size = 16384;
                    PRAGMA journal_mode = OFF;
                    PRAGMA synchronous = OFF;
                    PRAGMA locking_mode = EXCLUSIVE;
                    PRAGMA cache_size = -4096;
                    CREATE TABLE statement (token BLOB NOT NULL, time INTEGER NOT NULL);
                    CREATE TABLE evidence (
                        token BLOB NOT NULL PRIMARY KEY, time INTEGER NOT NULL,
                        statements INTEGER NOT NULL) WITHOUT ROWID;
                    BEGIN;
                    """)
        }
        configuration.allowsUnsafeTransactions = true
        do {
            database = try DatabaseQueue(path: path, configuration: configuration)
        } catch {
            throw .wrapping(error, while: "making the scratch table \(path)")
        }
        waiting.reserveCapacity(Self.tuplesPerInsert)
    }

    deinit { unlink(path) }

    /// Lays a statement about a token into the table.
    package func add(_ token: DeviceToken, _ time: EpochMilliseconds) throws(JournalFailure) {
        waiting.append((token, time))
        if waiting.count == Self.tuplesPerInsert { try insertWaiting() }
    }

    private func insertWaiting() throws(JournalFailure) {
        guard !waiting.isEmpty else { return }
        defer { waiting.removeAll(keepingCapacity: true) }
        try perform { [waiting] db in
            let places = Array(repeating: "(?,?)", count: waiting.count).joined(separator: ",")
            let statement = try db.cachedStatement(
                sql: "INSERT INTO statement VALUES \(places)")
            var values: [DatabaseValue] = []
            values.reserveCapacity(waiting.count * 2)
            for (token, time) in waiting {
                values.append(Data(token.bytes).databaseValue)
                values.append(time.rawValue.databaseValue)
            }
            try statement.execute(arguments: StatementArguments(values))
        }
    }

    /// Groups what was added. Call once, after the last `add`; returns the number of tokens.
    package func seal() throws(JournalFailure) -> Int {
        try insertWaiting()
        return try perform { db in
            try db.execute(
                sql: """
                    INSERT INTO evidence
                        SELECT token, MAX(time), COUNT(*) FROM statement GROUP BY token
                        ORDER BY token;
                    DROP TABLE statement;
                    """)
            return try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM evidence") ?? 0
        }
    }

    /// The evidence after a token, or all of it.
    package func stream(after position: DeviceToken?) -> Stream {
        Stream(table: self, position: position.map { Data($0.bytes) } ?? Data())
    }

    private func perform<T>(_ work: (Database) throws -> T) throws(JournalFailure) -> T {
        do {
            return try database.unsafeReentrantWrite(work)
        } catch {
            throw .wrapping(error, while: "sorting the feed in \(path)")
        }
    }

    /// A walk over the table.
    package struct Stream: EvidenceStream {
        fileprivate let table: EvidenceTable
        fileprivate var position: Data

        /// The next at most `limit` tokens; throws `JournalFailure`.
        package mutating func next(_ limit: Int) throws -> [TokenEvidence] {
            let after = position
            let batch = try table.perform { db in
                try Row.fetchAll(
                    db.cachedStatement(
                        sql: """
                            SELECT token, time, statements FROM evidence WHERE token > ?
                            ORDER BY token LIMIT ?
                            """), arguments: [after, limit]
                ).compactMap(TokenEvidence.init)
            }
            if let last = batch.last { position = Data(last.token.bytes) }
            return batch
        }
    }
}

extension TokenEvidence {
    fileprivate init?(_ row: Row) {
        let bytes: Data = row[0]
        guard let token = bytes.withUnsafeBytes({ DeviceToken($0) }) else { return nil }
        self.init(token: token, time: EpochMilliseconds(row[1]), statements: row[2])
    }
}
