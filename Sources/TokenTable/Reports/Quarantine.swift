// What came with a batch and is no usable report is kept beside it, so that a person can look at it from any host,
// correct it and import it: a line of a file, a row of `pushsweep_evidence`, bytes of a gateway's list. A part is
// kept whole up to 8 KiB, which a row of `pushsweep_evidence` never exceeds. It stays until a person discards it, and its batch as long.

import APNsProtocol
import Database
import Findings
import TokenHygiene

/// A batch with its quarantined parts.
package struct QuarantinedBatch: Hashable, Sendable {
    package let batch: String
    /// What is known of the batch; nil where it has no row.
    package let origin: ReportBatch?
    package let parts: Int
    /// Number of bytes of all parts.
    package let bytes: Int
}

/// The quarantine of a database.
package struct Quarantine {
    private static let columns = "batch, place, length, reason, bytes, token"

    private let session: DatabaseSession
    private var connection: any SQLConnection { session.connection }

    /// The quarantine in the database of a token table.
    package init(_ table: TokenTable) { self.init(table.session) }

    init(_ session: DatabaseSession) { self.session = session }

    /// Whether the account sees it.
    ///
    /// - Throws: any failure of a query.
    package func visibility() throws(StoreFailure) -> TableVisibility {
        try session.visibility(of: PushsweepTable.quarantine.name, Self.columns)
    }

    /// The batches that have quarantined parts, those that were heard first first.
    ///
    /// - Throws: any failure of a query.
    package func batches() throws(StoreFailure) -> [QuarantinedBatch] {
        let sums: [(number: Int64, batch: String, parts: Int, bytes: Int)] = try session.retries
            .retrying(
                "reading the quarantine"
            ) { () throws(SQLFailure) in
                let rows = try connection.query(
                    "SELECT q.batch, b.name, q.parts, q.bytes FROM (SELECT batch, COUNT(*) AS parts, SUM(length) AS bytes "
                        + "FROM pushsweep_quarantine GROUP BY batch) AS q LEFT JOIN pushsweep_batch AS b ON b.number = q.batch"
                )
                return (0..<rows.count).map {
                    (
                        rows[$0, 0].integer ?? 0, rows[$0, 1].text ?? "\(rows[$0, 0].integer ?? 0)",
                        rows[$0, 2].count ?? 0, rows[$0, 3].count ?? 0
                    )
                }
            }
        let origins = try batches(numbered: sums.map(\.number))
        // What an import has not ended counts nothing yet.
        return sums.filter { origins[$0.number]?.isDraft != true }.map {
            QuarantinedBatch(
                batch: $0.batch, origin: origins[$0.number], parts: $0.parts, bytes: $0.bytes)
        }.sorted {
            ($0.origin?.opened ?? EpochMilliseconds(0), $0.batch)
                < ($1.origin?.opened ?? EpochMilliseconds(0), $1.batch)
        }
    }

    private func batches(
        numbered numbers: [Int64]
    ) throws(StoreFailure) -> [Int64: ReportBatch] {
        try session.retries.retrying("reading the batches of reports") { () throws(SQLFailure) in
            try ReportBatch.numbered(numbers.map(SQLValue.integer), connection)
        }
    }

    /// How often each reason occurs in a batch and where it does first, the most frequent first, at most `limit`.
    ///
    /// - Throws: any failure of a query.
    package func reasons(
        in batch: String, limit: Int
    ) throws(StoreFailure) -> [(reason: String, parts: Int, first: Int)] {
        try session.retries.retrying("reading the quarantine") { () throws(SQLFailure) in
            let rows = try connection.query(
                "SELECT reason, COUNT(*) AS parts, MIN(place) FROM pushsweep_quarantine WHERE batch = \(ReportBatch.ofName) "
                    + "GROUP BY reason ORDER BY parts DESC, reason LIMIT \(limit)", [.text(batch)])
            return (0..<rows.count).map {
                (
                    rows.string($0, 0), rows[$0, 1].count ?? 0,
                    rows[$0, 2].integer.flatMap { Int(exactly: $0) } ?? 0
                )
            }
        }
    }

    /// The parts of a batch behind a place, or from the first one, in their order.
    ///
    /// - Throws: any failure of a query.
    package func parts(
        of batch: String, after place: Int? = nil, limit: Int
    ) throws(StoreFailure) -> [QuarantinedPart] {
        try session.retries.retrying("reading the quarantine") { () throws(SQLFailure) in
            parts(
                try connection.query(
                    "SELECT \(Self.columns) FROM pushsweep_quarantine WHERE batch = \(ReportBatch.ofName) AND place "
                        + "\(place == nil ? ">=" : ">") ? ORDER BY place LIMIT \(limit)",
                    [.text(batch), .integer(place.map { Int64($0) } ?? .min)]))
        }
    }

    private func parts(_ rows: SQLRows) -> [QuarantinedPart] {
        (0..<rows.count).map { row in
            var bytes: [UInt8] = []
            switch rows[row, 4] {
            case .bytes(let found), .rawText(let found): bytes = found
            case .text(let text): bytes = Array(text.utf8)
            default: break
            }
            return QuarantinedPart(
                place: rows[row, 1].integer.flatMap { Int(exactly: $0) } ?? 0, bytes: bytes,
                length: rows[row, 2].count, reason: rows.string(row, 3), token: rows.token(row, 5))
        }
    }

    /// The parts that name a token, with their batch, at most `limit`.
    ///
    /// - Throws: any failure of a query.
    package func parts(
        about token: DeviceToken, limit: Int
    ) throws(StoreFailure) -> [(batch: String, origin: ReportBatch?, part: QuarantinedPart)] {
        let found: [(batch: Int64, part: QuarantinedPart)] = try session.retries.retrying(
            "searching the quarantine"
        ) { () throws(SQLFailure) in
            let rows = try connection.query(
                "SELECT \(Self.columns) FROM pushsweep_quarantine WHERE token = ? ORDER BY batch, place "
                    + "LIMIT \(limit)", [.bytes(token.bytes)])
            return zip(0..<rows.count, parts(rows)).map { (rows[$0, 0].integer ?? 0, $1) }
        }
        let origins = try batches(numbered: found.map(\.batch))
        return found.filter { origins[$0.batch]?.isDraft != true }.map {
            (origins[$0.batch]?.id ?? "\($0.batch)", origins[$0.batch], $0.part)
        }
    }

    /// Keeps parts of a batch, while this run has its lease. Keeping one again changes nothing.
    ///
    /// - Throws: any failure of the database; what is kept stays kept.
    package func keep(
        _ parts: [QuarantinedPart], of batch: String, lease: Lease? = nil
    ) throws(StoreFailure) {
        for some in parts.runs(of: StatementShape.longestLinear) {
            try session.retries.retrying("keeping what cannot be used of batch \(batch)") {
                () throws(SQLFailure) in
                try connection.begin()
                try Self.insert(some, of: batch, on: connection)
                try lease?.renew(connection)
                try connection.commit()
            }
        }
    }

    /// Inserts parts, in a transaction of the caller or one of their own.
    static func insert(
        _ parts: some Collection<QuarantinedPart>, of batch: String,
        on connection: any SQLConnection
    ) throws(SQLFailure) {
        guard !parts.isEmpty else { return }
        let number = try BatchRow(connection: connection).number(of: batch)
        for some in Array(parts).runs(of: StatementShape.longestLinear) {
            let padded = StatementShape.padded(some)
            let sql = connection.dialect.upsert(
                "pushsweep_quarantine", key: ["batch", "place"],
                columns: ["length", "reason", "bytes", "token"], rows: padded.count)
            var values: [SQLValue] = []
            for part in padded {
                let reason = part.reason.unicodeScalars.prefix(1_024)
                values += [
                    .integer(number), .integer(Int64(part.place)), .integer(Int64(part.length)),
                    .text(String(String.UnicodeScalarView(reason))), .bytes(part.bytes),
                    part.token.map { .bytes($0.bytes) } ?? .null,
                ]
            }
            _ = try connection.execute(sql, values)
        }
    }

    /// Discards the parts of a batch, in bounded steps. Returns how many there were.
    ///
    /// - Throws: any failure of the database; what is discarded stays discarded.
    package func discard(
        _ batch: String, lease: Lease? = nil, shouldStop: () -> Bool = { false }
    ) throws(StoreFailure) -> Int {
        var loop = session.chunkLoop()
        let doing = "discarding the quarantine of batch \(batch)"
        return try loop.run(from: Discarded(), isDone: \.isDone, shouldStop: shouldStop) {
            (loop, sum) throws(StoreFailure) in
            try loop.commit(after: sum, doing: doing, checkpointOf: "batch \(batch)") {
                (size) throws(SQLFailure) in
                try connection.begin()
                let removed = try remove(size, of: batch)
                try lease?.renew(connection)
                try connection.commit()
                return .committed(
                    Discarded(parts: sum.parts + removed, isDone: removed == 0), entries: removed,
                    bytes: 0)
            } checkpoint: {
                sum
            }
        }.parts
    }

    private struct Discarded: Equatable {
        var parts = 0
        var isDone = false
    }

    private func remove(_ size: Int, of batch: String) throws(SQLFailure) -> Int {
        let last = try connection.query(
            "SELECT MAX(place), COUNT(*) FROM (SELECT place FROM pushsweep_quarantine WHERE batch = \(ReportBatch.ofName) "
                + "ORDER BY place LIMIT \(size)) AS first", [.text(batch)])
        guard last.count > 0, last[0, 0] != .null else { return 0 }
        _ = try connection.execute(
            "DELETE FROM pushsweep_quarantine WHERE batch = \(ReportBatch.ofName) AND place <= ?",
            [.text(batch), last[0, 0]])
        return last[0, 1].count ?? 0
    }
}
