// A mark beside the table names the app of its row: the value of the column, or, where the table has none, the name in
// the settings. Once such an app is renamed, all of its marks stand under the old name. No statement finds them any
// more, and every dead token looks alive. So the first marks are looked at: where some name an app that the settings do
// not, and a batch made marks of such an app in this table, somebody has to decide. Marks that other settings made
// for another table of the same database say nothing. Nor do those in a table with a column of apps, since settings of
// another host may name the others.

import Database
import Findings
import TokenHygiene

/// Marks in `pushsweep_invalid`, of a table without a column of apps, that name an app which the settings do not name.
package struct StrandedMarks: Hashable, Sendable {
    /// The most marks that are looked at.
    static let most = 1_000
    /// The most apps that are named.
    private static let mostNamed = 3

    /// The apps that such marks name, and those of the settings.
    let found, wanted: [String]
    /// Whether no mark that was looked at names an app of the settings.
    package let isWhole: Bool

    /// Without any mark of their own the settings are wrong; beside own ones another host may know the app.
    package var severity: Severity { isWhole ? .high : .medium }

    /// What is wrong, in one sentence.
    package var sentence: String {
        "pushsweep_invalid has marks of app \(Self.names(found)) "
            + (isWhole
                ? "and none of \(Self.names(wanted)), so no token counts as dead"
                : "beside those of \(Self.names(wanted)), and the settings do not name it, so these marks do not count")
    }

    /// What to do about it.
    package var cure: String {
        "if an app was renamed, or its environment is another one now, give it back what it had under apps, since its "
            + "marks stand under that"
    }

    private static func names(_ apps: [String]) -> String {
        apps.prefix(mostNamed).map {
            "'\(String(String.UnicodeScalarView($0.unicodeScalars.prefix(40))))'"
        }
        .joined(separator: ", ")
    }

    /// The finding of an examination.
    package var finding: Finding { .warning("marks-of-no-app", "\(sentence); \(cure)") }
}

extension TokenTable {
    /// The marks beside the table that name no app of the partitions, which are all of the settings. Nil where there
    /// are none, where marks stand in the rows or the account may not see them, and where the table has a column of
    /// apps.
    ///
    /// - Throws: as `layout`; any failure of the query.
    package func strandedMarks(_ partitions: [Partition]) throws(StoreFailure) -> StrandedMarks? {
        let layout = try layout()
        guard layout.marksStandBeside, layout.app == nil, !partitions.isEmpty,
            try canReadTokenMarks()
        else { return nil }
        // Where rows have an environment, settings of another host may name the other one.
        func name(_ partition: Partition) -> String {
            layout.environment == nil ? "\(partition)" : partition.app
        }
        let wanted = Set(partitions.map(name))
        let found = try Set(
            self.partitions(
                "looking at marks in pushsweep_invalid",
                "SELECT app, environment FROM pushsweep_invalid ORDER BY token LIMIT \(StrandedMarks.most)",
                []
            ).map(name))
        guard !found.isSubset(of: wanted),
            try session.canRead(
                PushsweepTable.part.name, "app, environment, table_name, rows_changed")
        else { return nil }
        let table = layout.ignoresNameCase ? "LOWER(table_name) = LOWER(?)" : "table_name = ?"
        let made = try self.partitions(
            "looking for batches that made marks",
            "SELECT DISTINCT p.app, p.environment FROM pushsweep_part AS p WHERE p.rows_changed > 0 AND \(table)",
            [.text(layout.table.description)]
        ).map(name)
        let stranded = found.subtracting(wanted).intersection(made)
        guard !stranded.isEmpty else { return nil }
        return StrandedMarks(
            found: stranded.sorted(), wanted: wanted.sorted(),
            isWhole: found.isDisjoint(with: wanted))
    }

    private func partitions(
        _ doing: String, _ sql: String, _ values: [SQLValue]
    ) throws(StoreFailure) -> Set<Partition> {
        try retries.retrying(doing) { () throws(SQLFailure) in
            let rows = try connection.query(sql, values)
            return Set((0..<rows.count).map { rows.partition($0, 0) })
        }
    }
}
