// Which statements give a row the other environment. The application moves its rows, not this program: what it stores
// beside them may have to follow, and only it knows.
//
//   UPDATE t SET environment = 'sandbox' WHERE key AND token AND environment AND registration are as they were read
//     AND no row there has the token
//
// So a row that got another token, registered again or moved meanwhile is left alone, and so is one whose device has a row
// there by now. The statement back is the same with the two environments exchanged: it finds the rows as the first one
// leaves them.

import APNsProtocol
import Database
import Encodings
import Findings
import TokenHygiene

/// The statements that move rows of one app to the other environment, and back.
package struct MoveStatements {
    private let layout: TableLayout
    private let columns: [String]
    private let dialect: SQLDialect
    private let column: PartitionColumn
    /// The values of the column before and after.
    private let here, there: SQLValue
    /// The column of apps with its value, where the table has one.
    private let app: (name: String, value: SQLValue)?

    /// Prepares the statements for the rows of a search in the same partition.
    ///
    /// - Throws: `configuration` where no column says of which environment a row is, or where it is computed.
    package init(
        _ table: TokenTable, _ search: EnvironmentSearch, of partition: Partition
    ) throws(StoreFailure) {
        layout = try table.layout()
        (columns, dialect) = (search.columns, table.connection.dialect)
        let doing = "printing statements that move rows of \(layout.table)"
        guard let column = layout.environment, let other = partition.elsewhere else {
            throw StoreFailure(
                .configuration,
                "\(doing): no column says of which environment a row is; the application has to move them, and "
                    + "pushsweep environments --list FILE lists them")
        }
        guard !layout.generated.contains(where: { $0.lowercased() == column.name.lowercased() })
        else {
            throw StoreFailure(
                .configuration,
                "\(doing): \(column.name) is computed from other columns; the application has to move them, and pushsweep "
                    + "environments --list FILE lists them")
        }
        self.column = column
        here = try column.value(for: partition.environment)
        there = try column.value(for: other.environment)
        app = try layout.app.map { app throws(StoreFailure) in
            (app.name, try app.value(for: partition.app))
        }
    }

    /// What a client runs before the statements, so that it reads times as they were read here, and so that triggers which
    /// spare this program take the change for no registration; and what it runs behind them.
    package static func frame(_ engine: SQLDialect.Engine) -> (before: [String], after: [String]) {
        guard engine == .mariaDB else { return ([], []) }
        return (
            [
                "SET @pushsweep_zone = @@time_zone", "SET time_zone = '+00:00'",
                "SET @pushsweep = 1",
            ],
            ["SET @pushsweep = NULL", "SET time_zone = @pushsweep_zone"]
        )
    }

    /// The statements for a row, without closing semicolons; nil for one with a value that no literal stands for.
    package func pair(for row: MisplacedRow) -> (move: String, back: String)? {
        guard let move = update(row, from: here, to: there),
            let back = update(row, from: there, to: here)
        else { return nil }
        return (move, back)
    }

    private func update(_ row: MisplacedRow, from: SQLValue, to: SQLValue) -> String? {
        guard let former = literal(from), let next = literal(to) else { return nil }
        var conditions: [String] = []
        var seen: Set<ExactText> = [ExactText(column.name.lowercased())]
        let named =
            layout.key.map(\.name)
            + [layout.token.name, layout.registration?.name]
            .compactMap { $0 }
        for name in named where seen.insert(ExactText(name.lowercased())).inserted {
            guard let place = columns.firstIndex(exactly: name) else { return nil }
            let value = row.values[row.values.startIndex + place]
            guard value != .null else {
                conditions.append("\(dialect.quoted(name)) IS NULL")
                continue
            }
            guard let literal = literal(value) else { return nil }
            conditions.append("\(dialect.quoted(name)) = \(literal)")
        }
        let name = dialect.quoted(column.name)
        conditions.append("\(name) = \(former)")
        guard let taken = taken(row, next) else { return nil }
        conditions.append(taken)
        // Keeps the engine from writing the registration by itself.
        let kept = layout.heldColumns.map(dialect.quoted).map { ", \($0) = \($0)" }.joined()
        return "UPDATE\(layout.orAbort) \(layout.table.sql(dialect)) SET \(name) = \(next)\(kept) "
            + "WHERE \(conditions.joined(separator: " AND "))"
    }

    /// That no row of the other side has the token. A server reads a table that it updates only behind a LIMIT.
    private func taken(_ row: MisplacedRow, _ next: String) -> String? {
        guard let place = columns.firstIndex(exactly: layout.token.name),
            let token = literal(row.values[row.values.startIndex + place])
        else { return nil }
        var terms = [
            "\(dialect.quoted(layout.token.name)) = \(token)",
            "\(dialect.quoted(column.name)) = \(next)",
        ]
        if let app {
            guard let value = literal(app.value) else { return nil }
            terms.append("\(dialect.quoted(app.name)) = \(value)")
        }
        return "NOT EXISTS (SELECT 1 FROM (SELECT 1 FROM \(layout.table.sql(dialect)) WHERE "
            + "\(terms.joined(separator: " AND ")) LIMIT 1) AS taken)"
    }

    /// A value as a person may paste it; nil for NULL and for text that is not UTF-8.
    private func literal(_ value: SQLValue) -> String? {
        switch value {
        case .null, .rawText: nil
        case .integer(let number): "\(number)"
        case .unsigned(let number): "\(number)"
        case .real(let number): "\(number)"
        case .text(let text): dialect.literal(text.string)
        case .bytes(let bytes): "x'\(Hex.text(bytes))'"
        case .wallClock(let clock): "'\(clock.text(fraction: 6))'"
        }
    }
}
