// A feed may name a token more than once, and only its latest time counts. A feed may also hold more
// tokens than fit in memory. So the tuples go into a scratch table, and SQLite sorts and numbers them
// and spills to disk itself. The order by token has two uses: neighbours in the user's token index
// are processed close together in time, and an interrupted application can continue after the last
// token that it applied.
//
// The scratch file can be made again from the journal at any time. So it is written without journal
// or sync, and is removed after its last use.

import APNsProtocol
import Database
import Encodings
import Glibc
import Synchronization
import TokenHygiene

/// Collects the tuples of a feed, in any order.
package final class EvidenceTable {
    private static let tuplesPerInsert = 256

    private let scratch: ScratchDatabase
    private var waiting: [(token: DeviceToken, time: EpochMilliseconds)] = []

    /// Makes an empty table in the state folder, and replaces an abandoned one. Two tables at the
    /// same time need different names.
    ///
    /// - Throws: `cannotCreate` or `inputOutput`.
    package init(in folder: StateFolder, named name: String = "scratch") throws(JournalFailure) {
        scratch = try ScratchDatabase(in: folder, name + ".sqlite")
        waiting.reserveCapacity(Self.tuplesPerInsert)
    }

    /// Adds a token and the time of its evidence to the table.
    ///
    /// - Throws: `inputOutput`, for example when the disk is full.
    package func add(_ token: DeviceToken, _ time: EpochMilliseconds) throws(JournalFailure) {
        waiting.append((token, time))
        if waiting.count == Self.tuplesPerInsert { try insertWaiting() }
    }

    private func insertWaiting() throws(JournalFailure) {
        guard !waiting.isEmpty else { return }
        defer { waiting.removeAll(keepingCapacity: true) }
        let rows = waiting
        try scratch.perform { db in
            var values: [SQLValue] = []
            values.reserveCapacity(2 * rows.count)
            for row in rows {
                values.append(.bytes(row.token.bytes))
                values.append(.integer(row.time.rawValue))
            }
            _ = try db.execute(
                "INSERT INTO statement VALUES \(commaList("(?, ?)", rows.count))", values)
        }
    }

    /// Groups the added tuples. Call it once, after the last `add`.
    ///
    /// - Throws: `inputOutput`, for example when the disk is full.
    package func seal() throws(JournalFailure) -> SortedEvidence {
        try insertWaiting()
        let tokens = try scratch.perform { db in
            try db.run(
                """
                INSERT INTO evidence
                    SELECT token, ROW_NUMBER() OVER (PARTITION BY token ORDER BY time DESC) - 1, time
                    FROM statement ORDER BY 1, 2;
                DROP TABLE statement;
                """)
            return try db.query("SELECT COUNT(*) FROM evidence WHERE number = 0").scalar?.count ?? 0
        }
        return SortedEvidence(scratch: scratch, count: tokens)
    }
}

/// The evidence of one feed on disk: each token once, in token order. Any number of threads may read
/// it.
package struct SortedEvidence: Sendable {
    /// Nil for no evidence.
    fileprivate let scratch: ScratchDatabase?
    /// Number of distinct tokens.
    package let count: Int

    static let none = SortedEvidence(scratch: nil, count: 0)

    /// Number of tokens that share the most frequent time.
    ///
    /// - Throws: `inputOutput`.
    package func tokensAtOneTime() throws(JournalFailure) -> Int {
        try scratch?.perform { db in
            try db.query(
                "SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM evidence WHERE number = 0 GROUP BY time)"
            ).scalar?.count
        } ?? 0
    }

    /// The evidence after a token, or all of it.
    package func stream(after position: DeviceToken? = nil) -> Stream {
        Stream(scratch: scratch, position: position.map { Array($0.bytes) } ?? [])
    }

    /// Each report behind a token and number, or all of them.
    package func reports(after place: (token: DeviceToken, number: Int)? = nil) -> Reports {
        Reports(
            scratch: scratch,
            position: (place.map { Array($0.token.bytes) } ?? [], place?.number ?? -1))
    }

    /// An iterator over the evidence.
    package struct Stream: EvidenceStream {
        fileprivate let scratch: ScratchDatabase?
        fileprivate var position: [UInt8]

        /// The next tokens, at most `limit`; throws `JournalFailure`.
        package mutating func next(_ limit: Int) throws -> [TokenEvidence] {
            guard let scratch else { return [] }
            let start = position
            let batch = try scratch.perform { db in
                let rows = try db.query(
                    """
                    SELECT token, MAX(time), COUNT(*) FROM evidence
                    WHERE token > ? GROUP BY token ORDER BY token LIMIT ?
                    """, [.bytes(start), .integer(Int64(limit))])
                return try (0..<rows.count).map { try TokenEvidence(rows, $0) }
            }
            if let last = batch.last { position = Array(last.token.bytes) }
            return batch
        }
    }

    /// An iterator over the single reports.
    package struct Reports: ReportSource {
        fileprivate let scratch: ScratchDatabase?
        fileprivate var position: (token: [UInt8], number: Int)

        /// The next reports, at most `limit`; throws `JournalFailure`.
        package mutating func next(_ limit: Int) throws -> [NumberedReport] {
            guard let scratch else { return [] }
            let (token, number) = position
            let reports = try scratch.perform { db in
                let rows = try db.query(
                    """
                    SELECT token, number, time FROM evidence
                    WHERE (token, number) > (?, ?) ORDER BY token, number LIMIT ?
                    """, [.bytes(token), .integer(Int64(number)), .integer(Int64(limit))])
                return try (0..<rows.count).map { row in
                    guard let token = rows.scratchToken(row), let number = rows[row, 1].count,
                        let time = rows[row, 2].integer
                    else { throw Refusal.column("token, number or time") }
                    return NumberedReport(
                        token: token, number: number, time: EpochMilliseconds(time))
                }
            }
            if let last = reports.last { position = (Array(last.token.bytes), last.number) }
            return reports
        }
    }
}

/// The scratch file. It is removed with the last reference to it.
private final class ScratchDatabase: Sendable {
    private let database: Mutex<SQLiteConnection>
    private let path: String
    private let folder: PrivateFolder
    private let name: String

    init(in folder: StateFolder, _ name: String) throws(JournalFailure) {
        path = folder.file(name)
        self.folder = folder.folder
        self.name = name
        unlinkat(folder.folder.descriptor, name, 0)
        _ = try folder.makePrivate(name)
        let file = SQLiteConnection(
            path: folder.realFile(name), .existing, busySeconds: 0,
            """
            PRAGMA page_size = 4096;
            PRAGMA journal_mode = OFF;
            PRAGMA synchronous = OFF;
            PRAGMA locking_mode = EXCLUSIVE;
            PRAGMA cache_size = -1024;
            CREATE TABLE statement (token BLOB NOT NULL, time INTEGER NOT NULL);
            CREATE TABLE evidence (
                token BLOB NOT NULL, number INTEGER NOT NULL, time INTEGER NOT NULL,
                PRIMARY KEY (token, number)) WITHOUT ROWID;
            BEGIN;
            """)
        do {
            try file.connect()
        } catch {
            throw .wrapping(error, while: "making the scratch table \(path)")
        }
        database = Mutex(file)
    }

    deinit { unlinkat(folder.descriptor, name, 0) }

    func perform<T: Sendable>(
        _ work: (SQLiteConnection) throws -> T
    ) throws(JournalFailure) -> T {
        do {
            return try database.withLock { try work($0) }
        } catch {
            throw .wrapping(error, while: "sorting the feed in \(path)")
        }
    }
}

extension TokenEvidence {
    fileprivate init(_ rows: SQLRows, _ row: Int) throws(Refusal) {
        guard let token = rows.scratchToken(row), let time = rows[row, 1].integer,
            let statements = rows[row, 2].count
        else { throw .column("token, time or statements") }
        self.init(token: token, time: EpochMilliseconds(time), statements: statements)
    }
}

extension SQLRows {
    /// The token in the first column.
    fileprivate func scratchToken(_ row: Int) -> DeviceToken? {
        guard case .bytes(let bytes) = self[row, 0] else { return nil }
        return bytes.withUnsafeBytes { DeviceToken($0) }
    }
}
