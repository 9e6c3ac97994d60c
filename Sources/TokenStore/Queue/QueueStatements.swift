import TokenHygiene

/// The statements that change the state of rows, wherever it stands. Each names its rows by key, in
/// lists of a few lengths, and repeats the claim that has to hold them.
struct QueueStatements {
    let layout: QueueLayout
    let dialect: SQLDialect

    private var delivery: DeliveryColumns { layout.delivery }

    private func name(_ column: String) -> String { dialect.quoted(column) }

    /// What a set of rows becomes.
    struct Change: Hashable {
        var state: DeliveryState
        var reason: String?
        var notBefore: EpochMilliseconds?
        /// Whether it was an attempt.
        var isAttempt = false
    }

    /// Takes waiting rows for a claim; returns how many.
    func take(
        _ rows: some Collection<ScannedRow>, for claim: Int64, _ connection: any SQLConnection
    ) throws(SQLFailure) -> Int {
        var found = 0
        for run in rows.filter(\.isKnown).map(\.key).runs(of: StatementShape.longest) {
            let rows = keyCondition(run)
            found += try connection.execute(
                "UPDATE \(delivery.table.sql(dialect)) SET \(name(delivery.state)) = 'claimed', "
                    + "\(name(delivery.claim)) = ? WHERE \(rows.sql) "
                    + "AND \(name(delivery.claim)) = 0 "
                    + "AND \(name(delivery.answeredAt.name)) IS NULL",
                [.integer(claim)] + rows.values)
        }
        guard let queue = delivery.queue else { return found }
        for run in rows.filter({ !$0.isKnown }).map(\.key).runs(of: StatementShape.longest) {
            let keys = StatementShape.padded(run).map(SQLValue.integer)
            let key = name(layout.key)
            found += try connection.execute(
                "INSERT INTO \(delivery.table.sql(dialect)) (queue, queue_key, state, claim) "
                    + "SELECT ?, \(key), 'claimed', ? FROM \(layout.table.sql(dialect)) "
                    + "WHERE \(key) IN (\(placeholders(keys.count)))",
                [.text(queue), .integer(claim)] + keys)
        }
        return found
    }

    /// How many of some rows a claim holds.
    func held(
        _ keys: [Int64], by claim: Int64, _ connection: any SQLConnection
    ) throws(SQLFailure) -> Int {
        try count(keys, "\(name(delivery.claim)) = ?", [.integer(claim)], connection)
    }

    /// Gives rows of a claim a state and lets go of them; returns how many there were.
    func settle(
        _ keys: [Int64], of claim: Int64, as change: Change, now: EpochMilliseconds,
        _ connection: any SQLConnection
    ) throws(SQLFailure) -> Int {
        var found = 0
        let assignments = assignments(change, now: now)
        for run in keys.runs(of: StatementShape.longest) {
            let rows = keyCondition(run)
            var count = try connection.execute(
                "UPDATE \(delivery.table.sql(dialect)) SET \(assignments.sql) WHERE \(rows.sql) "
                    + "AND \(name(delivery.claim)) = ?",
                assignments.values + rows.values + [.integer(claim)])
            // Spider answers 0 for statements it hands on, so 0 says nothing: look.
            if count == 0 {
                count = try self.count(
                    Array(run), "\(name(delivery.claim)) = 0 AND \(name(delivery.state)) = ?",
                    [.text(change.state.rawValue)], connection)
            }
            found += count
            if change.state == .sent && !delivery.isInRow { try markSent(run, now, connection) }
        }
        return found
    }

    /// Gives all rows of a claim a state, which lie in a range of keys.
    func settle(
        _ range: ClosedRange<Int64>, of claim: Int64, as change: Change, now: EpochMilliseconds,
        _ connection: any SQLConnection
    ) throws(SQLFailure) {
        let assignments = assignments(change, now: now)
        let rows = rangeCondition(range, claim)
        _ = try connection.execute(
            "UPDATE \(delivery.table.sql(dialect)) SET \(assignments.sql) WHERE \(rows.sql)",
            assignments.values + rows.values)
    }

    /// How many rows of a range a claim holds.
    func held(
        _ range: ClosedRange<Int64>, by claim: Int64, _ connection: any SQLConnection
    ) throws(SQLFailure) -> Int {
        let rows = rangeCondition(range, claim)
        return try connection.query(
            "SELECT COUNT(*) FROM \(delivery.table.sql(dialect)) WHERE \(rows.sql)", rows.values
        ).scalar?.count ?? 0
    }

    private func markSent(
        _ keys: ArraySlice<Int64>, _ now: EpochMilliseconds, _ connection: any SQLConnection
    ) throws(SQLFailure) {
        guard let sentAt = layout.sentAt else { return }
        let list = StatementShape.padded(keys).map(SQLValue.integer)
        _ = try connection.execute(
            "UPDATE \(layout.table.sql(dialect)) SET \(name(sentAt.name)) = ? "
                + "WHERE \(name(layout.key)) IN (\(placeholders(list.count))) "
                + "AND \(name(sentAt.name)) IS NULL", [sentAt.value(sentAt.floor(now))] + list)
    }

    private func assignments(
        _ change: Change, now: EpochMilliseconds
    ) -> (sql: String, values: [SQLValue]) {
        var sql = "\(name(delivery.state)) = ?, \(name(delivery.claim)) = 0"
        var values: [SQLValue] = [.text(change.state.rawValue)]
        func set(_ column: String, _ value: SQLValue) {
            sql += ", \(name(column)) = ?"
            values.append(value)
        }
        set(delivery.reason, change.reason.map { .text(Self.stored($0)) } ?? .null)
        if let notBefore = change.notBefore {
            set(delivery.notBefore.name, delivery.notBefore.value(notBefore))
        }
        if change.isAttempt {
            sql += ", \(name(delivery.attempts)) = \(name(delivery.attempts)) + 1"
        }
        if change.state.isFinal {
            let time = delivery.answeredAt
            set(time.name, time.value(time.floor(now)))
        }
        if change.state == .sent, delivery.isInRow, let sentAt = layout.sentAt {
            set(sentAt.name, sentAt.value(sentAt.floor(now)))
        }
        return (sql, values)
    }

    /// Reasons are a peer's words: printable ASCII, at most 64 of it.
    private static func stored(_ reason: String) -> String {
        let bytes = reason.utf8.prefix(64).map { (0x20..<0x7F).contains($0) ? $0 : 0x3F }
        return String(decoding: bytes, as: UTF8.self)
    }

    private func count(
        _ keys: [Int64], _ condition: String, _ values: [SQLValue],
        _ connection: any SQLConnection
    ) throws(SQLFailure) -> Int {
        var count = 0
        for run in keys.runs(of: StatementShape.longest) {
            let rows = keyCondition(run)
            count +=
                try connection.query(
                    "SELECT COUNT(*) FROM \(delivery.table.sql(dialect)) WHERE \(rows.sql) "
                        + "AND \(condition)", rows.values + values
                ).scalar?.count ?? 0
        }
        return count
    }

    private func keyCondition(
        _ keys: some Collection<Int64>
    ) -> (sql: String, values: [SQLValue]) {
        let list = StatementShape.padded(keys).map(SQLValue.integer)
        let condition = "\(name(delivery.key)) IN (\(placeholders(list.count)))"
        guard let queue = delivery.queue else { return (condition, list) }
        return ("queue = ? AND \(condition)", [.text(queue)] + list)
    }

    private func rangeCondition(
        _ range: ClosedRange<Int64>, _ claim: Int64
    ) -> (sql: String, values: [SQLValue]) {
        let condition =
            "\(name(delivery.key)) BETWEEN ? AND ? AND \(name(delivery.claim)) = ?"
        let values: [SQLValue] = [
            .integer(range.lowerBound), .integer(range.upperBound), .integer(claim),
        ]
        guard let queue = delivery.queue else { return (condition, values) }
        return ("queue = ? AND \(condition)", [.text(queue)] + values)
    }
}
