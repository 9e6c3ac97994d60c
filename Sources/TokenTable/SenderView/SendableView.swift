import Database
import Findings
import TokenHygiene

/// A view of the rows that may be sent to, for senders of other programs, with the same condition
/// for a sender without it.
package struct SendableView: Hashable, Sendable {
    /// The statements that make the view, without closing semicolons.
    package let statements: [String]
    /// The condition for the WHERE of a SELECT from the token table. It keeps the rows of other platforms, which the view
    /// leaves out.
    package let condition: [String]
    /// The application's own column of two values that has the marks; nil where marks are elsewhere.
    package let markColumn: String?

    /// The usual name.
    package static let usualName = "pushsweep_sendable"
}

/// Marks that no column of the token table has.
package enum MarksBeside {
    /// What they ask of a sender.
    package static let sentence =
        "marks stand in pushsweep_invalid: a sender of yours that does not read it goes on sending to these "
        + "devices; `pushsweep schema print --view` prints a view and a condition for its SELECT"
}

extension TokenTable {
    /// The view of sendable rows. `partitions` are those of the settings, with apps by the table's
    /// value.
    ///
    /// - Throws: `configuration` where the table does not fit the settings, `name` is no name of a
    ///   table, or the table does not show which app a row is of; any failure of a query.
    package func sendableView(
        named name: String = SendableView.usualName, partitions: [Partition]
    ) throws(StoreFailure) -> SendableView {
        let view = try TableName(name, setting: "the name of the view")
        let layout = try layout()
        let dialect = connection.dialect
        guard view.name.lowercased() != layout.table.name.lowercased() else {
            throw StoreFailure(
                .configuration,
                "making the view \(view): that is the name of the token table; choose another")
        }
        let rows = try sendableRows(partitions, countingSideMarks: try countsSideMarks(layout))
        let table = layout.table.sql(dialect)
        let condition = rows.terms
        let unlisted = try catalogTable().columns.filter { $0.isInvisible && !$0.movesItself }
        let list = (["*"] + unlisted.map { dialect.quoted($0.name) }).map { "\(table).\($0)" }
        let select =
            "AS\nSELECT \(list.joined(separator: ", ")) FROM \(table)\nWHERE \(condition.joined(separator: "\n  AND "))"
        let statements: [String]
        switch dialect.engine {
        case .mariaDB:
            statements = [
                // Without the account that makes it the view works on: it has the sender's rights.
                "CREATE OR REPLACE SQL SECURITY INVOKER VIEW \(view.sql(dialect)) \(select)"
            ]
        case .sqlite:
            statements = [
                "DROP VIEW IF EXISTS \(view.sql(dialect))",
                "CREATE VIEW \(view.sql(dialect)) \(select)",
            ]
        }
        return SendableView(
            statements: statements, condition: rows.keepingOtherPlatforms(condition),
            markColumn: layout.living?.name)
    }

    /// The rules for the rows of these partitions, with marks in `pushsweep_invalid` or without.
    func sendableRows(
        _ partitions: [Partition], countingSideMarks: Bool
    ) throws(StoreFailure) -> SendableRows {
        let layout = try layout()
        var sideMarks: (app: SendableRows.Word, environment: SendableRows.Word)?
        if countingSideMarks {
            sideMarks = (
                try word(of: layout.app, "app", partitions.map(\.app)),
                try word(of: layout.environment, "environment", partitions.map(\.environment))
            )
        }
        return SendableRows(
            layout: layout, table: try catalogTable(), dialect: connection.dialect,
            sideMarks: sideMarks)
    }

    /// Whether marks in `pushsweep_invalid` count: where the table has no mark, or has got one after
    /// marks were set there.
    func countsSideMarks(_ layout: TableLayout) throws(StoreFailure) -> Bool {
        if layout.living != nil { return false }
        guard layout.mark != nil else { return true }
        guard try decidesByTokenMarks(to: "making a view of sendable rows") else { return false }
        return try retries.retrying(
            "looking for marks in pushsweep_invalid",
            do: connection.query("SELECT 1 FROM pushsweep_invalid LIMIT 1").count > 0)
    }

    /// How a row names its app or environment: by its column, or all rows alike.
    private func word(
        of column: PartitionColumn?, _ setting: String, _ words: [String]
    ) throws(StoreFailure) -> SendableRows.Word {
        if let column { return .column(column) }
        let words = Set(words)
        guard let word = words.first, words.count == 1 else {
            throw StoreFailure(
                .configuration,
                "making a view of sendable rows: marks are kept by app and environment in "
                    + "pushsweep_invalid, and the token table has no column that shows which of "
                    + "\(words.count) a row belongs to; name one under store.active-users.\(setting)"
                    + (words.isEmpty ? ", or name the app under apps" : ""))
        }
        return .constant(word)
    }
}
