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
    /// The first rows that refused a change of a batch under the run that finished it, at most `limit`.
    ///
    /// - Throws: any failure of reading.
    package func refusedChanges(
        ofBatch batch: String, limit: Int
    ) throws(StoreFailure) -> [LedgerEntry] {
        let parts = try retries.retrying("reading the parts of a batch") {
            () throws(SQLFailure) in
            let rows = try connection.query(
                "SELECT run, number FROM pushsweep_part WHERE batch = \(ReportBatch.ofName) ORDER BY number",
                [.text(batch)])
            return (0..<rows.count).map { rows.part($0, 0) }
        }
        var found: [LedgerEntry] = []
        for part in parts where found.count < limit {
            found += try refusedChanges(of: part, limit: limit - found.count)
        }
        return found
    }

    /// The first refused rows of one part.
    func refusedChanges(
        of part: LedgerPart, limit: Int
    ) throws(StoreFailure) -> [LedgerEntry] {
        try retries.retrying(
            "reading the change ledger",
            do: LedgerReader(connection: connection).refusals(of: part, limit: limit))
    }
}

// A row that refused a change may still be sent to. `check` reads the refused rows of the last
// batches again and reports those that are unchanged.

extension TokenTable {
    /// The findings of `check` about rows that recently refused a change and are unchanged.
    func refusalFindings(_ layout: TableLayout) throws(StoreFailure) -> [Finding] {
        guard try session.canRead(PushsweepTable.batch.name, "changed_at"),
            try session.canRead(PushsweepTable.part.name, "table_name, rows_changed, rows_refused"),
            try session.canRead(PushsweepTable.change.name, "part")
        else { return [] }
        let parts = try retries.retrying(
            "looking for rows that refused a change",
            do: connection.query(
                "SELECT p.run, p.number FROM \(LedgerParts.ofBatches) WHERE p.rows_refused > 0 AND "
                    + (layout.ignoresNameCase ? "LOWER(table_name) = LOWER(?) " : "table_name = ? ")
                    + "ORDER BY b.changed_at DESC LIMIT 20", [.text(layout.table.description)]))
        var refused: [ExactText: LedgerEntry] = [:]
        // The oldest first: a replayed batch has another id the second time.
        for row in (0..<parts.count).reversed() {
            let changes = try refusedChanges(of: parts.part(row, 0), limit: 100)
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
                    + "\(first.refusalInWords); correct the rows, then replay the batch or wait for the next signal"
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
