// Waiting rows that no app of the settings has. Nothing claims them, and a queue that only has such rows looks
// empty to every command that asks for the rows of an app. The usual cause is a default of the queue's column:
// an INSERT without an environment writes `production` where the mapping of the token table says 0.

import Database
import Findings
import TokenHygiene
import TokenTable

/// The waiting rows of a queue that belong to none of some partitions.
package struct UnownedRows: Hashable, Sendable {
    /// Rows with the same app and environment.
    struct Group: Hashable, Sendable {
        /// The columns with their values, of those that the table has.
        let values: [String]
        let count: Int
    }

    /// The most rows that are looked at.
    static let most = 100_000
    /// The most groups that are named.
    private static let mostNamed = 5

    /// The queue's name.
    package let table: String
    let groups: [Group]
    /// Whether there may be more rows than were looked at.
    let isCut: Bool
    /// The values under which rows are looked for.
    let wanted: [String]

    /// Number of rows, at the least.
    package var count: Int { groups.reduce(0) { $0 + $1.count } }

    /// What is wrong, in one sentence.
    package var sentence: String {
        let named = groups.prefix(Self.mostNamed).map {
            "\($0.values.joined(separator: ", ")) (\($0.count))"
        }
        let more = groups.count > Self.mostNamed ? "; and others" : ""
        return
            "\(isCut ? "at least " : "")\(count) waiting \(count == 1 ? "row" : "rows") of \(table) "
            + "\(count == 1 ? "belongs" : "belong") to no app of the settings, so no sender takes "
            + "\(count == 1 ? "it" : "them"): \(named.joined(separator: "; "))\(more)"
    }

    /// What to do about it.
    package var cure: String {
        let first = wanted.prefix(Self.mostNamed).joined(separator: "; or ")
        return
            "write what the settings look for into these rows, and let the program that inserts do so: "
            + "\(first); or name their app and environment in the settings"
    }

    /// The finding of an examination.
    package var finding: Finding { .warning("queue-rows-of-no-app", "\(sentence); \(cure)") }
}

extension TokenTable {
    /// The waiting rows of the queue that belong to none of the partitions; nil where there are none, and where
    /// the table tells no partitions apart. Costs a read of the open rows, in the index over them where the
    /// table has one.
    ///
    /// - Throws: `configuration` where the queue does not fit the settings; any failure of a query.
    package func unownedRows(_ partitions: [Partition]) throws(StoreFailure) -> UnownedRows? {
        let layout = try queueLayout()
        let columns = [layout.app, layout.environment].compactMap { $0 }
        guard !columns.isEmpty, !partitions.isEmpty else { return nil }
        let own = try partitions.map { partition throws(StoreFailure) in
            try layout.selection(of: partition).values
        }
        let readsDelivery = layout.delivery.isInRow ? true : try canReadDelivery()
        let statement = layout.unowned(
            columns, own.map { $0.map(\.value) }, connection.dialect, readsDelivery)
        let found = try retries.retrying(
            "looking for rows of \(layout.table) that belong to no app"
        ) {
            () throws(SQLFailure) in
            try connection.query(statement.sql, statement.values)
        }
        var groups: [UnownedRows.Group] = []
        var read = 0
        for row in 0..<found.count {
            let values = found.row(row)
            let cells = Array(values.dropFirst())
            let count = values.first?.count ?? 0
            read += count
            // Equality in SQL may be another than that of characters.
            if own.contains(where: { zip($0, cells).allSatisfy { $0.value == $1 } }) { continue }
            groups.append(.init(values: named(columns, cells), count: count))
        }
        guard !groups.isEmpty else { return nil }
        return UnownedRows(
            table: layout.name,
            groups: groups.sorted {
                ($1.count, $0.values.joined()) < ($0.count, $1.values.joined())
            },
            isCut: read >= UnownedRows.most,
            wanted: own.map { values in
                named(values.map(\.column), values.map(\.value)).joined(separator: ", ")
            })
    }

    /// Columns with values, as a condition spells them. A text from a row is cut.
    private func named(_ columns: [PartitionColumn], _ values: [SQLValue]) -> [String] {
        zip(columns, values).map { column, value in
            let text = value.text.map {
                connection.dialect.literal(String($0.unicodeScalars.prefix(64)))
            }
            return "\(column.name) = \(text ?? value.integer.map(String.init) ?? "NULL")"
        }
    }
}

extension QueueLayout {
    /// A statement for the numbers of open rows by app and environment, without those that certainly are of a
    /// partition.
    fileprivate func unowned(
        _ columns: [PartitionColumn], _ own: [[SQLValue]], _ dialect: SQLDialect,
        _ readsDelivery: Bool
    ) -> BoundSQL {
        let names = columns.map { "q.\(dialect.quoted($0.name))" }
        let source = source(
            dialect, hint: dialect.indexHint(openIndex), readsDelivery: readsDelivery)
        var terms: [String] = []
        if let sentAt { terms.append("q.\(dialect.quoted(sentAt.name)) IS NULL") }
        if readsDelivery { terms.append("\(state(delivery.answeredAt.name, dialect)) IS NULL") }
        var values = source.values
        if columns.allSatisfy(\.isExact) {
            for partition in own {
                terms.append(
                    "(\(names.map { "\($0) = ?" }.joined(separator: " AND "))) IS NOT TRUE")
                values += partition
            }
        }
        let cells = columns.indices.map { "c\($0)" }
        let listed = zip(names, cells).map { "\($0) AS \($1)" }.joined(separator: ", ")
        return (
            "SELECT COUNT(*), \(cells.map { "MIN(\($0))" }.joined(separator: ", ")) FROM (SELECT \(listed) "
                + "FROM \(source.sql) WHERE \(terms.isEmpty ? "1 = 1" : terms.joined(separator: " AND ")) "
                + "LIMIT \(UnownedRows.most)) AS w GROUP BY "
                + cells.map { "HEX(\($0)), \($0) IS NULL" }.joined(separator: ", "), values
        )
    }
}
