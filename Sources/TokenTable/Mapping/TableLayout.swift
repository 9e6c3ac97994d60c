import APNsProtocol
import Database
import Findings
import TokenHygiene

/// The user's table as the store uses it: the mapping of the settings, resolved against the
/// database. It has all that is needed to write statements, and does not change during a run.
package struct TableLayout: Hashable, Sendable {
    /// The name of the table, with its schema where the settings name one.
    package let table: TableName
    /// The columns that identify a row, at least one.
    let key: [KeyColumn]
    /// The token column and its encoding.
    package let token: TokenColumn
    /// The index for lookups by token, where the table has one.
    let tokenIndex: String?
    /// The app column, where the table has one.
    package let app: PartitionColumn?
    /// The environment column, where the table has one.
    package let environment: PartitionColumn?
    /// The rows of Apple's devices, in a table that has others too.
    package internal(set) var platform: PlatformRows?
    /// The column of the last registration, where the table has one.
    package let registration: TimeColumn?
    /// The columns that the engine sets at every change of the row (ON UPDATE CURRENT_TIMESTAMP, which
    /// MariaDB before 10.10 adds to the first TIMESTAMP column by itself), and that are the registration,
    /// or from which it is computed. A mark would then look like a registration, so changes assign
    /// them to themselves.
    let heldColumns: [String]
    /// The column of two values that is the mark; its times go to `pushsweep_invalid`.
    package internal(set) var living: LivingColumn?
    /// The mark column; nil: the times of marks go to `pushsweep_invalid`.
    package let mark: TimeColumn?
    /// The column of the mark's reason, where the table has one.
    let reason: String?
    /// All columns of a row in the table's order, without generated ones.
    let columns: [String]
    /// All columns with their types, as the table had them when the layout was resolved.
    var columnForms: [String] = []
    /// The generated columns, which are never written.
    var generated: [String] = []
    /// An SQL expression that is 0 for rows that could not be restored: a value is lost between the
    /// database and this program, or the row breaks a rule that an INSERT meets. Nil where the table
    /// has no type and no rule of this kind.
    var exactness: String?

    /// The columns that the database may compute from the mark.
    var computedFromMarks: [String] = []
    /// Whether a column of the mark is in an index that a foreign key of another table can refer to: one that
    /// names a single row.
    var marksMayBeReferenced = false

    /// The unique index for lookups by key; nil without one.
    var keyIndex: String?

    /// Whether a server keeps the table in partitions.
    var isPartitioned = false

    /// Whether the engine moves the registration at every change of the row.
    var registrationMovesItself: Bool { !heldColumns.isEmpty }

    /// Whether the database computes the registration, perhaps from the mark.
    var registrationIsComputed: Bool { registration.map { generated.contains($0.name) } ?? false }

    /// Whether changing a row may run triggers, which may undo the change.
    var mayHaveUpdateTriggers = false
    /// Whether the account sees no such trigger, and would see none.
    var hidesUpdateTriggers = false
    /// Whether a rule of the table may refuse a mark, or taking one back: a unique index or a foreign key with a
    /// column of the mark, or a CHECK.
    var marksMayBeRefused = false
    /// Whether a row may break a rule of the table that was not applied when the row was written, and that no
    /// expression in `exactness` tells.
    var rowsMayBreakRules = false
    /// What a statement says so that it is refused where the table would resolve a conflict by itself: SQLite
    /// removes the other row where a unique key says ON CONFLICT REPLACE. Empty for other tables, because it
    /// holds for the statements of triggers, too.
    var orAbort = ""
    /// Whether a trigger of others, or one that the account may not see, runs when a row is marked.
    var mayRunForeignTriggers = false
    /// The names of the triggers that the examination has judged.
    var knownTriggers: Set<String> = []
    /// Whether only trying shows that the table takes a mark.
    package var marksNeedTrial: Bool {
        !markColumns.isEmpty && (mayRunForeignTriggers || marksMayBeRefused)
    }

    /// Whether an index leads from a token to its rows.
    package var hasTokenIndex: Bool { tokenIndex != nil }

    /// Whether rows have a column for the time of a mark; without one such times are in
    /// `pushsweep_invalid`.
    package var hasMarkTime: Bool { mark != nil }

    /// Whether the database takes names of tables in any case for the same.
    var ignoresNameCase = false

    /// Whether a checkpoint's name of a table is this table, as the database compares names.
    func isNamed(_ name: String?) -> Bool {
        guard let name else { return false }
        return name.isExactly(table.description)
            || ignoresNameCase
                && name.lowercased().isExactly(table.description.lowercased())
    }

    /// The columns by which the ledger's entries about this table are understood.
    var entryColumns: EntryColumns {
        EntryColumns(
            key: key.map(\.name), token: token.name, mark: markColumns,
            dead: living.map { living in
                let word = living.compared(living.dead)
                return word.text ?? word.integer.map(String.init) ?? "\(word)"
            })
    }

    /// Whether a trigger of the table is one of docs/registrations.md.
    func owns(_ trigger: TableReach.Trigger) -> Bool {
        trigger.isOwn(token: token.name, key: key.map(\.name), of: table)
    }

    /// One column of the key.
    struct KeyColumn: Hashable, Sendable {
        let name: String
        /// Whether the column has an integer type.
        let isInteger: Bool
    }

    /// The columns that a mark sets: the two values, or time and reason; empty where all of it is in
    /// `pushsweep_invalid`.
    var markColumns: [String] {
        living.map { [$0.name] } ?? [mark?.name, reason].compactMap { $0 }
    }

    /// The columns that a mark changes, by itself or by what is computed from it.
    var changedByMarks: [String] { markColumns + computedFromMarks }

    /// Whether no column of the row says that it is marked.
    package var marksStandBeside: Bool { markColumns.isEmpty }

    /// The columns that have a role, some perhaps more than once.
    package var usedColumns: [String] {
        let optional = [
            app?.name, environment?.name, platform?.column.name, registration?.name, living?.name,
            mark?.name, reason,
        ]
        return key.map(\.name) + [token.name] + optional.compactMap { $0 }
    }

    /// The instant stored for a mark of this time: rounded down to the precision of the mark
    /// column.
    func floor(_ time: EpochMilliseconds) -> EpochMilliseconds { mark?.floor(time) ?? time }

    /// The latest evidence that leaves the same mark as that of a time, where marks have whole seconds.
    func end(of time: EpochMilliseconds) -> EpochMilliseconds {
        let begin = floor(time)
        let end = begin.advanced(by: 999)
        return floor(end) == begin ? end : time
    }

    /// The rows of Apple's devices, as the end of a WHERE with its values; empty where the table has
    /// no others.
    package func platformCondition(_ dialect: SQLDialect) -> BoundSQL {
        platform?.condition(dialect) ?? ("", [])
    }

    /// The rows of a partition.
    ///
    /// - Throws: `configuration` where a column cannot hold the partition's value.
    package func selection(of partition: Partition) throws(StoreFailure) -> PartitionSelection {
        try PartitionSelection(partition, app: app, environment: environment, platform: platform)
    }
}

/// The rows of a mixed table that belong to Apple's devices.
package struct PlatformRows: Hashable, Sendable {
    /// The column of the platform.
    package let column: PartitionColumn
    /// The column's value in these rows.
    let value: SQLValue

    /// The condition as the end of a WHERE, with its values.
    func condition(_ dialect: SQLDialect) -> BoundSQL {
        (" AND \(dialect.quoted(column.name)) = ?", [value])
    }

    /// The value in messages.
    package var word: String { value.text ?? value.integer.map(String.init) ?? "" }
}

/// The rows of one partition, by the values of the columns that a table has for app, environment and
/// platform.
package struct PartitionSelection {
    /// The columns that the table has, with the partition's values.
    package let values: [(column: PartitionColumn, value: SQLValue)]

    /// Selects a partition of a table with these columns. Throws `configuration` where a column
    /// cannot hold the partition's value.
    package init(
        _ partition: Partition, app: PartitionColumn?, environment: PartitionColumn?,
        platform: PlatformRows? = nil
    ) throws(StoreFailure) {
        var values: [(column: PartitionColumn, value: SQLValue)] = []
        for (column, word) in [(app, partition.app), (environment, partition.environment)] {
            if let column { values.append((column, try column.value(for: word))) }
        }
        if let platform { values.append((platform.column, platform.value)) }
        self.values = values
    }

    /// The condition as the end of a WHERE, with its values; empty where the table has neither
    /// column. `alias` is the table's name in the statement, with a dot.
    package func condition(_ dialect: SQLDialect, alias: String = "") -> BoundSQL {
        let terms = values.map { " AND \(alias)\(dialect.quoted($0.column.name)) = ?" }
        return (terms.joined(), values.map(\.value))
    }

    /// The columns whose equality in SQL is not equality of characters. Rows are compared with these
    /// values again after reading.
    package var compared: [(column: String, value: SQLValue)] {
        values.filter { !$0.column.isExact }.map { ($0.column.name, $0.value) }
    }
}

extension TokenTable {
    /// The terms, apart from the policy, that decide which rows of a partition match evidence and
    /// how they are judged: database, table and columns as resolved, and the values of app and
    /// environment. The same settings on the same table give the same terms; the account is not
    /// part of them.
    ///
    /// - Throws: `configuration` where the table does not fit the settings.
    package func terms(of partition: Partition) throws(StoreFailure) -> [String] {
        let layout = try layout()
        var terms = [
            layout.table.description,
            layout.key.map(\.name).joined(separator: "\n"),
            layout.token.name, layout.token.encoding.rawValue,
            layout.app?.name ?? "", layout.environment?.name ?? "",
        ]
        terms += try layout.selection(of: partition).values.map {
            $0.value.text ?? $0.value.integer.map(String.init) ?? ""
        }
        for column in [layout.registration, layout.mark] {
            terms += [column?.name ?? "", column.map { "\($0.storage)" } ?? ""]
        }
        terms.append(layout.reason ?? "")
        if let platform = layout.platform { terms.append(platform.column.name) }
        if let living = layout.living {
            terms += [living.name, "\(living.living)", "\(living.dead)"]
        }
        return terms
    }
}

extension StoreLocation {
    /// The location without the account.
    package var place: String {
        guard case .server(let server) = self else { return description }
        return StoreLocation.server(
            Server(addresses: server.addresses, user: "", database: server.database)
        ).description
    }
}
