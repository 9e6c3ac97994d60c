import APNsProtocol
import Database
import TokenHygiene

/// The row of `pushsweep_batch` of a batch whose reports come in. Each call belongs to the transaction that
/// inserts or moves the reports.
struct BatchRow {
    let connection: any SQLConnection

    private var dialect: SQLDialect { connection.dialect }

    /// The number and state of a batch, how many reports it has, and its last token; nil where there is no such batch.
    func read(
        _ batch: String, locking: Bool
    ) throws(SQLFailure) -> (number: Int64, state: BatchState, reports: Int, last: DeviceToken?)? {
        let rows = try connection.query(
            "SELECT number, state, reports, last_token FROM pushsweep_batch WHERE name = ?"
                + (locking ? dialect.rowLock : ""), [.text(batch)])
        guard rows.count > 0 else { return nil }
        return (
            rows[0, 0].integer ?? 0, BatchState(rawValue: rows.string(0, 1)) ?? .waiting,
            rows[0, 2].count ?? 0, rows.token(0, 3)
        )
    }

    /// The number of a batch whose row this transaction has locked or made.
    func number(of batch: String) throws(SQLFailure) -> Int64 {
        let found = try connection.query(
            "SELECT number FROM pushsweep_batch WHERE name = ?", [.text(batch)])
        guard let number = found.scalar?.integer else {
            throw SQLFailure(kind: .conflict, code: 0, message: "there is no batch \(batch)")
        }
        return number
    }

    private func state(of batch: ReportBatch, _ isLast: Bool) -> BatchState {
        guard isLast else { return .filling }
        // What is only quarantined is decided by nobody.
        if batch.source == .unusable { return .applied }
        return batch.hold == nil ? .waiting : .held
    }

    /// Inserts the row with the number of its first reports. A batch that is whole has no last token, because
    /// nothing of it is judged.
    func insert(
        _ batch: ReportBatch, _ reports: Int, _ last: DeviceToken?, isLast: Bool
    ) throws(SQLFailure) {
        let time = dialect.ownTime("opened_at")
        let columns = [
            "name", "run", "app", "environment", "source", "state", "inlet", "label",
            "host", "opened_at", "ending", "detail", "origin",
            "reports",
            "quarantined", "out_of_bounds", "bytes", "quarantined_bytes", "last_token", "app_name",
            "intake",
        ]
        let hearing = hearing(of: batch)
        let numbers = [
            reports, batch.quarantined, batch.outOfBounds, batch.bytes, batch.quarantinedBytes,
        ]
        _ = try connection.execute(
            "INSERT INTO pushsweep_batch (\(columns.joined(separator: ", ")), changed_at, heard_at, asked_at) VALUES "
                + "(\(placeholders(columns.count)), \(dialect.now), \(hearing.heard), \(hearing.asked))",
            [
                .text(batch.id), .text(batch.run), .text(batch.partition.app),
                .text(batch.partition.environment), .text(batch.source.rawValue),
                .text(state(of: batch, isLast).rawValue), .text(batch.inlet.rawValue),
                text(batch.label, 1_024), text(batch.host, 255), time.value(batch.opened),
                .text(batch.ending.rawValue),
                text(batch.detail, 1_024), text(batch.origin, 36),
            ] + numbers.map { .integer(Int64($0)) }
                + [
                    last.map { .bytes($0.bytes) } ?? .null, .text(batch.partition.app),
                    text(batch.intake, 36),
                ] + hearing.values)
        if batch.hold != nil { try HoldRow(connection: connection).enter(batch) }
    }

    /// When a batch was heard, and when a person asked for it. What he asks for with the list itself is heard then, also
    /// where the batch is held and released later, and held again.
    private func hearing(
        of batch: ReportBatch
    ) -> (heard: String, asked: String, values: [SQLValue]) {
        guard !batch.isAsked else { return (dialect.now, dialect.now, []) }
        return ("?", "NULL", [batch.heard.map(dialect.ownTime("heard_at").value) ?? .null])
    }

    /// Lets a whole batch of a file be judged. The row may be one that a killed import had made before, perhaps on
    /// another host.
    func open(_ batch: ReportBatch) throws(SQLFailure) {
        try move(batch, to: batch.reports, nil, isLast: true)
        try describe(batch)
        let hearing = hearing(of: batch)
        _ = try connection.execute(
            "UPDATE pushsweep_batch SET opened_at = ?, heard_at = \(hearing.heard), asked_at = \(hearing.asked) "
                + "WHERE name = ?",
            [dialect.ownTime("opened_at").value(batch.opened)] + hearing.values + [.text(batch.id)])
    }

    /// Enters what is known of a batch whose row was made before, when it was heard. By then the clocks of host and
    /// database may have been set.
    func describe(_ batch: ReportBatch) throws(SQLFailure) {
        let numbers = [
            batch.quarantined, batch.outOfBounds, batch.bytes, batch.quarantinedBytes,
        ]
        _ = try connection.execute(
            "UPDATE pushsweep_batch SET run = ?, host = ?, label = ?, ending = ?, detail = ?, "
                + "quarantined = ?, out_of_bounds = ?, bytes = ?, "
                + "quarantined_bytes = ? WHERE name = ?",
            [
                .text(batch.run), text(batch.host, 255), text(batch.label, 1_024),
                .text(batch.ending.rawValue), text(batch.detail, 1_024),
            ] + numbers.map { .integer(Int64($0)) } + [.text(batch.id)])
        try HoldRow(connection: connection).enter(batch)
    }

    private func text(_ value: String?, _ length: Int) -> SQLValue {
        value.map { .text(String(String.UnicodeScalarView($0.unicodeScalars.prefix(length)))) }
            ?? .null
    }

    /// Moves the row to a number of reports, of which the first new one may have been heard before the others.
    func move(
        _ batch: ReportBatch, to reports: Int, _ last: DeviceToken?, isLast: Bool
    ) throws(SQLFailure) {
        let heard = batch.heard.map(dialect.ownTime("heard_at").value)
        _ = try connection.execute(
            "UPDATE pushsweep_batch SET reports = ?, last_token = ?, state = ?, "
                + (heard == nil
                    ? "" : "heard_at = CASE WHEN heard_at < ? THEN heard_at ELSE ? END, ")
                + "changed_at = \(dialect.now) WHERE name = ?",
            [
                .integer(Int64(reports)), last.map { .bytes($0.bytes) } ?? .null,
                .text(state(of: batch, isLast).rawValue),
            ] + (heard.map { [$0, $0] } ?? []) + [.text(batch.id)])
    }
}
