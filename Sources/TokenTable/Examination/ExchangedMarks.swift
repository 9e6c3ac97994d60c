import APNsProtocol
import Database
import Encodings
import Findings
import TokenHygiene

// Once this program has marked most dead rows itself, the rows alone no longer tell whether living and dead are
// exchanged in the settings. Its own marks do: none of them was set on a row that was dead already. So where
// the value before a mark that is still in force is the one that the settings call dead, they have been
// exchanged since. The entries of the ledger have that value. A purge drops them, and then the rows themselves
// tell it, where they have a time of registration: all of them read as living, and none registered later.

extension TokenTable {
    /// The parts of runs, the latest first, that are searched for marks in force.
    private static let mostParts = 20
    /// The entries of a part that are compared.
    private static let mostEntries = 100
    /// The rows with a mark of this program that tell it without the ledger.
    private static let fewest = 3

    /// The finding that living and dead are exchanged by marks of this program, nil without one. `rows` are
    /// sampled ones of token, registration where the table has one, and the column of two values.
    func exchangedMarks(
        _ layout: TableLayout, _ living: LivingColumn, _ rows: [ArraySlice<SQLValue>]
    ) throws(StoreFailure) -> Finding? {
        guard try canReadTokenMarks() else { return nil }
        var isLedgerSeen = try session.canRead(PushsweepTable.batch.name, "changed_at")
        if isLedgerSeen {
            isLedgerSeen = try session.canRead(
                PushsweepTable.part.name, "table_name, key_columns, rows_changed")
        }
        if isLedgerSeen {
            isLedgerSeen = try session.canRead(
                PushsweepTable.change.name, "action, token, before_image")
        }
        let marked = try retries.retrying("looking for own marks in the change ledger") {
            () throws(SQLFailure) -> Marked? in
            if isLedgerSeen, let latest = try latestMarks(layout, living) { return latest }
            return try marksAlone(layout, living, rows)
        }
        guard let marked, marked.wereDead > 0, marked.wereDead * 2 > marked.count else {
            return nil
        }
        let words = settings.mapping.living
        let (now, dead) = (words.living ?? "", words.dead ?? "")
        return .failure(
            .configuration,
            "column \(living.name) of \(layout.table): \(marked.wereDead) of \(marked.count) rows that this "
                + "program has marked, and whose marks are in force, were marked with `\(now)`, the value for "
                + "living, and `\(dead)` would count as dead: living and dead are exchanged; write living: "
                + "\(dead), dead: \(now) under store.active-users.living; where those marks are wrong, take "
                + "them back under these words before you exchange them (`pushsweep undo --list`)",
            isAboutRows: true)
    }

    /// Rows that this program has marked, and those of them that were dead before by the settings.
    private typealias Marked = (count: Int, wereDead: Int)

    /// The marks in force of the latest part that has any; nil without one.
    private func latestMarks(
        _ layout: TableLayout, _ living: LivingColumn
    ) throws(SQLFailure) -> Marked? {
        let parts = try connection.query(
            "SELECT p.run, p.number, p.key_columns FROM \(LedgerParts.ofBatches) WHERE p.rows_changed > 0 AND "
                + (layout.ignoresNameCase ? "LOWER(table_name) = LOWER(?) " : "table_name = ? ")
                + "ORDER BY b.changed_at DESC LIMIT \(Self.mostParts)",
            [.text(layout.table.description)])
        for part in 0..<parts.count
        where layout.entryColumns.likeness(to: parts[part, 2].text).hasMarkColumns {
            let entries = try connection.query(
                "SELECT token, before_image FROM pushsweep_change WHERE "
                    + "part = ? AND seq >= 0 AND action = 'mark' "
                    + "ORDER BY seq LIMIT \(Self.mostEntries)", [parts.part(part, 0).value])
            var before: [DeviceToken: SQLValue] = [:]
            for row in 0..<entries.count {
                guard let token = entries.token(row, 0), let image = entries[row, 1].text,
                    let value = RowImageReader.content(image)?[living.name]
                else { continue }
                before[token] = value
            }
            let inForce = try InvalidTokenTable.marks(
                on: before.keys.sorted(), of: nil, connection, locking: false)
            let values = before.filter { inForce[$0.key] != nil }.values
            if !values.isEmpty { return (values.count, values.count(where: living.isDead)) }
        }
        return nil
    }

    /// The same by sampled rows whose marks are in force; nil where they do not tell it.
    private func marksAlone(
        _ layout: TableLayout, _ living: LivingColumn, _ rows: [ArraySlice<SQLValue>]
    ) throws(SQLFailure) -> Marked? {
        guard let registration = layout.registration else { return nil }
        let tokens = Set(rows.compactMap { $0.first.flatMap(layout.token.token) })
        let marks = try InvalidTokenTable.marks(
            on: tokens.sorted(), of: nil, connection, locking: false)
        var marked = 0
        for row in rows {
            guard let token = row.first.flatMap(layout.token.token), let value = row.last,
                let time = marks[token]?.compactMap(\.time).max()
            else { continue }
            // The application may have taken the dead ones away.
            if living.isDead(value) { return nil }
            let registered = registration.registration(row[row.startIndex + 1])
            if registered.map({ $0 <= time }) ?? false, living.isLiving(value) { marked += 1 }
        }
        return marked >= Self.fewest ? (marked, marked) : nil
    }
}
