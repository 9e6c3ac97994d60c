import APNsProtocol
import Database
import Encodings
import TokenHygiene

// Rows that refused a change are in the ledger, under numbers below 0. Reports name the first of
// them.

extension LedgerEntry {
    /// The row that refused its change and why, as the end of a sentence.
    package var refusalInWords: String {
        Self.refusal(of: storedKey, because: refusal.flatMap(RowRefusal.init))
    }

    /// The same for a key as the ledger spells it. A key may be a token, and no output shows a whole
    /// token.
    static func refusal(of key: String, because reason: RowRefusal?) -> String {
        var name = "with an unreadable key"
        if let values = RowImageReader.key(key) {
            name = values.map(shortened).joined(separator: ", ")
        }
        return "row \(name): \(reason?.words ?? "refused for a reason this version does not know")"
    }

    private static func shortened(_ value: SQLValue) -> String {
        let text =
            switch value {
            case .bytes(let bytes), .rawText(let bytes): Hex.text(bytes.prefix(5))
            case .text(let text): text
            case .integer(let number): "\(number)"
            case .unsigned(let number): "\(number)"
            case .real(let number): "\(number)"
            case .null, .wallClock: "NULL"
            }
        return text.count > 24 || isBytes(value) ? "\(text.prefix(8))…" : text
    }

    private static func isBytes(_ value: SQLValue) -> Bool {
        switch value {
        case .bytes, .rawText: true
        default: false
        }
    }
}

extension TokenTable {
    /// The first rows that refused a change of a feed which a run applied, at most `limit`.
    ///
    /// - Throws: any failure of reading.
    package func refusedChanges(
        ofFeed feed: String, run: String, limit: Int
    ) throws(StoreFailure) -> [LedgerEntry] {
        var found: [LedgerEntry] = []
        for part in 0..<(try parts(of: feed) ?? 0) where found.count < limit {
            found += try refusedChanges(
                ofFeed: feed, part: part, run: run, limit: limit - found.count)
        }
        return found
    }

    /// The first refused rows of one part.
    func refusedChanges(
        ofFeed feed: String, part: Int, run: String, limit: Int
    ) throws(StoreFailure) -> [LedgerEntry] {
        try retries.retrying(
            "reading the change ledger",
            do: LedgerReader(connection: connection).refusals(
                of: LedgerPlace(run: run, feed: feed, part: Int64(part)), limit: limit))
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
        var refused: [String: LedgerEntry] = [:]
        // The oldest first: a replayed feed has another id the second time.
        for row in (0..<feeds.count).reversed() {
            let changes = try refusedChanges(
                ofFeed: feeds[row, 1].text ?? "", part: feeds[row, 2].count ?? 0,
                run: feeds[row, 0].text ?? "", limit: 100)
            for change in changes where refused[change.storedKey] == nil {
                refused[change.storedKey] = change
            }
        }
        let remaining = try unchangedRefusals(refused, layout)
        guard let first = remaining.min(by: { $0.storedKey < $1.storedKey }) else { return [] }
        let count = remaining.count == 1 ? "1 row" : "\(remaining.count) rows"
        return [
            .warning(
                "\(layout.table): \(count) refused a change lately and may still be sent to, the first is "
                    + "\(first.refusalInWords); correct the rows, then replay the feed or wait for the next signal"
            )
        ]
    }

    /// The refused changes whose rows are still stale by the evidence.
    private func unchangedRefusals(
        _ refused: [String: LedgerEntry], _ layout: TableLayout
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
