import Database
import TokenHygiene

// The statements that change the user's rows. Each names its rows by key and repeats, in the same
// WHERE, the token and the registration that were read and judged: a row changed in between, or another
// row that the key finds, is then not found, whatever the engine's locks are worth, the number of rows
// found differs, and the chunk is rolled back and redone.
//
// Every row gets its own mark time in one statement. For whole-number keys
// `ELT(INTERVAL(key, k1, k2, …), t1, t2, …)` over sorted keys is a binary search per row; for other
// keys a CASE, which is linear and so comes in runs of 100. SQLite, in our own process, takes one
// prepared statement per row.

/// Builds the statements that mark and delete rows of one table.
struct ChangeStatements {
    let layout: TableLayout
    let lookup: RowLookup
    let dialect: SQLDialect
    /// Stored with marks; nil where none are set.
    let source: EvidenceSource?
    /// Whether changes repeat the mark too, not only the registration.
    var repeatsMark = false

    /// A statement with its values and the rows it has to find.
    struct Statement {
        /// What its rows are afterwards.
        enum Effect {
            case removed
            case marked
            /// The mark's column holds this value.
            case holding(SQLValue)
        }

        let sql: String
        let values: [SQLValue]
        let changes: ArraySlice<RowChange>
        let effect: Effect
    }

    /// The statements for some changes, each change in one of them.
    func statements(for changes: [RowChange]) -> [Statement] {
        let deletes = changes.filter { $0.verdict == .delete }
        let marks = changes.filter { $0.verdict != .delete }
        return batches(deletes, longest: usesKeyList ? StatementShape.longest : linear).map(delete)
            + batches(marks, longest: usesBinarySearch(marks) ? StatementShape.longest : linear)
            .map(mark)
    }

    private var linear: Int {
        dialect.changesRowsInBatches ? StatementShape.longestLinear : 1
    }

    private var usesKeyList: Bool { dialect.changesRowsInBatches && layout.key.count == 1 }

    /// Numbers above `Int64.max` are left to CASE: INTERVAL sorts them below zero.
    private func usesBinarySearch(_ changes: some Sequence<RowChange>) -> Bool {
        usesKeyList && layout.key[0].isInteger && changes.allSatisfy { number($0) != nil }
    }

    /// The statements that put given values in place of mark and reason.
    func restoring(_ content: RowContent, of changes: [RowChange]) -> [Statement] {
        batches(changes, longest: usesKeyList ? StatementShape.longest : linear).map { changes in
            let condition = condition(on: changes)
            let assignments = content.columns.map { "\(dialect.quoted($0)) = ?" }
            return Statement(
                sql: "UPDATE \(layout.table.sql(dialect)) SET "
                    + (assignments + selfAssignments).joined(separator: ", ")
                    + " WHERE \(condition.sql)",
                values: content.values + condition.values, changes: changes,
                effect: .holding(layout.mark.flatMap { content[$0.name] } ?? .null))
        }
    }

    /// Keeps the engine from moving the registration.
    private var selfAssignments: [String] {
        guard layout.registrationMovesItself, let registration = layout.registration else {
            return []
        }
        let column = dialect.quoted(registration.name)
        return ["\(column) = \(column)"]
    }

    /// Changes in runs, those whose guard values are NULL apart: NULL is in no list. In key order,
    /// which INTERVAL needs and which meets other transactions in the same order.
    private func batches(_ changes: [RowChange], longest: Int) -> [ArraySlice<RowChange>] {
        let ordered = changes.sorted { (number($0) ?? 0) < (number($1) ?? 0) }
        let kinds = Dictionary(grouping: ordered) { change in
            guards.reduce(0) { $0 * 2 + (value(change, $1) == .null ? 1 : 0) }
        }
        return kinds.sorted { $0.key < $1.key }.flatMap { $0.value.runs(of: longest) }
    }

    /// Where the values stand that are repeated in the WHERE.
    private var guards: [Int] {
        [lookup.token] + [lookup.registration, repeatsMark ? lookup.mark : nil].compactMap { $0 }
    }

    private func number(_ change: RowChange) -> Int64? {
        change.row.values[change.row.values.startIndex + lookup.key[0]].integer
    }

    /// The values of a row's key.
    func key(_ change: RowChange) -> [SQLValue] {
        lookup.key.map { change.row.values[change.row.values.startIndex + $0] }
    }

    /// A row's name in the ledger.
    func name(of change: RowChange) -> String { RowImage.key(key(change)) }

    private func value(_ change: RowChange, _ column: Int) -> SQLValue {
        change.row.values[change.row.values.startIndex + column]
    }

    private func delete(_ changes: ArraySlice<RowChange>) -> Statement {
        let condition = condition(on: changes)
        return Statement(
            sql: "DELETE FROM \(layout.table.sql(dialect)) WHERE \(condition.sql)",
            values: condition.values, changes: changes, effect: .removed)
    }

    private func mark(_ changes: ArraySlice<RowChange>) -> Statement {
        let condition = condition(on: changes)
        let time = markTime(changes)
        let name = dialect.quoted(layout.mark?.name ?? "")
        var sql = "UPDATE \(layout.table.sql(dialect)) SET \(name) = \(time.sql)"
        var values = time.values
        if let reason = layout.reason, let source {
            sql += ", \(dialect.quoted(reason)) = ?"
            values.append(.text(source.rawValue))
        }
        for assignment in selfAssignments { sql += ", \(assignment)" }
        return Statement(
            sql: "\(sql) WHERE \(condition.sql)", values: values + condition.values,
            changes: changes, effect: .marked)
    }

    private func markTime(_ changes: ArraySlice<RowChange>) -> (sql: String, values: [SQLValue]) {
        func value(_ change: RowChange) -> SQLValue { layout.mark?.value(change.time) ?? .null }
        if changes.count == 1, let change = changes.first { return ("?", [value(change)]) }
        let padded = StatementShape.padded(changes)
        if usesBinarySearch(changes) {
            let places = placeholders(padded.count)
            return (
                "ELT(INTERVAL(\(dialect.quoted(layout.key[0].name)), \(places)), \(places))",
                padded.map { key($0)[0] } + padded.map(value)
            )
        }
        let match = layout.key.map { "\(dialect.quoted($0.name)) = ?" }.joined(separator: " AND ")
        let cases = repeatElement("WHEN \(match) THEN ?", count: padded.count)
        return (
            "CASE \(cases.joined(separator: " ")) END", padded.flatMap { key($0) + [value($0)] }
        )
    }

    /// Reads the mark, where there is one, of the rows that some changes name by key and token.
    func rereading(_ changes: ArraySlice<RowChange>) -> (sql: String, values: [SQLValue]) {
        let column = layout.mark.map { dialect.quoted($0.name) } ?? "NULL"
        let match = (layout.key.map(\.name) + [layout.token.name])
            .map { "\(dialect.quoted($0)) = ?" }.joined(separator: " AND ")
        let padded = StatementShape.padded(changes)
        let rows = repeatElement("(\(match))", count: padded.count).joined(separator: " OR ")
        return (
            "SELECT \(column) FROM \(layout.table.sql(dialect)) WHERE \(rows)",
            padded.flatMap { key($0) + [value($0, lookup.token)] }
        )
    }

    /// A statement that fails where no row of the table can be changed as these are, whatever the row.
    func probe(_ statement: Statement) -> String {
        let table = layout.table.sql(dialect)
        let column = dialect.quoted(layout.mark?.name ?? layout.key[0].name)
        if case .removed = statement.effect {
            return "DELETE FROM \(table) WHERE \(dialect.quoted(layout.key[0].name)) = NULL"
        }
        return "UPDATE \(table) SET \(column) = \(column) WHERE 1 = 0"
    }

    /// Reads the whole selection of all rows that have the token of a change.
    func searchingRows(of change: RowChange) -> (sql: String, values: [SQLValue]) {
        (
            "SELECT \(lookup.selected) FROM \(layout.table.sql(dialect)) WHERE "
                + "\(dialect.quoted(layout.token.name)) = ?", [value(change, lookup.token)]
        )
    }

    /// Reads the keys of all rows that have a token of some changes.
    func searchingTokens(of changes: ArraySlice<RowChange>) -> (sql: String, values: [SQLValue]) {
        let keys = layout.key.map { dialect.quoted($0.name) }.joined(separator: ", ")
        let padded = StatementShape.padded(changes)
        return (
            "SELECT \(keys) FROM \(layout.table.sql(dialect)) WHERE "
                + "\(dialect.quoted(layout.token.name)) IN (\(placeholders(padded.count)))",
            padded.map { value($0, lookup.token) }
        )
    }

    /// Names the rows of some changes, each guard value being NULL in all of them or in none.
    private func condition(
        on changes: ArraySlice<RowChange>
    ) -> (sql: String, values: [SQLValue]) {
        let keys = layout.key.map { dialect.quoted($0.name) }
        let padded = StatementShape.padded(changes)
        let guards = guards.map { column in
            (
                column, dialect.quoted(lookup.columns[column]),
                changes.first.map { value($0, column) == .null } ?? true
            )
        }
        if padded.count > 1 && usesKeyList {
            var sql = "\(keys[0]) IN (\(placeholders(padded.count)))"
            var values = padded.map { key($0)[0] }
            let hasPair = guards.contains { $0.0 != lookup.token && !$0.2 }
            let pairs = repeatElement("(?, ?)", count: padded.count).joined(separator: ", ")
            for (column, name, isNull) in guards {
                if isNull {
                    sql += " AND \(name) IS NULL"
                } else if column == lookup.token && hasPair {
                    // A second list of pairs is walked by MariaDB and not searched.
                    sql += " AND \(name) IN (\(placeholders(padded.count)))"
                    values += padded.map { value($0, column) }
                } else {
                    sql += " AND (\(keys[0]), \(name)) IN (\(pairs))"
                    values += padded.flatMap { [key($0)[0], value($0, column)] }
                }
            }
            return (sql, values)
        }
        let match = keys.map { "\($0) = ?" } + guards.map { "\($1) \($2 ? "IS NULL" : "= ?")" }
        let one = match.joined(separator: " AND ")
        let all =
            padded.count == 1
            ? one : repeatElement("(\(one))", count: padded.count).joined(separator: " OR ")
        return (
            all,
            padded.flatMap { change in
                key(change) + guards.filter { !$0.2 }.map { value(change, $0.0) }
            }
        )
    }
}
