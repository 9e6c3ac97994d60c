// A list or file may name a token more than once, and only its latest time counts. It may also hold more
// tokens than fit in memory. So the reports go into a scratch table, and SQLite sorts and numbers them
// and spills to disk itself. The order by token has two uses: neighbours in the user's token index
// are processed close together in time, and an interrupted application can continue after the last
// token that it applied. The reports of a file are of several groups, one for each app and reason; lines that
// cannot be used are kept beside them, until it is known whether the file was taken before.
//
// The scratch file can be made again from the journal or the file at any time. So it is written without journal
// or sync, and is removed after its last use.

import APNsProtocol
import Database
import Encodings
import Glibc
import Synchronization
import TokenHygiene

/// Collects the reports of a list or file, in any order.
package final class EvidenceTable {
    private static let tuplesPerInsert = 256

    private let scratch: ScratchDatabase
    private var waiting: [(group: Int, token: DeviceToken, time: EpochMilliseconds)] = []
    private var parts: [QuarantinedPart] = []

    /// Makes an empty table in the state folder, and replaces an abandoned one. Two tables at the
    /// same time need different names.
    ///
    /// - Throws: `cannotCreate` or `inputOutput`.
    package init(in folder: StateFolder, named name: String = "scratch") throws(JournalFailure) {
        scratch = try ScratchDatabase(in: folder, name + ".sqlite")
        waiting.reserveCapacity(Self.tuplesPerInsert)
    }

    /// Adds a token and the time of its evidence to a group of the table.
    ///
    /// - Throws: `inputOutput`, for example when the disk is full.
    package func add(
        _ token: DeviceToken, _ time: EpochMilliseconds, to group: Int = 0
    ) throws(JournalFailure) {
        waiting.append((group, token, time))
        if waiting.count == Self.tuplesPerInsert { try insertWaiting() }
    }

    private func insertWaiting() throws(JournalFailure) {
        guard !waiting.isEmpty else { return }
        defer { waiting.removeAll(keepingCapacity: true) }
        let rows = waiting
        try scratch.perform { db in
            var values: [SQLValue] = []
            values.reserveCapacity(3 * rows.count)
            for row in rows {
                values.append(.integer(Int64(row.group)))
                values.append(.bytes(row.token.bytes))
                values.append(.integer(row.time.rawValue))
            }
            _ = try db.execute(
                "INSERT INTO statement VALUES \(commaList("(?, ?, ?)", rows.count))", values)
        }
    }

    /// Names tokens of which `keepWanted` keeps what was added.
    ///
    /// - Throws: `inputOutput`, for example when the disk is full.
    package func want(_ tokens: [DeviceToken]) throws(JournalFailure) {
        try scratch.perform { db in
            for some in tokens.runs(of: Self.tuplesPerInsert) {
                _ = try db.execute(
                    "INSERT OR IGNORE INTO wanted VALUES \(commaList("(?)", some.count))",
                    some.map { .bytes($0.bytes) })
            }
        }
    }

    /// Of some groups only those tokens stay that are wanted, or that one of the groups `besides` has. Call it before
    /// `seal`.
    ///
    /// - Throws: `inputOutput`, for example when the disk is full.
    package func keepWanted(
        ofGroups groups: [Int], besides others: [Int]
    ) throws(JournalFailure) {
        try insertWaiting()
        func list(_ groups: [Int]) -> String {
            groups.map(String.init).joined(separator: ", ")
        }
        try scratch.perform { db in
            try db.run(
                """
                INSERT OR IGNORE INTO wanted SELECT token FROM statement WHERE batch IN (\(list(others)));
                DELETE FROM statement
                    WHERE batch IN (\(list(groups))) AND token NOT IN (SELECT token FROM wanted);
                DROP TABLE wanted;
                """)
        }
    }

    /// Keeps a part that is no usable report. Each has a place of its own.
    ///
    /// - Throws: `inputOutput`, for example when the disk is full.
    package func keep(_ part: QuarantinedPart) throws(JournalFailure) {
        parts.append(part)
        if parts.count == Self.tuplesPerInsert { try insertParts() }
    }

    private func insertParts() throws(JournalFailure) {
        let some = parts
        parts.removeAll(keepingCapacity: true)
        guard !some.isEmpty else { return }
        try scratch.perform { db in
            for part in some {
                _ = try db.execute(
                    "INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?, ?)",
                    [
                        .integer(Int64(part.place)), .integer(Int64(part.length)),
                        .text(part.reason), .bytes(part.bytes),
                        part.token.map { .bytes($0.bytes) } ?? .null,
                    ])
            }
        }
    }

    /// Sorts what was added to the groups 0 to `groups`, that one not included. Call it once, after the last `add`.
    ///
    /// - Throws: `inputOutput`, for example when the disk is full.
    package func seal(groups: Int = 1) throws(JournalFailure) -> [SortedEvidence] {
        try insertWaiting()
        try insertParts()
        // Numbered rows come in the order of their numbers. To ask for it would sort them a second time.
        let tokens = try scratch.perform { db in
            try db.run(
                """
                INSERT INTO evidence
                    SELECT batch, token,
                        ROW_NUMBER() OVER (PARTITION BY batch, token ORDER BY time DESC) - 1, time
                    FROM statement;
                DROP TABLE statement;
                """)
            let sums = try db.query(
                "SELECT batch, COUNT(*), SUM(number = 0) FROM evidence GROUP BY batch")
            return (0..<sums.count).map { row in (0..<3).map { sums[row, $0].count ?? 0 } }
        }
        return (0..<groups).map { group in
            let sums = tokens.first { $0[0] == group }
            return SortedEvidence(
                scratch: scratch, group: group, reports: sums?[1] ?? 0, count: sums?[2] ?? 0)
        }
    }

    /// The kept parts behind a place, or from the first one, in their order, at most `limit`. Call it after `seal`.
    ///
    /// - Throws: `inputOutput`.
    package func parts(
        after place: Int?, limit: Int
    ) throws(JournalFailure) -> [QuarantinedPart] {
        try scratch.perform { db in
            let rows = try db.query(
                "SELECT * FROM part WHERE place > ? ORDER BY place LIMIT ?",
                [.integer(Int64(place ?? .min)), .integer(Int64(limit))])
            return try (0..<rows.count).map { row in
                guard let place = rows[row, 0].count, let length = rows[row, 1].count,
                    let reason = rows[row, 2].text, case .bytes(let bytes) = rows[row, 3]
                else { throw Refusal.column("place, length, reason or bytes") }
                return QuarantinedPart(
                    place: place, bytes: bytes, length: length, reason: reason,
                    token: rows.scratchToken(row, 4))
            }
        }
    }
}

/// The evidence of one group on disk: each token once, in token order. Any number of threads may read
/// it.
package struct SortedEvidence: Sendable {
    /// Nil for no evidence.
    fileprivate let scratch: ScratchDatabase?
    fileprivate let group: Int
    /// Number of reports.
    package let reports: Int
    /// Number of distinct tokens.
    package let count: Int

    static let none = SortedEvidence(scratch: nil, group: 0, reports: 0, count: 0)

    /// Number of tokens that share the most frequent time.
    ///
    /// - Throws: `inputOutput`.
    package func tokensAtOneTime() throws(JournalFailure) -> Int {
        try scratch?.perform { db in
            try db.query(
                "SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM evidence WHERE batch = ? AND number = 0 "
                    + "GROUP BY time)", [.integer(Int64(group))]
            ).scalar?.count
        } ?? 0
    }

    /// The evidence after a token, or all of it.
    package func stream(after position: DeviceToken? = nil) -> Stream {
        Stream(scratch: scratch, group: group, position: position.map { Array($0.bytes) } ?? [])
    }

    /// Each report behind a token and number, or all of them.
    package func reports(after place: (token: DeviceToken, number: Int)? = nil) -> Reports {
        Reports(
            scratch: scratch, group: group,
            position: (place.map { Array($0.token.bytes) } ?? [], place?.number ?? -1))
    }

    /// An iterator over the evidence.
    package struct Stream: EvidenceStream {
        fileprivate let scratch: ScratchDatabase?
        fileprivate let group: Int
        fileprivate var position: [UInt8]

        /// The next tokens, at most `limit`; throws `JournalFailure`.
        package mutating func next(_ limit: Int) throws -> [TokenEvidence] {
            guard let scratch else { return [] }
            let (start, group) = (position, SQLValue.integer(Int64(group)))
            let batch = try scratch.perform { db in
                let rows = try db.query(
                    """
                    SELECT token, MAX(time), COUNT(*) FROM evidence
                    WHERE batch = ? AND token > ? GROUP BY token ORDER BY token LIMIT ?
                    """, [group, .bytes(start), .integer(Int64(limit))])
                return try (0..<rows.count).map { try TokenEvidence(rows, $0) }
            }
            if let last = batch.last { position = Array(last.token.bytes) }
            return batch
        }
    }

    /// An iterator over the single reports.
    package struct Reports: ReportSource {
        fileprivate let scratch: ScratchDatabase?
        fileprivate let group: Int
        fileprivate var position: (token: [UInt8], number: Int)

        /// The next reports, at most `limit`; throws `JournalFailure`.
        package mutating func next(_ limit: Int) throws -> [NumberedReport] {
            guard let scratch else { return [] }
            let (token, number, group) = (
                position.token, position.number, SQLValue.integer(Int64(group))
            )
            let reports = try scratch.perform { db in
                let rows = try db.query(
                    """
                    SELECT token, number, time FROM evidence
                    WHERE batch = ? AND (token, number) > (?, ?) ORDER BY token, number LIMIT ?
                    """,
                    [group, .bytes(token), .integer(Int64(number)), .integer(Int64(limit))])
                return try (0..<rows.count).map { row in
                    guard let token = rows.scratchToken(row, 0), let number = rows[row, 1].count,
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
            CREATE TABLE statement (
                batch INTEGER NOT NULL, token BLOB NOT NULL, time INTEGER NOT NULL);
            CREATE TABLE evidence (
                batch INTEGER NOT NULL, token BLOB NOT NULL, number INTEGER NOT NULL,
                time INTEGER NOT NULL, PRIMARY KEY (batch, token, number)) WITHOUT ROWID;
            CREATE TABLE wanted (token BLOB PRIMARY KEY) WITHOUT ROWID;
            CREATE TABLE part (
                place INTEGER PRIMARY KEY, length INTEGER NOT NULL, reason TEXT NOT NULL,
                bytes BLOB NOT NULL, token BLOB);
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
            throw .wrapping(error, while: "sorting reports in \(path)")
        }
    }
}

extension TokenEvidence {
    fileprivate init(_ rows: SQLRows, _ row: Int) throws(Refusal) {
        guard let token = rows.scratchToken(row, 0), let time = rows[row, 1].integer,
            let statements = rows[row, 2].count
        else { throw .column("token, time or statements") }
        self.init(token: token, time: EpochMilliseconds(time), statements: statements)
    }
}

extension SQLRows {
    /// The token in a column.
    fileprivate func scratchToken(_ row: Int, _ column: Int) -> DeviceToken? {
        guard case .bytes(let bytes) = self[row, column] else { return nil }
        return bytes.withUnsafeBytes { DeviceToken($0) }
    }
}
