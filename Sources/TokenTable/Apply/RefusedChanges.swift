import APNsProtocol
import Database
import Encodings
import Findings
import TokenHygiene

// Rows that refused a change are in the ledger, under numbers below 0. Reports name the first of
// them.

extension LedgerEntry {
    /// The row that refused its change and why, as the end of a sentence.
    package var refusalInWords: String {
        Self.refusal(of: key, because: refusal.flatMap(RowRefusal.init))
    }

    /// The same for a key as the ledger spells it. A key may be a token, and no output shows a whole
    /// token.
    static func refusal(of key: LedgerKey, because reason: RowRefusal?) -> String {
        let name = key.textInWords
        return "row \(name.isEmpty ? "with an unreadable key" : name): "
            + (reason?.words ?? "refused for a reason this version does not know")
    }
}

extension TokenTable {
    /// The first rows that refused a change of a feed under the run that finished it, at most `limit`.
    ///
    /// - Throws: any failure of reading.
    package func refusedChanges(
        ofFeed feed: String, limit: Int
    ) throws(StoreFailure) -> [LedgerEntry] {
        let places = try retries.retrying("reading the checkpoints of a feed") {
            () throws(SQLFailure) in
            let rows = try connection.query(
                "SELECT run, feed, part FROM pushsweep_feed WHERE feed = ? ORDER BY part",
                [.text(feed)])
            return (0..<rows.count).map { rows.place($0, 0) }
        }
        var found: [LedgerEntry] = []
        for place in places where found.count < limit {
            found += try refusedChanges(of: place, limit: limit - found.count)
        }
        return found
    }

    /// The first refused rows of one part.
    func refusedChanges(
        of place: LedgerPlace, limit: Int
    ) throws(StoreFailure) -> [LedgerEntry] {
        try retries.retrying(
            "reading the change ledger",
            do: LedgerReader(connection: connection).refusals(of: place, limit: limit))
    }
}

// A row that refused a change may still be sent to. `check` reads the refused rows of the last
// feeds again and reports those that are unchanged.

extension TokenTable {
    /// The findings of `check` about rows that recently refused a change and are unchanged.
    func refusalFindings(_ layout: TableLayout) throws(StoreFailure) -> [Finding] {
        guard try session.canRead("pushsweep_feed", "rows_refused"),
            try session.canRead(PushsweepTable.change.name, "run")
        else { return [] }
        let feeds = try retries.retrying(
            "looking for rows that refused a change",
            do: connection.query(
                "SELECT run, feed, part FROM pushsweep_feed WHERE rows_refused > 0 AND "
                    + (layout.ignoresNameCase ? "LOWER(table_name) = LOWER(?) " : "table_name = ? ")
                    + "ORDER BY changed_at DESC LIMIT 20", [.text(layout.table.description)]))
        var refused: [ExactText: LedgerEntry] = [:]
        // The oldest first: a replayed feed has another id the second time.
        for row in (0..<feeds.count).reversed() {
            let changes = try refusedChanges(of: feeds.place(row, 0), limit: 100)
            for change in changes where refused[change.storedKey] == nil {
                refused[change.storedKey] = change
            }
        }
        let remaining = try unchangedRefusals(refused, layout)
        guard let first = remaining.min(by: { $0.storedKey < $1.storedKey }) else { return [] }
        let count = remaining.count == 1 ? "1 row" : "\(remaining.count) rows"
        return [
            .warning(
                "refused-changes",
                "\(layout.table): \(count) refused a change lately and may still be sent to, the first is "
                    + "\(first.refusalInWords); correct the rows, then replay the feed or wait for the next signal"
            )
        ]
    }

    /// The refused changes whose rows are still stale by the evidence.
    private func unchangedRefusals(
        _ refused: [ExactText: LedgerEntry], _ layout: TableLayout
    ) throws(StoreFailure) -> [LedgerEntry] {
        let keys = refused.keys.sorted().prefix(StatementShape.longest).compactMap { key in
            RowImageReader.key(key).flatMap { $0.count == layout.key.count ? $0 : nil }
        }
        guard !keys.isEmpty else { return [] }
        let lookup = try RowLookup(layout, connection, nil, wholeRows: false)
        let found = try retries.retrying(
            "reading rows of \(layout.table)", do: lookup.rows(keys: keys, locking: false))
        return refused.values.filter { change in
            guard let values = found.rows[change.storedKey],
                let row = lookup.match(values, evidence: 0)
            else { return change.refusal == RowRefusal.unmatched.rawValue }
            if row.obstacle != nil { return true }
            if let registered = row.registeredAt, registered > change.evidence { return false }
            return row.mark.map { $0 < layout.floor(change.evidence) } ?? true
        }
    }
}
