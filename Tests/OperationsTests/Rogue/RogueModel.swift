import APNsSimulator

@testable import Operations

// The rules for the rows after a run, from the gateway's record of each row. A gateway knows
// whether it processed a request and what it answered. If it broke the connection itself, it does
// not know whether its answer arrived, nor which requests were unread in the socket. Only then, and
// where an answer came later than the sender's deadline, an answered row may be of unknown outcome.

/// Compares a run with the gateway's record.
final class RogueModel {
    let drawn: RogueCase
    let run: RogueRun
    private(set) var wrong: [String] = []

    init(_ drawn: RogueCase, _ run: RogueRun) {
        (self.drawn, self.run) = (drawn, run)
        rows()
        counts()
        words()
    }

    private func require(_ holds: Bool, _ sentence: @autoclosure () -> String) {
        if !holds { wrong.append(sentence()) }
    }

    private func rows() {
        require(run.rows.count == drawn.rows, "\(run.rows.count) rows are left")
        require(run.claims == 0, "\(run.claims) claims are still held")
        let byRow = Dictionary(grouping: run.records) { $0.number ?? -1 }
        for row in run.rows {
            let records = byRow[row.number] ?? []
            let accepted = records.filter(\.isAccepted).count
            require(accepted < 2, "row \(row.number) was accepted \(accepted) times")
            require(
                isRight(row, records),
                "row \(row.number) is \(row.state) (\(row.reason)): \(records)")
        }
        let bad = run.rows.filter { $0.state == "failed" && $0.reason == "BadDeviceToken" }
        require(
            bad.isEmpty || run.app.sent + run.app.gone > 0,
            "\(bad.count) bad tokens closed though no token was known")
        let gone = Set(run.rows.filter { $0.state == "gone" }.map(\.number))
        // A stopped sender leaves evidence to the next one.
        let isMarked = drawn.stopsAfter == nil ? run.marked == gone : run.marked.isSubset(of: gone)
        require(isMarked, "marked \(run.marked.sorted()), gone \(gone.sorted())")
    }

    private func isRight(_ row: RogueRow, _ records: [ProviderRecord]) -> Bool {
        func answered(_ statuses: ClosedRange<Int>) -> Bool {
            records.contains { record in
                if case .answered(let status) = record.end {
                    statuses.contains(status)
                } else {
                    false
                }
            }
        }
        let isUnanswered = records.contains { $0.end == .unanswered }
        // A 503 may say Shutdown, after which it is sent again.
        let processed = records.filter { ![.unprocessed, .answered(status: 503)].contains($0.end) }
        // A request that was not processed may be unread in an ended connection; an answer may be
        // lost where the gateway broke its connection.
        let mayBeLost =
            drawn.stopsAfter != nil
            || (processed.isEmpty
                ? drawn.isViolent : processed.contains { drawn.isViolent($0.connection) })
        switch row.state {
        case "sent": return answered(200...200)
        case "gone": return answered(410...410) && !answered(200...200)
        case "failed": return answered(400...499) && !answered(200...200)
        case "retry":
            let isRefused = records.contains { $0.end == .unprocessed }
            return !records.contains(where: \.isAccepted) && !isUnanswered
                && (answered(400...599) || isRefused)
        case "pending": return !records.contains(where: \.isAccepted) && !isUnanswered
        case "unknown":
            return isUnanswered || mayBeLost || row.reason == "no answer in time"
        default: return false
        }
    }

    private func counts() {
        let app = run.app
        let sum =
            app.sent + app.skipped.values.reduce(0, +) + app.gone
            + app.rejected.values.reduce(0, +) + app.retry + app.unknown
        require(app.claimed == sum, "claimed \(app.claimed), counted \(sum)")
        func count(_ state: String) -> Int { run.rows.count { $0.state == state } }
        for (state, counted) in [
            ("sent", app.sent), ("gone", app.gone), ("retry", app.retry), ("unknown", app.unknown),
            ("failed", app.rejected.values.reduce(0, +)), ("pending", drawn.rows - app.claimed),
        ] {
            require(count(state) == counted, "\(counted) counted as \(state), \(count(state)) are")
        }
        let answers = app.claimed - app.unknown
        // Between two answers: rows that were on the wire together, and single tries.
        let each = GatewayDoubt.most + GatewayDoubt.probe * drawn.connections
        require(
            app.unknown <= each * (answers + 1) + answers,
            "\(app.unknown) unknown for \(answers) answers")
        if answers == 0 {
            require(app.unknown <= GatewayDoubt.most, "\(app.unknown) unknown without an answer")
        }
    }

    private func words() {
        let app = run.app
        if app.unknown > 0 {
            require(
                run.told.contains("\(app.unknown) of ") && run.told.contains("unknown outcome"),
                "\(app.unknown) unknown and not told: \(run.told)")
            require(
                run.exit != .done || app.unknown * 10 <= app.claimed, "\(app.unknown) unknown and 0"
            )
        }
        let waits = run.rows.contains { $0.state == "pending" }
        require(!waits || run.exit != .done, "rows wait and the run ended with 0")
        require(run.exit == .done || !run.told.isEmpty, "\(run.exit) without a word")
        let expected: [ExitStatus] = [
            .done, .unreachable, .pending, .protocolBroken, .configuration, .quarantined,
        ]
        require(expected.contains(run.exit), "ended with \(run.exit): \(run.told)")
    }
}
