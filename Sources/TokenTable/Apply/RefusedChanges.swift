import APNsProtocol
import Database
import Encodings
import TokenHygiene

// Rows that refused a change are in the ledger, under numbers below 0. Reports name the first of
// them.

/// A row that stayed unchanged although the evidence called for a change.
package struct RefusedChange: Hashable, Sendable, CustomStringConvertible {
    /// The feed's id in the ledger.
    package let feed: String
    /// The row's key as the ledger spells it. May contain a whole token.
    let key: String
    /// The reason; nil for one that only later versions know.
    package let reason: RowRefusal?
    /// The time of the evidence.
    package let time: EpochMilliseconds

    /// The key, with long values shortened, and the reason.
    package var description: String {
        "row \(shortKey): \(reason?.words ?? "refused for a reason this version does not know")"
    }

    /// A key may be a token, and no output shows a whole token.
    private var shortKey: String {
        guard let values = RowImageReader.key(key) else { return "with an unreadable key" }
        return values.map { value in
            let text =
                switch value {
                case .bytes(let bytes), .rawText(let bytes):
                    Hex.text(bytes.prefix(5))
                case .text(let text): text
                case .integer(let number): "\(number)"
                case .unsigned(let number): "\(number)"
                case .real(let number): "\(number)"
                case .null, .wallClock: "NULL"
                }
            return text.count > 24 || isBytes(value) ? "\(text.prefix(8))…" : text
        }.joined(separator: ", ")
    }

    private func isBytes(_ value: SQLValue) -> Bool {
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
    ) throws(StoreFailure) -> [RefusedChange] {
        var found: [RefusedChange] = []
        for part in 0..<(try parts(of: feed) ?? 0) where found.count < limit {
            found += try refusedChanges(
                ofFeed: feed, part: part, run: run, limit: limit - found.count)
        }
        return found
    }

    /// The first refused rows of one part.
    func refusedChanges(
        ofFeed feed: String, part: Int, run: String, limit: Int
    ) throws(StoreFailure) -> [RefusedChange] {
        let time = connection.dialect.ownTime("evidence_at")
        return try retries.retrying("reading the change ledger") { () throws(SQLFailure) in
            let rows = try connection.query(
                "SELECT row_key, before_image, evidence_at FROM pushsweep_change WHERE run = ? "
                    + "AND feed = ? AND part = ? AND seq < 0 ORDER BY seq DESC LIMIT \(limit)",
                [.text(run), .text(feed), .integer(Int64(part))])
            return (0..<rows.count).map { row in
                let image = rows[row, 1].text.flatMap(RowImageReader.content)
                return RefusedChange(
                    feed: feed, key: rows[row, 0].text ?? "",
                    reason: image?[ChangeLedger.refused]?.text.flatMap(RowRefusal.init),
                    time: time.mark(rows[row, 2]) ?? EpochMilliseconds(0))
            }
        }
    }
}

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
                "SELECT run, feed, part FROM pushsweep_feed WHERE rows_refused > 0 AND "
                    + (layout.ignoresNameCase ? "LOWER(table_name) = LOWER(?) " : "table_name = ? ")
                    + "ORDER BY changed_at DESC LIMIT 20", [.text(layout.table.description)])
        }
        var refused: [String: RefusedChange] = [:]
        // The oldest first: a replayed feed has another id the second time.
        for row in (0..<feeds.count).reversed() {
            let changes = try refusedChanges(
                ofFeed: feeds[row, 1].text ?? "", part: feeds[row, 2].count ?? 0,
                run: feeds[row, 0].text ?? "", limit: 100)
            for change in changes where refused[change.key] == nil { refused[change.key] = change }
        }
        let remaining = try unchangedRefusals(refused, layout)
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
    private func unchangedRefusals(
        _ refused: [String: RefusedChange], _ layout: TableLayout
    ) throws(StoreFailure) -> [RefusedChange] {
        let keys = refused.keys.sorted().prefix(StatementShape.longest).compactMap { key in
            RowImageReader.key(key).flatMap { $0.count == layout.key.count ? $0 : nil }
        }
        guard !keys.isEmpty else { return [] }
        let lookup = try RowLookup(layout, connection, nil, wholeRows: false)
        let found = try retries.retrying("reading rows of \(layout.table)") {
            () throws(SQLFailure) in
            try lookup.rows(keys: keys, locking: false)
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
