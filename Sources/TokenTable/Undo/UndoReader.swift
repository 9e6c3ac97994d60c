import APNsProtocol
import Database
import TokenHygiene

/// Reads the chosen entries of the ledger into a plan, without their images, page by page.
struct UndoReader {
    let layout: TableLayout
    let connection: any SQLConnection

    private static let page = 5_000

    /// Fills the plan with the entries of its runs.
    func fill(_ plan: UndoPlan) throws(SQLFailure) {
        var keys: Set<String>?
        if case .token(let token) = plan.selection { keys = try self.keys(of: token, plan.runs) }
        for (newness, run) in plan.runs.enumerated() {
            let parts = try connection.query(
                "SELECT DISTINCT feed, part FROM pushsweep_change WHERE run = ?", [.text(run.id)])
            for row in 0..<parts.count {
                guard let feed = parts[row, 0].text, let part = parts[row, 1].integer else {
                    continue
                }
                try read(run.id, feed, part, newness, keys, into: plan)
            }
        }
    }

    /// Reads the entries of one part of a feed.
    private func read(
        _ run: String, _ feed: String, _ part: Int64, _ newness: Int, _ keys: Set<String>?,
        into plan: UndoPlan
    ) throws(SQLFailure) {
        let marker = try connection.query(
            "SELECT app, environment, table_name, key_columns FROM pushsweep_feed "
                + "WHERE feed = ? AND part = ?",
            [.text(feed), .integer(part)])
        let isForeign =
            marker.count == 0 || marker[0, 2].text != layout.table.description
            || (marker[0, 3].text ?? layout.keyNames) != layout.keyNames
        let group = plan.groups.count
        if !isForeign {
            plan.groups.append(
                UndoPlan.Group(
                    run: run, feed: feed, part: part,
                    partition: Partition(
                        app: marker[0, 0].text ?? "", environment: marker[0, 1].text ?? "")))
        }
        let time = connection.dialect.ownTime("evidence_at")
        var sequence: Int64 = -1
        while true {
            let rows = try connection.query(
                "SELECT seq, action, row_key, evidence_at, source, before_image IS NOT NULL, "
                    + "changed_at FROM pushsweep_change WHERE run = ? AND feed = ? AND part = ? AND seq > ? "
                    + "ORDER BY seq LIMIT \(Self.page)",
                [.text(run), .text(feed), .integer(part), .integer(sequence)])
            for row in 0..<rows.count {
                sequence = rows[row, 0].integer ?? sequence
                let key = rows[row, 2].text ?? ""
                if let keys, !keys.contains(key) { continue }
                guard !isForeign else {
                    plan.hopeless[.foreign, default: 0] += 1
                    continue
                }
                try plan.add(
                    PlannedEntry(
                        group: group, sequence: sequence, action: rows[row, 1].text ?? "",
                        time: time.mark(rows[row, 3]) ?? EpochMilliseconds(0),
                        changed: time.mark(rows[row, 6]),
                        source: rows[row, 4].text ?? "", hasImage: rows[row, 5].count == 1),
                    key: key, newness: newness)
            }
            if rows.count < Self.page { return }
        }
    }

    /// The keys of a token in the ledger: those of its rows, that of its mark in the side table,
    /// and those of removed rows whose image has the token.
    private func keys(
        of token: DeviceToken, _ runs: [RunRecord]
    ) throws(SQLFailure) -> Set<String> {
        var keys: Set = [RowImage.key([.bytes(token.bytes)])]
        let evidence = [TokenEvidence(token: token, time: EpochMilliseconds(0))]
        if let lookup = try? RowLookup(layout, connection.dialect, nil, wholeRows: false) {
            for row in try lookup.rows(for: evidence[...], connection, locking: false).rows {
                let start = row.values.startIndex
                keys.insert(RowImage.key(lookup.key.map { row.values[start + $0] }))
            }
        }
        for run in runs {
            let rows = try connection.query(
                "SELECT row_key, before_image FROM pushsweep_change WHERE run = ? AND action IN "
                    + "('delete', 'insert') AND INSTR(LOWER(before_image), ?) > 0",
                [.text(run.id), .text(token.hex)])
            for row in 0..<rows.count {
                guard let image = rows[row, 1].text, let key = rows[row, 0].text else { continue }
                let content =
                    RowImageReader.content(image) ?? RowImageReader.step(image)?.after
                if content?[layout.token.name].flatMap(layout.token.token) == token {
                    keys.insert(key)
                }
            }
        }
        return keys
    }
}
