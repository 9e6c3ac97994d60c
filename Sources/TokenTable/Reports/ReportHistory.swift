import APNsProtocol
import Database
import Findings
import TokenHygiene

/// What one batch says about one token, and what became of it.
package struct TokenReport: Hashable, Sendable {
    package let batch: ReportBatch
    /// The latest time at which APNs found the token dead.
    package let time: EpochMilliseconds
    /// How often the batch says so, at least 1.
    package let statements: Int
    /// What became of the statement with the number 0, which counts for all of the batch.
    package let state: ReportState
    /// Why a row refused the change; nil where none did.
    package let refusal: RowRefusal?
    /// When that was decided, by the database's clock; nil before.
    package let decided: EpochMilliseconds?
}

/// Reads what reports say about given tokens.
package struct ReportHistory {
    /// The most batches of which the reports about one token are read, those with the latest evidence.
    package static let mostReports = 500

    private let session: DatabaseSession
    private var connection: any SQLConnection { session.connection }

    /// Reads the database of a token table.
    package init(_ table: TokenTable) { session = table.session }

    /// The reports about a token, by batch in the order in which they were heard, and whether there are more.
    ///
    /// - Throws: any failure of a query.
    package func reports(
        about token: DeviceToken
    ) throws(StoreFailure) -> (reports: [TokenReport], isCut: Bool) {
        try session.retries.retrying("looking for the reports of a token") {
            () throws(SQLFailure) in
            let rows = try connection.query(
                "SELECT batch, MAX(evidence_at), COUNT(*), MIN(CASE WHEN number = 0 THEN state END), "
                    + "MAX(refusal), MAX(CASE WHEN state <> 0 THEN changed_at END) FROM pushsweep_report WHERE token = ? "
                    + "GROUP BY batch ORDER BY 2 DESC LIMIT \(Self.mostReports + 1)",
                [.bytes(token.bytes)])
            try rows.require(width: 6)
            let count = min(rows.count, Self.mostReports)
            let batches = try ReportBatch.numbered((0..<count).map { rows[$0, 0] }, connection)
            let time = connection.dialect.ownTime("evidence_at")
            let reports = (0..<count).compactMap { row -> TokenReport? in
                guard let batch = rows[row, 0].integer.flatMap({ batches[$0] }), !batch.isDraft,
                    let said = time.mark(rows[row, 1])
                else { return nil }
                return TokenReport(
                    batch: batch, time: said, statements: rows[row, 2].count ?? 1,
                    state: rows[row, 3].count.flatMap(ReportState.init(rawValue:)) ?? .waiting,
                    refusal: rows[row, 4].text.flatMap(RowRefusal.init(rawValue:)),
                    decided: time.mark(rows[row, 5]))
            }
            return (
                reports.sorted { ($0.batch.opened, $0.batch.id) < ($1.batch.opened, $1.batch.id) },
                rows.count > count
            )
        }
    }
}

/// A batch that says of its reports something else than is there.
package struct UnbalancedBatch: Hashable, Sendable {
    package let batch: String
    /// Reports that it took in, without those that were removed.
    package let said: Int
    /// Reports that are there.
    package let found: Int
}

extension ReportHistory {
    /// The batches whose reports are not all there, or more than they took in, and reports of batches that are not there,
    /// at most `limit`. Reads all reports.
    ///
    /// - Throws: any failure of the query.
    package func unbalanced(limit: Int) throws(StoreFailure) -> [UnbalancedBatch] {
        try session.retries.retrying("counting the reports of all batches") {
            () throws(SQLFailure) in
            // What a killed import left may be half removed.
            let rows = try connection.query(
                "SELECT f.name, f.reports - f.removed, COALESCE(r.found, 0) FROM pushsweep_batch AS f LEFT JOIN "
                    + "(SELECT batch, COUNT(*) AS found FROM pushsweep_report GROUP BY batch) AS r "
                    + "ON r.batch = f.number WHERE f.reports - f.removed <> COALESCE(r.found, 0) "
                    + "AND NOT (f.state = 'filling' AND f.inlet = 'file' AND f.source <> 'feedback') UNION ALL SELECT CAST(r.batch AS CHAR), 0, COUNT(*) "
                    + "FROM pushsweep_report AS r LEFT JOIN pushsweep_batch AS f ON f.number = r.batch "
                    + "WHERE f.number IS NULL GROUP BY r.batch ORDER BY 1 LIMIT \(limit)")
            try rows.require(width: 3)
            return (0..<rows.count).map {
                UnbalancedBatch(
                    batch: rows.string($0, 0), said: rows[$0, 1].integer.map { Int($0) } ?? 0,
                    found: rows[$0, 2].count ?? 0)
            }
        }
    }
}

extension TokenTable {
    /// The runs of a period in which a person released or discarded held batches, oldest first, with the report
    /// of each as JSON.
    ///
    /// - Throws: any failure of a query, such as a missing right to read `pushsweep_run`.
    package func decisions(
        from first: EpochMilliseconds, to last: EpochMilliseconds, limit: Int = 1_000
    ) throws(StoreFailure) -> [RunRecord] {
        let time = connection.dialect.ownTime("started")
        return try retries.retrying("reading the decisions about holds") { () throws(SQLFailure) in
            let rows = try connection.query(
                "SELECT \(RunRecord.columns), counts FROM pushsweep_run WHERE kind IN ('release', "
                    + "'discard') AND ended IS NOT NULL AND started >= ? AND started <= ? "
                    + "ORDER BY started DESC, id LIMIT \(limit)",
                [time.value(first), time.value(last)])
            try rows.require(width: 7)
            return (0..<rows.count).reversed().map { row in
                let run = RunRecord(rows.row(row), connection.dialect)
                return RunRecord(
                    id: run.id, kind: run.kind, started: run.started, ended: run.ended,
                    host: run.host, operator: run.operator, counts: rows[row, 6].text)
            }
        }
    }
}
