// A mark beside the table names the app and environment of its row: the values of the columns, or, where the table has
// none, the name in the settings. Once such an app is renamed, all of its marks stand under the old name. No statement
// finds them any more, and every dead token looks alive. So the first marks of the table are looked at: where none of
// them belongs to an app of the settings, and a batch made marks of such an app in this table, somebody has to decide.
// Marks that other settings made for another table of the same database say nothing.

import Database
import Findings
import TokenHygiene

/// Marks in `pushsweep_invalid`, none of which belongs to an app of the settings.
package struct StrandedMarks: Hashable, Sendable {
    /// The most marks that are looked at.
    static let most = 1_000
    /// The most apps that are named.
    private static let mostNamed = 3

    /// The marks that were looked at, by the app and environment that they name.
    let found: [Partition: Int]
    /// What the settings name.
    let wanted: [Partition]
    /// Whether the names are those of the settings, because the table has no column of apps.
    let isByName: Bool

    /// What is wrong, in one sentence.
    package var sentence: String {
        let names = found.keys.sorted { "\($0)" < "\($1)" }.prefix(Self.mostNamed)
        return
            "pushsweep_invalid has marks of \(names.map { $0.shortened }.joined(separator: ", ")) and none of "
            + "\(wanted.prefix(Self.mostNamed).map { $0.shortened }.joined(separator: ", ")), so no token counts "
            + "as dead"
    }

    /// What to do about it.
    package var cure: String {
        isByName
            ? "if an app was renamed, give it its old name under apps, since its marks stand under that"
            : "compare the values of app and environment in the settings with those of the marks"
    }

    /// The finding of an examination.
    package var finding: Finding { .warning("\(sentence); \(cure)") }
}

extension TokenTable {
    /// The marks beside the table that belong to none of the partitions, which are all of the settings. Nil where one
    /// belongs, where there are none, and where marks stand in the rows or the account may not see them.
    ///
    /// - Throws: as `layout`; any failure of the query.
    package func strandedMarks(_ partitions: [Partition]) throws(StoreFailure) -> StrandedMarks? {
        let layout = try layout()
        guard layout.marksStandBeside, !partitions.isEmpty, try canReadTokenMarks() else {
            return nil
        }
        let found = try retries.retrying("looking at marks in pushsweep_invalid") {
            () throws(SQLFailure) -> [Partition: Int] in
            let rows = try connection.query(
                "SELECT app, environment FROM pushsweep_invalid ORDER BY token LIMIT \(StrandedMarks.most)"
            )
            return (0..<rows.count).reduce(into: [:]) { $0[rows.partition($1, 0), default: 0] += 1 }
        }
        guard !found.isEmpty, !partitions.contains(where: { found[$0] != nil }) else { return nil }
        let made = try partitionsChanged(in: layout)
        let ours = found.filter { made.contains($0.key) }
        guard !ours.isEmpty else { return nil }
        return StrandedMarks(found: ours, wanted: partitions, isByName: layout.app == nil)
    }

    /// The apps and environments of which batches have changed rows or marks of a table.
    private func partitionsChanged(in layout: TableLayout) throws(StoreFailure) -> Set<Partition> {
        guard try session.canRead("pushsweep_feed", "app, environment, table_name, rows_changed")
        else { return [] }
        let name = layout.ignoresNameCase ? "LOWER(table_name) = LOWER(?)" : "table_name = ?"
        return try retries.retrying("looking for batches that made marks") {
            () throws(SQLFailure) in
            let rows = try connection.query(
                "SELECT DISTINCT app, environment FROM pushsweep_feed WHERE rows_changed > 0 AND \(name)",
                [.text(layout.table.description)])
            return Set((0..<rows.count).map { rows.partition($0, 0) })
        }
    }
}
