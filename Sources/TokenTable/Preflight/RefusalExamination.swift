import Database
import TokenHygiene

// A row that refused a change may still be sent to. `check` reads the refused rows of the last
// feeds again and reports those that are unchanged.

extension TokenTable {
    /// The findings of `check` about rows that recently refused a change and are unchanged.
    func refusalFindings(_ layout: TableLayout) throws(StoreFailure) -> [StoreFinding] {
        guard try session.canRead("pushsweep_feed", "rows_refused"),
            try session.canRead("pushsweep_change", "run")
        else { return [] }
        let feeds = try retries.retrying("looking for rows that refused a change") {
            () throws(SQLFailure) in
            try connection.query(
                "SELECT run, feed, part FROM pushsweep_feed WHERE rows_refused > 0 AND table_name = ? "
                    + "ORDER BY changed_at DESC LIMIT 20", [.text(layout.table.description)])
        }
        var refused: [String: RefusedChange] = [:]
        // The oldest first: a replayed feed has another id the second time.
        for row in (0..<feeds.count).reversed() {
            let changes = try refusedChanges(
                feeds[row, 0].text ?? "", feeds[row, 1].text ?? "", feeds[row, 2].count ?? 0, 100)
            for change in changes where refused[change.key] == nil { refused[change.key] = change }
        }
        let remaining = try stillStanding(refused, layout)
        guard let first = remaining.sorted(by: { $0.key < $1.key }).first else { return [] }
        let count = remaining.count == 1 ? "1 row" : "\(remaining.count) rows"
        return [
            StoreFinding(
                .warning,
                "\(layout.table): \(count) refused a change lately and may still be sent to, the first is "
                    + "\(first); correct the rows, then replay the feed or wait for the next signal"
            )
        ]
    }

    /// The refused changes whose rows are still stale by the evidence.
    private func stillStanding(
        _ refused: [String: RefusedChange], _ layout: TableLayout
    ) throws(StoreFailure) -> [RefusedChange] {
        let keys = refused.keys.sorted().prefix(StatementShape.longest).compactMap { key in
            RowImageReader.key(key).flatMap { $0.count == layout.key.count ? $0 : nil }
        }
        guard !keys.isEmpty else { return [] }
        let lookup = try RowLookup(layout, connection.dialect, nil, wholeRows: false)
        let found = try retries.retrying("reading rows of \(layout.table)") {
            () throws(SQLFailure) in
            try lookup.rows(keys: keys, connection, locking: false)
        }
        return refused.values.filter { change in
            guard let values = found.rows[change.key],
                let row = lookup.match(values, evidence: 0)
            else { return change.reason == .unmatched }
            if row.obstacle != nil { return true }
            if let registered = row.registeredAt, registered > change.time { return false }
            return row.mark.map { $0 < layout.floor(change.time) } ?? true
        }
    }
}
