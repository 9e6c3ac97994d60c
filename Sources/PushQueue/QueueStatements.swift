import APNsProtocol
import Database
import TokenHygiene
import TokenTable

// Results are written to rows by key, and only to rows without a final result. A list of a thousand
// keys costs the server as much as the rows, so the statements name keys by runs. A row in a gap
// between two runs that has a final result of the same claim cannot be changed by the statement
// anyway. So where 960 of 1,000 rows were sent, the other 40 are written first and the 960 are one
// run.

/// The statements that change the delivery state of rows, in the queue or in the side table.
struct QueueStatements {
    /// The highest number of runs in a statement: each row read is compared with half of them on
    /// average.
    private static let mostRuns = 30

    let layout: QueueLayout
    let connection: any SQLConnection
    private var dialect: SQLDialect { connection.dialect }

    private var delivery: DeliveryColumns { layout.delivery }

    private func name(_ column: String) -> String { dialect.quoted(column) }

    /// Sets the state of rows and returns how many of them exist. `finished` are rows with a final
    /// result.
    func write(
        _ outcome: Outcome, to keys: KeySet, finished: KeySet = KeySet(), now: EpochMilliseconds
    ) throws(SQLFailure) -> Int {
        let change = assignments(outcome, now: now)
        let queue = delivery.queue.map { ("queue = ? AND ", [SQLValue.text($0)]) } ?? ("", [])
        var found = 0
        for rows in conditions(name(delivery.key), keys, finished) {
            found += try connection.execute(
                "UPDATE \(delivery.table.sql(dialect)) SET \(change.sql) WHERE \(queue.0)"
                    + "\(rows.sql) AND \(unindexed)\(name(delivery.answeredAt.name)) IS NULL",
                change.values + queue.1 + rows.values)
        }
        if let queue = delivery.queue {
            for rows in conditions("q.\(name(layout.key))", keys, finished) {
                found += try insert(outcome, now, into: queue, rows)
            }
        }
        // An earlier try whose answer was lost may have changed some: count the rows.
        if found < keys.count {
            found = max(found, try states(of: keys)[outcome.state.rawValue] ?? 0)
        }
        if outcome.state == .sent && !delivery.isInRow { try markSent(keys, now) }
        return found
    }

    /// Inserts the missing rows into the side table.
    private func insert(
        _ outcome: Outcome, _ now: EpochMilliseconds, into queue: String, _ rows: Fragment
    ) throws(SQLFailure) -> Int {
        let key = "q.\(name(layout.key))"
        let values: [SQLValue] = [
            .text(queue), .text(outcome.state.rawValue), .integer(outcome.isAttempt ? 1 : 0),
            outcome.reason.map(SQLValue.text) ?? .null, notBefore(outcome, now) ?? .null,
            outcome.state.isFinal
                ? delivery.answeredAt.value(delivery.answeredAt.floor(now)) : .null,
            .text(queue),
        ]
        return try connection.execute(
            "INSERT INTO \(delivery.table.sql(dialect)) "
                + "(queue, queue_key, state, attempts, reason, not_before, answered_at) "
                + "SELECT ?, \(key), ?, ?, ?, ?, ? FROM \(layout.table.sql(dialect)) AS q "
                + "LEFT JOIN \(delivery.table.sql(dialect)) AS d "
                + "ON d.queue = ? AND d.queue_key = \(key) "
                + "WHERE \(rows.sql) AND d.queue_key IS NULL", values + rows.values)
    }

    /// Keeps SQLite from using the index of open rows, which it prefers to the keys: with it every
    /// batch would read all waiting rows.
    private var unindexed: String { dialect.engine == .sqlite ? "+" : "" }

    private func markSent(
        _ keys: KeySet, _ now: EpochMilliseconds
    ) throws(SQLFailure) {
        guard let sentAt = layout.sentAt else { return }
        for rows in conditions(name(layout.key), keys) {
            _ = try connection.execute(
                "UPDATE \(layout.table.sql(dialect)) SET \(name(sentAt.name)) = ? "
                    + "WHERE \(rows.sql) AND \(unindexed)\(name(sentAt.name)) IS NULL",
                [sentAt.value(sentAt.floor(now))] + rows.values)
        }
    }

    /// The number of the given rows in each state. Rows without an entry in the side table are not
    /// counted.
    func states(of keys: KeySet) throws(SQLFailure) -> [String: Int] {
        var counts: [String: Int] = [:]
        for rows in conditions(name(delivery.key), keys) {
            let queue = delivery.queue.map { ("queue = ? AND ", [SQLValue.text($0)]) } ?? ("", [])
            let found = try connection.query(
                "SELECT \(name(delivery.state)), COUNT(*) FROM \(delivery.table.sql(dialect)) "
                    + "WHERE \(queue.0)\(rows.sql) GROUP BY \(name(delivery.state))",
                queue.1 + rows.values)
            for row in 0..<found.count {
                counts[found[row, 0].text ?? "", default: 0] += found[row, 1].count ?? 0
            }
        }
        return counts
    }

    /// A part of a statement with its values.
    typealias Fragment = (sql: String, values: [SQLValue])

    private func notBefore(_ outcome: Outcome, _ now: EpochMilliseconds) -> SQLValue? {
        outcome.wait.map { delivery.notBefore.value(now.advanced(by: Int64($0) * 1_000)) }
    }

    private func assignments(_ outcome: Outcome, now: EpochMilliseconds) -> Fragment {
        var sql = "\(name(delivery.state)) = ?"
        var values: [SQLValue] = [.text(outcome.state.rawValue)]
        func set(_ column: String, _ value: SQLValue) {
            sql += ", \(name(column)) = ?"
            values.append(value)
        }
        set(delivery.reason, outcome.reason.map(SQLValue.text) ?? .null)
        if let notBefore = notBefore(outcome, now) { set(delivery.notBefore.name, notBefore) }
        if outcome.isAttempt {
            // A full counter column must not make the results of a batch fail.
            let attempts = name(delivery.attempts)
            sql += ", \(attempts) = CASE WHEN \(attempts) < 100 THEN \(attempts) + 1 "
            sql += "ELSE \(attempts) END"
        }
        if outcome.state.isFinal {
            let time = delivery.answeredAt
            set(time.name, time.value(time.floor(now)))
        }
        if outcome.state == .sent, delivery.isInRow, let sentAt = layout.sentAt {
            set(sentAt.name, sentAt.value(sentAt.floor(now)))
        }
        return (sql, values)
    }

    /// Conditions that name rows by key, one for each statement: by runs over gaps that consist of
    /// `passable` rows, or by lists where there would be too many runs.
    private func conditions(
        _ column: String, _ keys: KeySet, _ passable: KeySet = KeySet()
    ) -> [Fragment] {
        let runs = keys.runs(passing: passable)
        guard runs.count > Self.mostRuns else {
            guard let first = runs.first, let last = runs.last else { return [] }
            guard runs.count > 1 else { return [Self.inside(runs, column)] }
            let inner = Self.inside(StatementShape.padded(runs: runs), column)
            return [Self.within(first.lowerBound...last.upperBound, inner, column)]
        }
        return keys.pieces(of: StatementShape.longest).map { piece in
            let list = StatementShape.padded(Array(piece.keys)).map(SQLValue.integer)
            let inner = ("\(column) IN (\(placeholders(list.count)))", list)
            let (lower, upper) = (
                piece.runs[0].lowerBound, piece.runs[piece.runs.count - 1].upperBound
            )
            return Self.within(lower...upper, inner, column)
        }
    }

    /// Puts the bounds first: SQLite then reads the keys between them instead of another index.
    private static func within(
        _ bounds: ClosedRange<Int64>, _ inner: Fragment, _ column: String
    ) -> Fragment {
        let outer = inside([bounds], column)
        return ("\(outer.sql) AND \(inner.sql)", outer.values + inner.values)
    }

    private static func inside(_ runs: [ClosedRange<Int64>], _ column: String) -> Fragment {
        let each = repeatElement("\(column) BETWEEN ? AND ?", count: runs.count)
        return (
            "(\(each.joined(separator: " OR ")))",
            runs.flatMap { [.integer($0.lowerBound), .integer($0.upperBound)] }
        )
    }
}
