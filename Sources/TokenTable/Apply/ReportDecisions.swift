import APNsProtocol
import Database
import TokenHygiene

/// Writes into reports what became of them, in the transaction that changes the rows. A chunk decides all
/// reports of its tokens by one statement over their range, and those whose row refused the change by one for
/// each reason. Reports that are not in the database it inserts as they are decided.
struct ReportDecisions {
    /// The number of the batch.
    let batch: Int64
    let connection: any SQLConnection

    private var decidedNow: String { "changed_at = \(connection.dialect.now)" }

    /// Decides the reports of a chunk.
    ///
    /// - Throws: a conflict unless exactly the chunk's reports were undecided.
    func write(
        _ chunk: ArraySlice<TokenEvidence>, _ classified: ClassifiedChunk
    ) throws(SQLFailure) {
        guard let first = chunk.first, let last = chunk.last else { return }
        var decided = try writeRefused(chunk, classified)
        let others = classified.outcomes.filter { $0.value != .refused }
        if !others.isEmpty {
            let state = state(chunk, others.mapValues { $0 })
            decided += try connection.execute(
                "UPDATE pushsweep_report SET state = \(state.sql), \(decidedNow) WHERE batch = ? AND "
                    + "token BETWEEN ? AND ? AND state = 0",
                state.values + [
                    .integer(batch), .bytes(first.token.bytes), .bytes(last.token.bytes),
                ])
        }
        let reports = chunk.reduce(0) { $0 + $1.statements }
        guard decided == reports else {
            throw SQLFailure(
                kind: .conflict, code: 0,
                message:
                    "\(decided) reports of batch \(batch) were undecided where \(reports) were read"
            )
        }
    }

    /// Inserts the reports of a chunk, each with what became of it.
    func insert(
        _ chunk: ArraySlice<TokenEvidence>, _ classified: ClassifiedChunk
    ) throws(SQLFailure) {
        var reasons: [Int: RowRefusal] = [:]
        for refused in classified.changes.refused where reasons[refused.row.evidence] == nil {
            reasons[refused.row.evidence] = refused.reason
        }
        var reports: [ReportRows.Decided] = []
        reports.reserveCapacity(chunk.count)
        for (place, item) in zip(chunk.indices, chunk) {
            guard item.statements == 1 + item.earlier.count else {
                throw SQLFailure(
                    kind: .other, code: 0, message: "a token comes without the times of its reports"
                )
            }
            let state = classified.outcomes[place] ?? .unknown
            for (number, time) in ([item.time] + item.earlier).enumerated() {
                reports.append(
                    ReportRows.Decided(
                        report: NumberedReport(token: item.token, number: number, time: time),
                        state: number > 0 && state == .applied ? .already : state,
                        refusal: state == .refused ? reasons[place] : nil))
            }
        }
        try ReportRows(connection: connection).insert(reports[...], into: batch)
    }

    private func writeRefused(
        _ chunk: ArraySlice<TokenEvidence>, _ classified: ClassifiedChunk
    ) throws(SQLFailure) -> Int {
        var tokens: [RowRefusal: [SQLValue]] = [:]
        var seen: Set<Int> = []
        for refused in classified.changes.refused where seen.insert(refused.row.evidence).inserted {
            tokens[refused.reason, default: []].append(
                .bytes(chunk[refused.row.evidence].token.bytes))
        }
        var decided = 0
        for (reason, tokens) in tokens {
            for some in tokens.runs(of: StatementShape.longest) {
                let padded = StatementShape.padded(some)
                decided += try connection.execute(
                    "UPDATE pushsweep_report SET state = \(ReportState.refused.rawValue), refusal = ?, "
                        + "\(decidedNow) WHERE batch = ? AND token IN (\(placeholders(padded.count))) "
                        + "AND state = 0", [.text(reason.rawValue), .integer(batch)] + padded)
            }
        }
        return decided
    }

    /// The expression of a report's state: the most frequent one, but for the tokens of each other one. Of
    /// several reports about a token one counts as the one that changed a row: that with the number 0.
    private func state(
        _ chunk: ArraySlice<TokenEvidence>, _ outcomes: [Int: ReportState]
    ) -> BoundSQL {
        let byState = Dictionary(grouping: outcomes.keys) { outcomes[$0] ?? .unknown }
        let usual = byState.max {
            ($0.value.count, $1.key.rawValue) < ($1.value.count, $0.key.rawValue)
        }
        let repeats = chunk.contains { $0.statements > 1 }
        func word(_ state: ReportState) -> String {
            state == .applied && repeats
                ? "CASE WHEN number = 0 THEN \(state.rawValue) ELSE \(ReportState.already.rawValue) END"
                : "\(state.rawValue)"
        }
        var (cases, values) = ("", [SQLValue]())
        for (state, places) in byState.sorted(by: { $0.key.rawValue < $1.key.rawValue })
        where state != usual?.key {
            for some in places.sorted().runs(of: StatementShape.longest) {
                let padded = StatementShape.padded(
                    some.map { SQLValue.bytes(chunk[$0].token.bytes) })
                cases += " WHEN token IN (\(placeholders(padded.count))) THEN \(word(state))"
                values += padded
            }
        }
        let rest = word(usual?.key ?? .unknown)
        return (cases.isEmpty ? rest : "CASE\(cases) ELSE \(rest) END", values)
    }
}
