// A log that grows is imported again and again, with its old lines. Under `delete` these name rows that are gone, more of
// them each day, until hardly a line of an import names a row. That is no sign of a wrong table: the same was said before
// and judged. So the guard asks which unknown tokens earlier batches named, with a time that is not earlier. Batches that
// are held or were discarded do not count: nobody has judged them.

import APNsProtocol
import Database
import TokenHygiene

/// Finds what earlier batches have said.
struct RepeatedReports {
    /// The batch that repeats them.
    let batch: String
    let connection: any SQLConnection

    /// Statements of some evidence about tokens of which a decided report of another batch says as much.
    func count(
        of evidence: [TokenEvidence]
    ) throws(SQLFailure) -> Int {
        let time = connection.dialect.ownTime("evidence_at")
        var known: [DeviceToken: EpochMilliseconds] = [:]
        for some in evidence.runs(of: StatementShape.longest) {
            let padded = StatementShape.padded(some.map { SQLValue.bytes($0.token.bytes) })
            let rows = try connection.query(
                "SELECT token, MAX(evidence_at) FROM pushsweep_report WHERE token IN "
                    + "(\(placeholders(padded.count))) AND batch <> \(ReportBatch.ofName) AND state <> 0 GROUP BY token",
                padded + [.text(batch)])
            for row in 0..<rows.count {
                if let token = rows.token(row, 0) { known[token] = time.mark(rows[row, 1]) }
            }
        }
        return evidence.reduce(0) { sum, item in
            sum + (known[item.token].map { item.time <= $0 } == true ? item.statements : 0)
        }
    }
}
