import Findings

/// Finds the columns that a group of settings names, in a table as the database describes it, and
/// refuses columns that cannot hold the intended values.
package struct ColumnResolver {
    let table: CatalogTable
    let dialect: SQLDialect
    /// The group of settings in messages, such as `store.active-users`.
    let group: String

    /// Resolves settings against `table`; `group` is their place, such as `store.active-users`.
    package init(table: CatalogTable, dialect: SQLDialect, group: String) {
        self.table = table
        self.dialect = dialect
        self.group = group
    }

    /// The failure to throw about the table: `configuration`, with the reason.
    package func refusal(_ reason: String) -> StoreFailure {
        StoreFailure(.configuration, "reading the layout of \(table.name): \(reason)")
    }

    /// A column that must exist. Throws `configuration` where it does not.
    package func required(_ name: String, setting: String) throws(StoreFailure) -> CatalogColumn {
        if let column = table.column(name) { return column }
        let names = table.columns.prefix(20).map(\.name).joined(separator: ", ")
        var failure = refusal(
            "there is no column \(name.prefix(64)) that the account may see, only \(names); correct "
                + "\(group).\(setting) or grant SELECT on the column")
        failure.unseenColumn = name
        throw failure
    }

    /// A column that may be missing unless the settings name it. Throws `configuration` where a
    /// named one is missing, and where one with the default name is hidden from the account: rows would be
    /// judged as if the table had none.
    package func optional(
        _ column: OptionalColumn, setting: String
    ) throws(StoreFailure) -> CatalogColumn? {
        switch column {
        case .detect(let usual):
            if let column = table.column(usual) { return column }
            guard table.hidden.contains(usual) else { return nil }
            var failure = refusal(
                "the account may not read its column \(usual), which would count as absent; grant SELECT "
                    + "on it, or set \(group).\(setting) to `none`")
            failure.unseenColumn = usual
            throw failure
        case .absent: return nil
        case .named(let name): return try required(name, setting: setting)
        }
    }

    /// The token column with its encoding. Throws `configuration` where the column cannot hold
    /// tokens.
    package func token(
        _ name: String, _ encoding: TokenEncoding?
    ) throws(StoreFailure) -> TokenColumn {
        let column = try required(name, setting: "token")
        guard column.type != "json" else {
            throw refusal(
                "token column \(column.name) holds JSON documents, in which no search finds a token; "
                    + "`pushsweep init` prints the generated column that serves it")
        }
        guard column.isBinary || column.isText || column.type.isEmpty else {
            throw refusal("token column \(column.name) holds neither text nor bytes")
        }
        let encoding = encoding ?? (column.isBinary ? .binary : .hex)
        if encoding == .binary && column.isText {
            throw refusal(
                "token column \(column.name) holds text, which raw bytes would never match; declare "
                    + "encoding hex")
        }
        let collation = column.collation ?? ""
        return TokenColumn(
            name: column.name, encoding: encoding,
            isBinary: column.isBinary && dialect.engine == .mariaDB,
            tellsCaseApart: column.isBinary || !collation.contains("_ci"),
            mixesTextAndBytes: dialect.engine == .sqlite && !column.isText,
            ignoresSpaces: dialect.engine == .mariaDB && column.isText && column.padsSpaces)
    }

    /// A column of apps or environments; nil without one. Throws `configuration` where a named one
    /// is missing.
    package func partition(
        _ mapped: OptionalColumn, setting: String, values: [String: String]
    ) throws(StoreFailure) -> PartitionColumn? {
        guard let column = try optional(mapped, setting: setting) else { return nil }
        // SQLite keeps numbers and words in a column of this type.
        let isFlag =
            dialect.engine == .sqlite
            && ["bool", "boolean", "bit", "numeric"].contains(column.type)
        guard column.isText || column.isInteger || column.type == "enum" || isFlag else {
            throw refusal(
                "column \(column.name) holds neither text nor whole numbers; correct "
                    + "\(group).\(setting)")
        }
        let isInteger =
            column.isInteger
            || isFlag && !values.isEmpty && values.values.allSatisfy { Int64($0) != nil }
        return .init(
            name: column.name, isInteger: isInteger,
            // Other collations, ordinary `_bin` ones included, ignore spaces at the end.
            isExact: isInteger || column.collation?.contains("nopad_bin") == true,
            values: column.isInteger ? values.mapValues(Self.number) : values)
    }

    /// What a column of numbers has for a word of yes or no.
    private static func number(_ word: String) -> String {
        ["true": "1", "false": "0"][word.lowercased()] ?? word
    }

    /// The column of reasons, which are text. A column that has the default name and another type
    /// belongs to the user's data and is not used.
    package func reason(_ mapped: OptionalColumn) throws(StoreFailure) -> CatalogColumn? {
        guard let column = try optional(mapped, setting: "reason") else { return nil }
        // SQLite stores text in a column of any type.
        let holdsText = column.isText || dialect.engine == .sqlite
        if holdsText && !column.isGenerated { return column }
        if case .detect = mapped { return nil }
        if column.isGenerated {
            throw refusal(
                "column \(column.name) is computed from others, so no reason can be written to it; name "
                    + "another under \(group).reason, or `none`")
        }
        throw refusal(
            "column \(column.name) has type \(column.type), which cannot hold the reason of a mark; "
                + "make it VARCHAR(32), or leave reason out of \(group)")
    }

    /// A time column with its storage; nil without one. Throws `configuration` where the column
    /// cannot hold times.
    package func time(
        _ mapped: TimeMapping, setting: String
    ) throws(StoreFailure) -> TimeColumn? {
        guard let column = try optional(mapped.column, setting: setting) else { return nil }
        let offset = mapped.zone.seconds
        let isClock = ["datetime", "timestamp"].contains(column.type)
        switch (mapped.type, dialect.engine) {
        case (nil, .mariaDB) where isClock, (.datetime, .mariaDB) where isClock:
            // The session's zone is UTC, and a TIMESTAMP is converted to it whatever zone was
            // declared.
            let own = column.type == "timestamp" ? 0 : offset
            return TimeColumn(
                name: column.name, storage: .wallClock(fraction: column.fraction, offset: own))
        case (nil, .sqlite) where !column.isInteger, (.datetime, .sqlite) where !column.isInteger:
            return TimeColumn(name: column.name, storage: .text(offset: offset))
        case (.epochSeconds, .mariaDB)
        where ["tinyint", "smallint", "mediumint"].contains(column.type):
            throw refusal(
                "column \(column.name) has type \(column.type), which is too small for seconds since "
                    + "1970; make it BIGINT, or correct \(group).\(setting)")
        case (.epochSeconds, _) where column.isInteger,
            (.epochSeconds, .sqlite) where !column.isText:
            return TimeColumn(name: column.name, storage: .epochSeconds)
        case (.epochMilliseconds, _) where column.type == "bigint",
            (.epochMilliseconds, .sqlite) where !column.isText:
            return TimeColumn(name: column.name, storage: .epochMilliseconds)
        case (nil, _) where column.isInteger:
            throw refusal(
                "column \(column.name) holds whole numbers, which may be seconds or milliseconds; "
                    + "declare type epoch-seconds or epoch-milliseconds under "
                    + "\(group).\(setting)")
        default:
            throw refusal(
                "column \(column.name) has type \(column.type), which cannot hold "
                    + "\(mapped.type?.rawValue ?? "a date with time"); correct "
                    + "\(group).\(setting)")
        }
    }
}
