import APNsProtocol
import Database
import TokenHygiene

/// The row of `pushsweep_feed` that stores the progress of a feed. It changes in the transaction of
/// every chunk, so it shows whether a lost commit took effect. Progress is never computed from
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

    /// Inserts the marker of a feed that is not yet begun, while the lease belongs to this run.
    func insert(
        _ application: FeedApplication, _ layout: TableLayout, _ connection: any SQLConnection
    ) throws(SQLFailure) {
        let row = NewRow(
            feed: feed, part: part, run: application.run, partition: application.partition,
            source: application.source.rawValue, isReleased: application.isReleased,
            isApplied: false)
        guard let lease = application.lease else {
            return try Self.insert(row, layout, connection)
        }
        try connection.begin()
        try Self.insert(row, layout, connection)
        try lease.hold(connection)
        try connection.commit()
    }

    /// Writes the markers of a run whose changes do not follow from a feed: one part per partition,
    /// applied from the start. With them the ledger's entries can be traced to partition and table.
    static func insert(
        feed: String, run: String, source: String, about partitions: [Partition],
        _ layout: TableLayout, _ connection: any SQLConnection
    ) throws(SQLFailure) {
        for (index, partition) in partitions.enumerated() {
            let row = NewRow(
                feed: feed, part: FeedPart(index: index, count: partitions.count), run: run,
                partition: partition, source: source, isReleased: false, isApplied: true)
            try insert(row, layout, connection)
        }
    }

    /// The values of a new marker.
    private struct NewRow {
        let feed: String
        let part: FeedPart
        let run: String
        let partition: Partition
        let source: String
        let isReleased: Bool
        let isApplied: Bool
    }

    private static func insert(
        _ row: NewRow, _ layout: TableLayout, _ connection: any SQLConnection
    ) throws(SQLFailure) {
        _ = try connection.execute(
            "INSERT INTO pushsweep_feed (feed, part, parts, run, app, environment, source, table_name, "
                + "key_columns, released, state) VALUES (\(placeholders(11)))",
            [
                .text(row.feed), .integer(Int64(row.part.index)), .integer(Int64(row.part.count)),
                .text(row.run), .text(row.partition.app), .text(row.partition.environment),
                .text(row.source), .text(layout.table.description), .text(layout.keyNames),
                .integer(row.isReleased ? 1 : 0),
                .text(row.isApplied ? "applied" : "applying"),
            ])
    }

    /// Moves the marker, inside the transaction that changes the rows.
    func update(
        _ progress: FeedProgress, run: String, _ layout: TableLayout,
        _ connection: any SQLConnection
    ) throws(SQLFailure) {
        let key = SQLValue.text(layout.keyNames)
        let counts = progress.counts
        _ = try connection.execute(
            "UPDATE pushsweep_feed SET run = ?, last_token = ?, applied = ?, already = ?, "
                + "newer = ?, unknown_tokens = ?, rows_changed = ?, invalidated = ?, "
                + "refused = ?, rows_refused = ?, state = ?, changed_at = \(dialect.now), "
                // A feed that began under one key and ends under another has entries of both.
                + "key_columns = CASE WHEN key_columns IS NULL OR key_columns = ? THEN key_columns "
                + "ELSE '' END WHERE feed = ? AND part = ?",
            [
                .text(run), progress.position.map { .bytes($0.bytes) } ?? .null,
                .integer(Int64(counts.applied)), .integer(Int64(counts.already)),
                .integer(Int64(counts.newer)), .integer(Int64(counts.unknown)),
                .integer(Int64(progress.rowsChanged)),
                .integer(Int64(progress.rowsInvalidated)),
                .integer(Int64(counts.refused)), .integer(Int64(progress.rowsRefused)),
                .text(progress.isApplied ? "applied" : "applying"), key, .text(feed),
                .integer(Int64(part.index)),
            ])
    }
}
