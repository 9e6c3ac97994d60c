import APNsProtocol
import TokenHygiene

/// The row of `pushsweep_feed` that says how far a feed is applied. It changes in the transaction
/// of every chunk, so it decides what a lost commit left behind, and nothing is ever reckoned from
/// numbers of affected rows over retries.
struct FeedMarker {
    let feed: String
    let part: FeedPart
    let dialect: SQLDialect

    /// The marker as committed, or as locked for this transaction; nil before the first run.
    func read(
        _ connection: any SQLConnection, locking: Bool
    ) throws(SQLFailure) -> FeedProgress? {
        let rows = try connection.query(
            "SELECT last_token, applied, already, newer, unknown_tokens, rows_changed, state, "
                + "invalidated, refused, rows_refused FROM pushsweep_feed WHERE feed = ? AND part = ?"
                + (locking ? dialect.rowLock : ""), [.text(feed), .integer(Int64(part.index))])
        guard rows.count > 0 else { return nil }
        try rows.require(width: 10)
        var position: DeviceToken?
        if case .bytes(let bytes) = rows[0, 0] { position = DeviceToken(bytes) }
        return FeedProgress(
            position: position,
            counts: OutcomeCounts(
                applied: rows[0, 1].count ?? 0, already: rows[0, 2].count ?? 0,
                newer: rows[0, 3].count ?? 0, unknown: rows[0, 4].count ?? 0,
                refused: rows[0, 8].count ?? 0),
            rowsChanged: rows[0, 5].count ?? 0, rowsInvalidated: rows[0, 7].count ?? 0,
            rowsRefused: rows[0, 9].count ?? 0,
            isApplied: rows[0, 6].text == "applied")
    }

    /// Makes the marker of a feed that nothing has been applied of, while the lease is ours.
    func insert(
        _ application: FeedApplication, table: TableName, _ connection: any SQLConnection
    ) throws(SQLFailure) {
        guard let lease = application.lease else {
            return try insertRow(application, table: table, connection)
        }
        try connection.begin()
        try insertRow(application, table: table, connection)
        try lease.hold(connection)
        try connection.commit()
    }

    private func insertRow(
        _ application: FeedApplication, table: TableName, _ connection: any SQLConnection
    ) throws(SQLFailure) {
        _ = try connection.execute(
            "INSERT INTO pushsweep_feed (feed, part, parts, run, app, environment, source, table_name, "
                + "released, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'applying')",
            [
                .text(feed), .integer(Int64(part.index)), .integer(Int64(part.count)),
                .text(application.run),
                .text(application.partition.app), .text(application.partition.environment),
                .text(application.source.rawValue), .text(table.description),
                .integer(application.isReleased ? 1 : 0),
            ])
    }

    /// Moves the marker, inside the transaction of the rows it speaks of.
    func update(
        _ progress: FeedProgress, run: String, _ connection: any SQLConnection
    ) throws(SQLFailure) {
        let counts = progress.counts
        _ = try connection.execute(
            "UPDATE pushsweep_feed SET run = ?, last_token = ?, applied = ?, already = ?, "
                + "newer = ?, unknown_tokens = ?, rows_changed = ?, invalidated = ?, "
                + "refused = ?, rows_refused = ?, state = ?, changed_at = \(dialect.now) WHERE feed = ? AND part = ?",
            [
                .text(run), progress.position.map { .bytes($0.bytes) } ?? .null,
                .integer(Int64(counts.applied)), .integer(Int64(counts.already)),
                .integer(Int64(counts.newer)), .integer(Int64(counts.unknown)),
                .integer(Int64(progress.rowsChanged)),
                .integer(Int64(progress.rowsInvalidated)),
                .integer(Int64(counts.refused)), .integer(Int64(progress.rowsRefused)),
                .text(progress.isApplied ? "applied" : "applying"), .text(feed),
                .integer(Int64(part.index)),
            ])
    }
}
