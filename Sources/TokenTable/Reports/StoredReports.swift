import APNsProtocol
import Database
import Findings
import TokenHygiene

/// Which reports of a batch count.
package enum ReportFilter: Hashable, Sendable {
    /// Those that nobody has decided.
    case undecided
    /// All.
    case all
    /// Those that were decided and found no row that they could change, which another mapping may have.
    case unmatched

    /// The condition in SQL.
    var condition: String {
        switch self {
        case .undecided: "state = \(ReportState.waiting.rawValue)"
        case .all: "1 = 1"
        case .unmatched:
            "state IN (\(ReportState.unknown.rawValue), \(ReportState.refused.rawValue))"
        }
    }
}

/// The reports of a batch as evidence: each token once, with its latest time.
package struct StoredReports: EvidenceStream {
    private let table: TokenTable
    private let batch: String
    private let which: ReportFilter
    private var position: DeviceToken?

    /// The evidence behind a token, or all of it; by default that of reports that nobody has decided.
    package init(
        of batch: String, after position: DeviceToken? = nil, _ which: ReportFilter = .undecided,
        in table: TokenTable
    ) {
        (self.batch, self.position, self.table) = (batch, position, table)
        self.which = which
    }

    /// The next tokens, at most `limit`; throws `StoreFailure`.
    package mutating func next(_ limit: Int) throws -> [TokenEvidence] {
        let (connection, position, which) = (table.connection, position, which)
        let found = try table.retries.retrying("reading the reports of batch \(batch)") {
            () throws(SQLFailure) in
            try Self.page(
                of: batch, after: position, which, limit: limit, on: connection)
        }
        self.position = found.last?.token ?? position
        return found
    }

    /// The tokens behind a position, with the reports about each.
    static func page(
        of batch: String, after position: DeviceToken?, _ which: ReportFilter = .undecided,
        limit: Int,
        on connection: any SQLConnection
    ) throws(SQLFailure) -> [TokenEvidence] {
        let time = connection.dialect.ownTime("evidence_at")
        let rows = try connection.query(
            "SELECT token, MAX(evidence_at), COUNT(*) FROM pushsweep_report WHERE batch = \(ReportBatch.ofName) "
                + "AND token > ? AND \(which.condition) GROUP BY token ORDER BY token LIMIT \(limit)",
            [.text(batch), .bytes(position?.bytes ?? [])])
        try rows.require(width: 3)
        return try (0..<rows.count).map { (row) throws(SQLFailure) in
            guard let token = rows.token(row, 0), let time = time.mark(rows[row, 1]),
                let statements = rows[row, 2].count
            else { throw unreadable }
            return TokenEvidence(token: token, time: time, statements: statements)
        }
    }

    /// Removes the first reports of the batch with a number, as many as one step may; true where none is left.
    static func removeFirst(
        _ size: Int, of batch: Int64, on connection: any SQLConnection
    ) throws(SQLFailure) -> Bool {
        let end = try connection.query(
            "SELECT token FROM pushsweep_report WHERE batch = ? ORDER BY token, number LIMIT 1 OFFSET "
                + "\(size)", [.integer(batch)]
        ).scalar
        _ = try connection.execute(
            "DELETE FROM pushsweep_report WHERE batch = ?" + (end == nil ? "" : " AND token <= ?"),
            [.integer(batch)] + (end.map { [$0] } ?? []))
        return end == nil
    }

    static let unreadable = SQLFailure(
        kind: .other, code: 0,
        message: "a report has a token or time that no program of ours writes")
}

extension TokenTable {
    /// Number of distinct tokens of the undecided reports of batches, and of those that share the most
    /// frequent time.
    ///
    /// - Throws: any failure of reading.
    package func spread(
        ofBatches batches: [String]
    ) throws(StoreFailure) -> (tokens: Int, atOneTime: Int) {
        let padded = StatementShape.padded(batches).map(SQLValue.text)
        let which =
            "FROM pushsweep_report WHERE batch IN (SELECT number FROM pushsweep_batch WHERE name IN "
            + "(\(placeholders(padded.count)))) AND state = 0"
        return try retries.retrying("counting the reports of a batch") { () throws(SQLFailure) in
            let tokens = try connection.query("SELECT COUNT(DISTINCT token) \(which)", padded)
            let times = try connection.query(
                "SELECT MAX(n) FROM (SELECT COUNT(DISTINCT token) AS n \(which) GROUP BY evidence_at) "
                    + "AS times", padded)
            return (tokens.scalar?.count ?? 0, times.scalar?.count ?? 0)
        }
    }
}

/// Several streams as one, in which each token stands once.
package struct MergedEvidence<Stream: EvidenceStream>: EvidenceStream {
    private static var page: Int { 500 }

    private var streams: [(stream: Stream, page: ArraySlice<TokenEvidence>)]
    /// The streams that have evidence left, the one with the least token last; nil before the first look.
    private var order: [(token: DeviceToken, stream: Int)]?

    /// Merges streams, each of which is in the order of tokens.
    package init(_ streams: [Stream]) { self.streams = streams.map { ($0, []) } }

    /// The next tokens, at most `limit`; throws what the streams throw.
    package mutating func next(_ limit: Int) throws -> [TokenEvidence] {
        if order == nil {
            order = []
            for stream in streams.indices { try place(stream: stream) }
        }
        var merged: [TokenEvidence] = []
        while merged.count < limit, let token = order?.last?.token {
            var (time, statements) = (EpochMilliseconds(.min), 0)
            while let least = order?.last, least.token == token {
                order?.removeLast()
                if let first = streams[least.stream].page.popFirst() {
                    time = max(time, first.time)
                    statements += first.statements
                }
                try place(stream: least.stream)
            }
            merged.append(TokenEvidence(token: token, time: time, statements: statements))
        }
        return merged
    }

    /// Puts a stream where its next token belongs; reads its next page where it needs one.
    private mutating func place(stream: Int) throws {
        if streams[stream].page.isEmpty {
            streams[stream].page = try streams[stream].stream.next(Self.page)[...]
        }
        guard let token = streams[stream].page.first?.token, let known = order else { return }
        var (low, high) = (0, known.count)
        while low < high {
            let middle = (low + high) / 2
            if known[middle].token > token { low = middle + 1 } else { high = middle }
        }
        order?.insert((token, stream), at: low)
    }
}
