// The CPU time of a whole `pushsweep explain` of one token, against a ledger of a million changes in
// an SQLite file, with a token table of as many rows. The token has a row, and an entry in the
// middle of the ledger. Beside it the same without the index of the ledger.

import APNsProtocol
import Database
import Foundation

/// The figure `explain`.
struct ExplainBenchmark {
    private static let target = 50.0

    private let context: BenchmarkContext
    private let place: BenchmarkFolder

    init(_ context: BenchmarkContext) throws {
        self.context = context
        place = try BenchmarkFolder()
    }

    /// CPU milliseconds of one explanation.
    func run() throws -> Figure {
        let rows = context.scaled(1_000_000)
        let settings = place.file("pushsweep.yaml")
        try """
        state: \(place.file("state"))
        store: {url: "sqlite://tokens.sqlite"}
        apps:
          - {name: chat, topic: com.example.chat, environment: production}

        """.write(toFile: settings, atomically: true, encoding: .utf8)
        let sql = try SQLiteConnection.withTables(settings: settings)
        context.note("filling a ledger of \(rows) changes")
        try fill(sql, rows)
        let words = [
            "explain", SpreadToken.token(rows / 2).hex, "--config", settings, "--format", "json",
        ]
        let runs = try measured(words)
        var figure = Figure(
            name: "explain", value: median(runs.map(\.cpuMilliseconds)), unit: "ms of CPU",
            reference: Self.target, ratio: median(runs.map(\.cpuMilliseconds)) / Self.target,
            target: "under 50 ms of CPU with a ledger of a million changes",
            met: median(runs.map(\.cpuMilliseconds)) < Self.target)
        try sql.run("DROP INDEX pushsweep_change_token")
        let slow = try measured(words)
        figure.extra = [
            "peakMiB": median(runs.map(\.peakMiB)),
            "withoutIndexMilliseconds": median(slow.map(\.cpuMilliseconds)),
        ]
        return figure
    }

    private func measured(_ words: [String]) throws -> [FinishedProcess] {
        try (0..<context.runs).map { _ in
            let finished = try FinishedProcess("pushsweep", words)
            guard finished.exit == 0 else {
                throw BenchmarkFailure(description: "explain ended with \(finished.exit)")
            }
            return finished
        }
    }

    /// A row of the token table and an entry of the ledger for each number.
    private func fill(_ sql: SQLiteConnection, _ rows: Int) throws {
        try sql.run("BEGIN")
        for number in 0..<rows {
            let token = SQLValue.bytes(SpreadToken.token(number).bytes)
            _ = try sql.execute(
                "INSERT INTO active_users (id, user_id, app_id, device_token, registered_at, "
                    + "invalidated_at, invalid_reason) VALUES (?, 'user', 'chat', ?, "
                    + "'2023-01-01 00:00:00.000', '2024-06-01 00:00:00.000', 'Unregistered')",
                [.integer(Int64(number)), token])
            _ = try sql.execute(
                "INSERT INTO pushsweep_change (part, seq, action, row_key, evidence_at, "
                    + "source, changed_at, token, state) VALUES (?, ?, 'mark', ?, "
                    + "'2024-06-01 00:00:00.000', 'Unregistered', '2024-06-02 00:00:00.000', ?, "
                    + "'invalid')",
                [
                    .integer(Int64(1 + number / 10_000)), .integer(Int64(number % 10_000)),
                    .text("\(number)"), token,
                ])
        }
        try sql.run("COMMIT")
    }
}
