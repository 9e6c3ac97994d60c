// The ledger names what wrote an entry by one number: that of a part. A part is what one run changes by one batch,
// under one mapping, or what an undo changes in one app and environment:
//
//   run -+- part 7, batch 3 -- entries 0, 1, 2, ...
//        +- part 8, batch 4 -- entries 0, 1, ...
//   a run that goes on with batch 3 -- part 9, batch 3 -- its entries are numbered behind those of part 7
//
// So an entry's run, app, source, table and columns are exactly those under which it was written, also where a run was
// killed and another, perhaps with other settings, went on. A part is made in the transaction that begins its
// work, and goes with its last entry.

import Database
import TokenHygiene

/// The rows of `pushsweep_part`.
struct LedgerParts {
    /// The parts that have a batch, `p`, with it, `b`.
    static let ofBatches = "pushsweep_part AS p JOIN pushsweep_batch AS b ON b.number = p.batch"

    let connection: any SQLConnection

    /// The part of a run that judges a batch under a mapping, which is made where it is not there. The caller's
    /// transaction has locked the row of the batch. The app is the table's value.
    func open(
        _ batch: String, by run: String, in partition: Partition, _ source: EvidenceSource,
        mapping: String?, _ layout: TableLayout
    ) throws(SQLFailure) -> LedgerPart {
        let values: [SQLValue] = [
            .text(run), .text(partition.app), .text(partition.environment), .text(source.rawValue),
            .text(layout.table.description), .text(layout.entryColumns.text),
            mapping.map(SQLValue.text) ?? .null, .text(batch),
        ]
        func known() throws(SQLFailure) -> LedgerPart? {
            let found = try connection.query(
                "SELECT MAX(number) FROM pushsweep_part WHERE run = ? AND app = ? AND environment = ? AND source = ? "
                    + "AND table_name = ? AND key_columns = ? AND COALESCE(mapping, '') = COALESCE(?, '') AND batch = \(ReportBatch.ofName)",
                values)
            return found.scalar?.integer.map { LedgerPart(run: run, number: $0) }
        }
        if let part = try known() { return part }
        _ = try connection.execute(
            "INSERT INTO pushsweep_part (run, app, environment, source, table_name, key_columns, mapping, batch) "
                + "SELECT \(placeholders(7)), number FROM pushsweep_batch WHERE name = ?", values)
        guard let part = try known() else {
            throw SQLFailure(
                kind: .conflict, code: 0,
                message: "batch \(batch) is gone, or its part of the run cannot be read"
            )
        }
        return part
    }

    /// Notes that reports which moved from one batch into another were judged under all mappings of the first. The parts
    /// that say so are of the run to which the second belongs, and have no entries.
    func inherit(from old: String, into batch: String) throws(SQLFailure) {
        _ = try connection.execute(
            "INSERT INTO pushsweep_part (run, batch, app, environment, source, table_name, key_columns, mapping) "
                + "SELECT DISTINCT b.run, b.number, p.app, p.environment, p.source, p.table_name, p.key_columns, "
                + "p.mapping FROM pushsweep_part AS p JOIN pushsweep_batch AS b ON b.name = ? "
                + "WHERE p.batch = \(ReportBatch.ofName) AND p.mapping IS NOT NULL AND NOT EXISTS (SELECT 1 FROM "
                + "pushsweep_part AS q WHERE q.batch = b.number AND q.mapping = p.mapping)",
            [.text(batch), .text(old)])
    }

    /// Notes that what found no row in a batch was looked for under a mapping, by a run.
    func note(_ mapping: String, of batch: String, by run: String) throws(SQLFailure) {
        _ = try connection.execute(
            "INSERT INTO pushsweep_part (run, batch, app, environment, source, table_name, key_columns, mapping) "
                + "SELECT ?, number, app, environment, source, '', '', ? FROM pushsweep_batch WHERE name = ? AND NOT EXISTS "
                + "(SELECT 1 FROM pushsweep_part AS q WHERE q.batch = pushsweep_batch.number AND q.mapping = ?)",
            [.text(run), .text(mapping), .text(batch), .text(mapping)])
    }

    /// Makes the part of an undo in an app, by the table's value, and environment.
    func insert(
        undo run: String, of partition: Partition, _ layout: TableLayout
    ) throws(SQLFailure) {
        _ = try connection.execute(
            "INSERT INTO pushsweep_part (run, app, environment, source, table_name, key_columns) "
                + "VALUES (\(placeholders(6)))",
            [
                .text(run), .text(partition.app), .text(partition.environment),
                .text(LedgerEntry.undoSource), .text(layout.table.description),
                .text(layout.entryColumns.text),
            ])
    }

    /// The parts of an undo, in the order in which they were made.
    ///
    /// - Throws: `configuration` where it was begun for another token or mark.
    func parts(
        ofUndo run: String, _ layout: TableLayout
    ) throws(SQLFailure) -> [(part: LedgerPart, partition: Partition)] {
        let rows = try connection.query(
            "SELECT run, number, app, environment, key_columns FROM pushsweep_part WHERE run = ? ORDER BY number",
            [.text(run)])
        for row in 0..<rows.count
        where !layout.entryColumns.likeness(to: rows[row, 4].text).hasMark {
            throw SQLFailure(
                kind: .configuration, code: 0,
                message:
                    "it was begun under settings with another key, token or mark column; continue it "
                    + "under those")
        }
        return (0..<rows.count).map { (rows.part($0, 0), rows.partition($0, 2)) }
    }
}
