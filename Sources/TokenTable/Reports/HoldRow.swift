import Database

/// The row of `pushsweep_hold` of a batch, in a transaction that has locked the batch or made it.
struct HoldRow {
    let connection: any SQLConnection

    /// Changes columns of the row, which is made where it is not there.
    func set(_ columns: String, _ values: [SQLValue], of batch: String) throws(SQLFailure) {
        _ = try connection.execute(
            "INSERT INTO pushsweep_hold (batch) SELECT number FROM pushsweep_batch WHERE name = ? AND NOT EXISTS "
                + "(SELECT 1 FROM pushsweep_hold WHERE batch = number)", [.text(batch)])
        _ = try connection.execute(
            "UPDATE pushsweep_hold SET \(columns) WHERE batch = \(ReportBatch.ofName)",
            values + [.text(batch)])
    }

    /// Forgets that a person released the batch.
    func forgetRelease(of batch: String) throws(SQLFailure) {
        _ = try connection.execute(
            "UPDATE pushsweep_hold SET terms = NULL, released_as = NULL WHERE batch = \(ReportBatch.ofName)",
            [.text(batch)])
    }

    /// Enters why a batch is held that comes in so; nil where it is not.
    func enter(_ batch: ReportBatch) throws(SQLFailure) {
        guard let hold = batch.hold else {
            _ = try connection.execute(
                "UPDATE pushsweep_hold SET held_at = NULL, gate = NULL, cause = NULL WHERE batch = "
                    + ReportBatch.ofName, [.text(batch.id)])
            return
        }
        try set(
            "held_at = ?, gate = ?, cause = ?",
            [
                connection.dialect.ownTime("held_at").value(hold.since ?? batch.opened),
                hold.gate.map { .text($0.rawValue) } ?? .null, .text(hold.cause.cut),
            ], of: batch.id)
    }
}
