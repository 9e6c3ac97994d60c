import Database
import TokenHygiene

// The statements that change the user's rows. Each statement names its rows by key and repeats, in
// the same WHERE, the token and the registration that were read and judged. If a row changed in
// between, or the key finds another row, the statement does not find it, however weak the engine's
// locks are. Then the number of rows found differs, and the chunk is rolled back and redone. A column
// of two values is repeated too; rows with the same value share a statement.
//
// Locked rows stay as they were read, so a list of keys, one of tokens and one of registrations are
// enough, and are the fastest. No pairs of key and registration: for a partitioned table MySQL 9.7
// compares the times of such a list, prepared in an UPDATE or DELETE, with memory that it has reused
// (1292). Rows that were read without a lock may exchange values before the statement meets them. For
// those all values of a row stand together in one list.
//
// Every row gets its own mark time in one statement. For integer keys `ELT(INTERVAL(key, k1, k2,
// …), t1, t2, …)` over sorted keys is a binary search per row. For other keys there is a CASE,
// which is linear and therefore limited to runs of 100. SQLite runs in this process and uses one
// prepared statement per row.
//
// Statistics of a table may be wrong, and a server that takes a large table for a small one reads it
// whole for a list of keys. So statements name their index. A DELETE takes a hint only in its form for
// several tables, which MariaDB refuses under `sql_safe_updates` even where it searches by an index. So
// the writer turns that setting off for these statements (`isJoin`).

/// Builds the statements that mark and delete rows of one table.
struct ChangeStatements {
    let lookup: RowLookup
    /// The source stored with marks; nil where no marks are set.
    let source: EvidenceSource?
    /// The indices of the values that the WHERE repeats besides token and registration.
    var repeated: [Int] = []
    /// Whether the rows were read without a lock, so that the WHERE repeats row by row all that was
    /// read, and the partition.
    var isUnlocked = false

    private var layout: TableLayout { lookup.layout }
    private var dialect: SQLDialect { lookup.dialect }

    /// A statement with its values and the rows that it must find.
    struct Statement {
        /// The state of the rows after the statement.
        enum Effect {
            case removed
            case marked
            /// The column of the mark holds this value.
            case holding(SQLValue)
        }

        let sql: String
        let values: [SQLValue]
        let changes: ArraySlice<RowChange>
        let effect: Effect
        /// Whether it has the form of a statement about several tables.
        var isJoin = false

        var isRemoval: Bool {
            if case .removed = effect { true } else { false }
        }
    }

    /// The statements for some changes, with each change in exactly one of them.
    func statements(for changes: [RowChange]) -> [Statement] {
        let deletes = changes.filter { $0.verdict == .delete }
        let marks = changes.filter { $0.verdict != .delete }
        return
            batches(deletes, longest: usesKeyList ? StatementShape.longest : linear).map(delete)
            + batches(
                marks, longest: marksInOne(marks) ? StatementShape.longest : linear
            ).map(mark)
    }

    private var linear: Int {
        dialect.changesRowsInBatches ? StatementShape.longestLinear : 1
    }

    private var usesKeyList: Bool { dialect.changesRowsInBatches && layout.key.count == 1 }

    /// Whether one statement may mark as many rows as a list holds. Rows that all get the same value
    /// need no search for it.
    private func marksInOne(_ changes: [RowChange]) -> Bool {
        layout.living == nil ? usesBinarySearch(changes) : usesKeyList
    }

    /// Keys above `Int64.max` use CASE, because INTERVAL sorts them below zero.
    private func usesBinarySearch(_ changes: some Sequence<RowChange>) -> Bool {
        usesKeyList && layout.key[0].isInteger
            && changes.allSatisfy { number($0) != nil }
    }

    /// The statements that replace mark and reason by given values.
    func restoring(_ content: RowContent, of changes: [RowChange]) -> [Statement] {
        batches(changes, longest: usesKeyList ? StatementShape.longest : linear).map {
            restoring(content, alike: $0)
        }
    }

    /// One statement that gives rows the same values.
    private func restoring(
        _ content: RowContent, alike changes: ArraySlice<RowChange>
    ) -> Statement {
        let condition = condition(on: changes)
        let assignments = content.columns.map { "\(dialect.quoted($0)) = ?" }
        return Statement(
            sql: "UPDATE\(layout.orAbort) \(layout.table.sql(dialect))\(lookup.keyHint) SET "
                + (assignments + selfAssignments).joined(separator: ", ")
                + " WHERE \(condition.sql)",
            values: content.values + condition.values, changes: changes,
            effect: .holding(stateColumn.flatMap { content[$0] } ?? .null))
    }

    /// Keeps the engine from changing the registration by itself.
    private var selfAssignments: [String] {
        layout.heldColumns.map(dialect.quoted).map { "\($0) = \($0)" }
    }

    /// Changes in runs, with NULL guard values in runs of their own, because a list cannot match
    /// NULL. The runs are in key order, which INTERVAL needs and in which other transactions lock
    /// the same rows.
    private func batches(_ changes: [RowChange], longest: Int) -> [ArraySlice<RowChange>] {
        // Numbers are sorted in place of changes, whose copies cost more than the comparisons.
        let numbers = changes.map { number($0) ?? 0 }
        let places = changes.indices.sorted { (numbers[$0], $0) < (numbers[$1], $1) }
        let ordered = places.map { changes[$0] }
        let kinds = Dictionary(grouping: ordered) { change in
            Kind(
                nulls: guards.reduce(0) { $0 * 2 + (value(change, $1) == .null ? 1 : 0) },
                living: lookup.living.map { value(change, $0) })
        }
        return kinds.sorted { $0.key.order < $1.key.order }
            .flatMap { $0.value.runs(of: longest) }
    }

    /// What the rows of one statement have in common.
    private struct Kind: Hashable {
        /// The guard values that are NULL, as bits.
        let nulls: Int
        let living: SQLValue?

        var order: (Int, String) { (nulls, living.map { "\($0)" } ?? "") }
    }

    /// Adds to a condition the value of the column of two values, which all its rows share.
    private func repeatingLiving(
        _ condition: BoundSQL, of changes: ArraySlice<RowChange>
    ) -> BoundSQL {
        guard let column = layout.living, let living = lookup.living, let first = changes.first
        else { return condition }
        let name = dialect.quoted(column.name)
        let value = value(first, living)
        if value == .null { return ("(\(condition.sql)) AND \(name) IS NULL", condition.values) }
        return (
            "(\(condition.sql)) AND \(name) = ?", condition.values + [column.compared(value)]
        )
    }

    /// The indices of the values that are repeated in the WHERE.
    private var guards: [Int] {
        [lookup.token] + [lookup.registration].compactMap { $0 } + repeated
    }

    private func number(_ change: RowChange) -> Int64? {
        change.row[lookup.key[0]].integer
    }

    private func key(_ change: RowChange) -> [SQLValue] { lookup.key(of: change.row) }

    private func value(_ change: RowChange, _ column: Int) -> SQLValue {
        change.row[column]
    }

    /// The column that shows whether a row is marked; nil where the table has none.
    private var stateColumn: String? { layout.markColumns.first }

    private func delete(_ changes: ArraySlice<RowChange>) -> Statement {
        let condition = condition(on: changes)
        let deletion = dialect.deletion(layout.table.sql(dialect), lookup.keyHint)
        return Statement(
            sql: deletion.sql + condition.sql, values: condition.values, changes: changes,
            effect: .removed, isJoin: deletion.isJoin)
    }

    private func mark(_ changes: ArraySlice<RowChange>) -> Statement {
        if let living = layout.living {
            return restoring(RowContent([living.name], [living.dead]), alike: changes)
        }
        let condition = condition(on: changes)
        let time = markTime(changes)
        let name = dialect.quoted(layout.mark?.name ?? "")
        let table = layout.table.sql(dialect)
        var sql = "UPDATE\(layout.orAbort) \(table)\(lookup.keyHint) SET \(name) = \(time.sql)"
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

    private func markTime(_ changes: ArraySlice<RowChange>) -> BoundSQL {
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

    /// A query for the column that a statement sets, the registration and the key, where the table has them, of the rows
    /// that it names by key and token. Without those that a trigger has taken out of their partition.
    func rereading(_ statement: Statement) -> BoundSQL {
        let (shown, condition) = (stateColumn, lookup.condition)
        let changes = statement.changes
        let columns =
            [shown, layout.registration?.name].map { $0.map(dialect.quoted) ?? "NULL" }
            + layout.key.map { dialect.quoted($0.name) }
        let match = (layout.key.map(\.name) + [layout.token.name])
            .map { "\(dialect.quoted($0)) = ?" }.joined(separator: " AND ")
        let padded = StatementShape.padded(changes)
        let rows = repeatElement("(\(match))", count: padded.count).joined(separator: " OR ")
        return (
            "SELECT \(columns.joined(separator: ", ")) FROM \(layout.table.sql(dialect))"
                + "\(lookup.keyHint) WHERE (\(rows))\(condition.sql)",
            padded.flatMap { key($0) + [value($0, lookup.token)] } + condition.values
        )
    }

    /// A statement that fails if no row of the table can be changed in this way, whatever the row.
    func probe(_ statement: Statement) -> String {
        let table = layout.table.sql(dialect)
        let column = dialect.quoted(stateColumn ?? layout.key[0].name)
        if statement.isRemoval {
            return "DELETE FROM \(table) WHERE \(dialect.quoted(layout.key[0].name)) = NULL"
        }
        return "UPDATE \(table) SET \(column) = \(column) WHERE 1 = 0"
    }

    /// A query for all selected columns of all rows that have the token of a change.
    func searchingRows(of change: RowChange) -> BoundSQL {
        (
            "SELECT \(lookup.selected) FROM \(layout.table.sql(dialect)) WHERE "
                + "\(dialect.quoted(layout.token.name)) = ?", [value(change, lookup.token)]
        )
    }

    /// The condition for the rows of some changes. Each guard value is NULL in all of them or in
    /// none.
    private func condition(on changes: ArraySlice<RowChange>) -> BoundSQL {
        let condition = repeatingLiving(keyCondition(on: changes), of: changes)
        guard isUnlocked else { return condition }
        let partition = lookup.condition
        let exactly = lookup.compared.map {
            " AND \(bytes(dialect.quoted(lookup.columns[$0.column]))) = ?"
        }
        return (
            "(\(condition.sql))\(partition.sql)\(exactly.joined())",
            condition.values + partition.values + lookup.compared.map(\.value)
        )
    }

    /// A guard column: its index, its quoted name, and whether it is NULL in all rows.
    private typealias Guard = (column: Int, name: String, isNull: Bool)

    /// The condition for rows by one list in which key and guard values of each row stand together.
    private func wholeRows(_ changes: [RowChange], _ key: String, _ guards: [Guard]) -> BoundSQL {
        let given = guards.filter { !$0.isNull }
        let names = [key] + given.map { $0.column == lookup.reason ? bytes($0.name) : $0.name }
        let row = "(\(placeholders(names.count)))"
        let rows = commaList(row, changes.count)
        var sql = "\(key) IN (\(placeholders(changes.count)))"
        sql += " AND (\(names.joined(separator: ", "))) IN (\(rows))"
        for column in guards where column.isNull { sql += " AND \(column.name) IS NULL" }
        let keys = changes.map { self.key($0)[0] }
        return (
            sql,
            keys
                + changes.flatMap { change in
                    [self.key(change)[0]] + given.map { value(change, $0.column) }
                }
        )
    }

    /// The bytes of a column's text in our own character set, because collations ignore case and spaces at
    /// the end.
    private func bytes(_ name: String) -> String {
        guard isUnlocked else { return name }
        guard dialect.engine == .mariaDB else { return "\(name) COLLATE BINARY" }
        return "CAST(CONVERT(\(name) USING utf8mb4) AS BINARY)"
    }

    private func keyCondition(on changes: ArraySlice<RowChange>) -> BoundSQL {
        let keys = layout.key.map { dialect.quoted($0.name) }
        let padded = StatementShape.padded(changes)
        let guards: [Guard] = guards.map { column in
            (
                column, dialect.quoted(lookup.columns[column]),
                changes.first.map { value($0, column) == .null } ?? true
            )
        }
        if padded.count > 1 && usesKeyList && isUnlocked {
            return wholeRows(padded, keys[0], guards)
        }
        if padded.count > 1 && usesKeyList {
            let list = placeholders(padded.count)
            var sql = "\(keys[0]) IN (\(list))"
            var values = padded.map { key($0)[0] }
            for (column, name, isNull) in guards {
                sql += isNull ? " AND \(name) IS NULL" : " AND \(name) IN (\(list))"
                if !isNull { values += padded.map { value($0, column) } }
            }
            return (sql, values)
        }
        let match =
            keys.map { "\($0) = ?" }
            + guards.map { column, name, isNull in
                isNull ? "\(name) IS NULL" : "\(column == lookup.reason ? bytes(name) : name) = ?"
            }
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
