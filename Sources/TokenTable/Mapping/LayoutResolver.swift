import Database
import Encodings
import Findings

/// Resolves the mapping of the settings against a table as the database describes it. Settings that
/// do not fit are refused here, before any row is read for a change.
struct LayoutResolver {
    let mapping: TableMapping
    let table: CatalogTable
    let dialect: SQLDialect

    private var columns: ColumnResolver {
        ColumnResolver(table: table, dialect: dialect, group: "store.active-users")
    }

    /// The layout, with all columns found and checked.
    func layout() throws(StoreFailure) -> TableLayout {
        let registration = try columns.time(mapping.registeredAt, setting: "registered-at")
        let living = try columns.living(mapping.living)
        if living != nil { try refuseSecondMark() }
        var mark: TimeColumn?
        if living == nil {
            try columns.refuseFlag(as: mapping.invalidatedAt, setting: "invalidated-at")
            mark = try columns.time(mapping.invalidatedAt, setting: "invalidated-at")
        }
        if let mark, table.column(mark.name)?.movesItself == true {
            throw columns.refusal(
                "column \(mark.name) sets itself to the present whenever the row changes, so a "
                    + "registration would look like a mark; drop its ON UPDATE CURRENT_TIMESTAMP")
        }
        if let mark, table.column(mark.name)?.isGenerated == true {
            throw columns.refusal(
                "column \(mark.name) is computed from others, so no mark can be set in it; name another "
                    + "under store.active-users.invalidated-at, or `none` for marks in pushsweep_invalid"
            )
        }
        let token = try columns.token(mapping.token, mapping.encoding)
        let app = try columns.partition(mapping.app, setting: "app", values: [:])
        let environment = try columns.partition(
            mapping.environment, setting: "environment",
            values: mapping.environmentValues)
        let platform = try platform()
        let index = table.index(
            onToken: token.name,
            after: [app?.name, environment?.name, platform?.column.name].compactMap { $0 })
        let key = try key()
        var layout = TableLayout(
            table: table.name, key: key, token: token, tokenIndex: index?.name, app: app,
            environment: environment, platform: platform,
            registration: registration, heldColumns: try heldColumns(registration),
            living: living, mark: mark,
            reason: mark == nil ? nil : try columns.reason(mapping.reason)?.name,
            columns: table.columns.filter { !$0.isGenerated }.map(\.name),
            generated: table.columns.filter(\.isGenerated).map(\.name),
            exactness: exactness,
            keyIndex: table.uniqueIndex(within: key.map(\.name)).flatMap {
                $0.isUsable ? $0.name : nil
            })
        layout.columnForms = table.columns.map(\.form)
        layout.isPartitioned = table.engine?.isPartitioned ?? false
        layout.computedFromMarks = columns(of: layout, computedFrom: layout.markColumns)
        layout.marksMayBeReferenced = mayBeReferenced(layout.changedByMarks)
        return layout
    }

    /// The columns that the database may compute from some others. SQLite tells no expressions.
    private func columns(of layout: TableLayout, computedFrom names: [String]) -> [String] {
        let names = names.map { ExactText($0.lowercased()) }
        return layout.generated.filter { name in
            !names.isEmpty
                && (dialect.engine == .sqlite
                    || table.columns(behind: name).contains {
                        names.contains(ExactText($0.lowercased()))
                    })
        }
    }

    /// Whether one of some columns is in an index that a foreign key of another table can refer to.
    private func mayBeReferenced(_ columns: [String]) -> Bool {
        table.indexes.contains { index in
            let names = index.columns.map { $0.lowercased() }
            return (index.isUnique || table.isUnique(names))
                && columns.contains { names.contains($0.lowercased()) }
        }
    }

    /// The columns that the engine moves with every change of the row, and the registration with them.
    /// A change assigns them to themselves, which a column that the database alone writes does not
    /// allow.
    private func heldColumns(_ registration: TimeColumn?) throws(StoreFailure) -> [String] {
        guard let registration, let column = table.column(registration.name) else { return [] }
        let moving = table.movingColumns(behind: column)
        if let period = moving.first(where: \.isGenerated) {
            throw columns.refusal(
                "the database itself sets column \(period.name) whenever the row changes, so a mark "
                    + "would look like a registration; name another column under "
                    + "store.active-users.registered-at, or `none`")
        }
        return Set(moving.map { ExactText($0.name) }).sorted().map(\.string)
    }

    /// Refuses columns of another mark beside a column of two values, because nothing would be
    /// written to them.
    private func refuseSecondMark() throws(StoreFailure) {
        for (column, setting) in [
            (mapping.invalidatedAt.column, "invalidated-at"), (mapping.reason, "reason"),
        ] {
            guard case .named(let name) = column else { continue }
            throw columns.refusal(
                "\(setting) names column \(name.prefix(64)) although living names a column that is "
                    + "the mark, whose time and reason go to pushsweep_invalid; remove \(setting) or "
                    + "living under store.active-users")
        }
    }

    /// The rows that belong to Apple's devices; nil where the settings name no platform.
    private func platform() throws(StoreFailure) -> PlatformRows? {
        guard let name = mapping.platform.column else { return nil }
        let setting = "platform.column"
        guard let value = mapping.platform.value,
            let column = try columns.partition(
                .named(name), setting: setting, values: ["platform": value])
        else {
            throw columns.refusal(
                "column \(name.prefix(64)) needs the value of rows to use; give it under "
                    + "store.active-users.platform.value")
        }
        guard column.isInteger else { return PlatformRows(column: column, value: .text(value)) }
        // Compared with a word, a number column converts the word to 0 and matches every 0.
        guard let number = column.values["platform"].flatMap({ Int64($0) }) else {
            throw columns.refusal(
                "column \(column.name) holds whole numbers, and `\(value.prefix(40))` is none; correct "
                    + "store.active-users.platform.value")
        }
        return PlatformRows(column: column, value: .integer(number))
    }

    /// Whether a key's own value, as read, finds its row and no other, and sorts as the index does.
    /// Decimals and floating point numbers are compared in another type, ENUM and SET sort by
    /// number and compare as text, and some character sets have two codes for one character.
    private static func isPlainKey(_ column: CatalogColumn) -> Bool {
        if column.isInteger || column.isBinary { return true }
        if column.isText { return plainSets.contains(column.characterSet ?? "utf8mb4") }
        return ["date", "datetime", "timestamp", "time", "year", "uuid", "inet4", "inet6"]
            .contains(column.type)
    }

    /// Character sets in which a character has one code.
    private static let plainSets = [
        "utf8mb4", "utf8mb3", "utf8", "latin1", "ascii", "ucs2", "utf16", "utf16le", "utf32",
    ]

    /// An expression that detects rows whose values are lost in the connection's character set or
    /// cannot be expressed. Text of most character sets can hold bytes that are not a character,
    /// and an ENUM stores an error value that reads as an empty text.
    private var exactness: String? {
        guard dialect.engine == .mariaDB else { return nil }
        let tests = table.columns.filter { !$0.isGenerated }.compactMap { column -> String? in
            let name = dialect.quoted(column.name)
            if column.type == "json" { return Self.plainJSON(name) }
            if column.type == "enum" {
                guard column.declaration.utf8.contains("''".utf8) else { return nil }
                return "(\(name) IS NULL OR \(name) + 0 > 0)"
            }
            guard column.isText, let set = column.characterSet, !Self.exactSets.contains(set),
                set.utf8.allSatisfy(PlainText.isAlphanumeric)
            else { return nil }
            let back = "CONVERT(CONVERT(\(name) USING utf8mb4) USING \(set))"
            return "(\(name) IS NULL OR CAST(\(back) AS BINARY) <=> CAST(\(name) AS BINARY))"
        }
        return tests.isEmpty ? nil : "(\(tests.joined(separator: " AND ")))"
    }

    /// The condition that MySQL keeps all values inside a JSON value in types that its text shows. A DECIMAL,
    /// a DATETIME or bytes in it read as text of a number or a string, and would come back as that. So would
    /// an unsigned number that fits a signed one.
    private static func plainJSON(_ name: String) -> String {
        "(\(name) IS NULL OR NOT EXISTS (SELECT 1 FROM JSON_TABLE(JSON_EXTRACT(\(name), '$', '$**.*', "
            + "'$**[*]'), '$[*]' COLUMNS (v JSON PATH '$')) AS parts WHERE JSON_TYPE(parts.v) NOT IN "
            + "('NULL', 'BOOLEAN', 'INTEGER', 'UNSIGNED INTEGER', 'DOUBLE', 'STRING', 'OBJECT', 'ARRAY') "
            + "OR JSON_TYPE(parts.v) = 'UNSIGNED INTEGER' AND parts.v <= 9223372036854775807))"
    }

    /// Character sets in which every byte string is either transferred unchanged or recognizable as
    /// changed.
    private static let exactSets = ["utf8mb4", "latin1"]

    private func key() throws(StoreFailure) -> [TableLayout.KeyColumn] {
        var names = mapping.key ?? []
        if names.isEmpty {
            // A partitioned table may have `id` as a part of its key only.
            let id = table.column("id").map { [$0.name] } ?? []
            names =
                id.isEmpty || !table.isUnique(id) && !table.primaryKey.isEmpty
                ? table.primaryKey : id
        }
        guard !names.isEmpty else {
            var failure = self.columns.refusal(
                "it has no primary key that the account may see; name columns that identify a row "
                    + "under store.active-users.key, or grant SELECT on them")
            failure.unseenColumn = "id"
            throw failure
        }
        var columns: [TableLayout.KeyColumn] = []
        for name in names {
            let column = try self.columns.required(name, setting: "key")
            if column.isNullable && dialect.engine == .mariaDB {
                throw self.columns.refusal(
                    "key column \(column.name) can be NULL and then identifies no row")
            }
            guard dialect.engine == .sqlite || Self.isPlainKey(column) else {
                throw self.columns.refusal(
                    "key column \(column.name) has type \(column.declaration), whose values are not compared "
                        + "as they are read; name columns of whole numbers, text, bytes or times with a "
                        + "unique index under store.active-users.key")
            }
            columns.append(.init(name: column.name, isInteger: column.isInteger))
        }
        guard table.isUnique(names) else {
            throw self.columns.refusal(
                "several rows can share \(names.joined(separator: ", ")); name columns with a "
                    + "unique index under store.active-users.key, or add a primary key")
        }
        return columns
    }
}
