/// Lays the mapping of the settings over a table as the database describes it. Whatever does not fit
/// is refused here, before anything is read for the sake of changing it.
struct LayoutResolver {
    let mapping: TableMapping
    let table: CatalogTable
    let dialect: SQLDialect

    /// The layout the store works with.
    func layout() throws(StoreFailure) -> TableLayout {
        let registration = try time(mapping.registeredAt, setting: "registered-at")
        let mark = try time(mapping.invalidatedAt, setting: "invalidated-at")
        if let mark, table.column(mark.name)?.movesItself == true {
            throw refusal(
                "column \(mark.name) sets itself to the present whenever the row changes, so a "
                    + "registration would look like a mark; drop its ON UPDATE CURRENT_TIMESTAMP")
        }
        let movesItself = registration.flatMap { table.column($0.name) }?.movesItself ?? false
        let token = try token()
        let app = try partition(mapping.app, setting: "app", values: [:])
        let environment = try partition(
            mapping.environment, setting: "environment",
            values: mapping.environmentValues)
        let index = table.index(
            onToken: token.name, after: [app?.name, environment?.name].compactMap { $0 })
        return TableLayout(
            table: table.name, key: try key(), token: token, tokenIndex: index?.name, app: app,
            environment: environment,
            registration: registration, registrationMovesItself: movesItself, mark: mark,
            reason: mark == nil
                ? nil
                : try optional(mapping.reason, setting: "reason")?.name,
            columns: table.columns.filter { !$0.isGenerated }.map(\.name))
    }

    private func refusal(_ reason: String) -> StoreFailure {
        StoreFailure(.configuration, "reading the layout of \(table.name): \(reason)")
    }

    private func required(_ name: String, setting: String) throws(StoreFailure) -> CatalogColumn {
        if let column = table.column(name) { return column }
        let names = table.columns.prefix(20).map(\.name).joined(separator: ", ")
        throw refusal(
            "there is no column \(name.prefix(64)) that the account may see, only \(names); correct "
                + "store.active-users.\(setting) or grant SELECT on the column")
    }

    private func optional(
        _ column: OptionalColumn, setting: String
    ) throws(StoreFailure) -> CatalogColumn? {
        switch column {
        case .detect(let usual): table.column(usual)
        case .absent: nil
        case .named(let name): try required(name, setting: setting)
        }
    }

    private func key() throws(StoreFailure) -> [TableLayout.KeyColumn] {
        var names = mapping.key ?? []
        if names.isEmpty {
            names = table.column("id").map { [$0.name] } ?? table.primaryKey
        }
        guard !names.isEmpty else {
            throw refusal(
                "it has no primary key that the account may see; name columns that identify a row "
                    + "under store.active-users.key, or grant SELECT on them")
        }
        var columns: [TableLayout.KeyColumn] = []
        for name in names {
            let column = try required(name, setting: "key")
            if column.isNullable && dialect.engine == .mariaDB {
                throw refusal("key column \(column.name) can be NULL and then identifies no row")
            }
            columns.append(.init(name: column.name, isInteger: column.isInteger))
        }
        guard table.isUnique(names) else {
            throw refusal(
                "several rows can share \(names.joined(separator: ", ")); name columns with a "
                    + "unique index under store.active-users.key, or add a primary key")
        }
        return columns
    }

    private func token() throws(StoreFailure) -> TokenColumn {
        let column = try required(mapping.token, setting: "token")
        guard column.isBinary || column.isText || column.type.isEmpty else {
            throw refusal("token column \(column.name) holds neither text nor bytes")
        }
        let encoding = mapping.encoding ?? (column.isBinary ? .binary : .hex)
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
            mixesTextAndBytes: dialect.engine == .sqlite && !column.isText)
    }

    private func partition(
        _ mapped: OptionalColumn, setting: String, values: [String: String]
    ) throws(StoreFailure) -> TableLayout.PartitionColumn? {
        guard let column = try optional(mapped, setting: setting) else { return nil }
        guard column.isText || column.isInteger || column.type == "enum" else {
            throw refusal(
                "column \(column.name) holds neither text nor whole numbers; correct "
                    + "store.active-users.\(setting)")
        }
        return .init(
            name: column.name, isInteger: column.isInteger,
            isExact: column.isInteger || column.type == "enum"
                || column.collation?.contains("_bin") == true,
            values: values)
    }

    private func time(
        _ mapped: TimeMapping, setting: String
    ) throws(StoreFailure) -> TimeColumn? {
        guard let column = try optional(mapped.column, setting: setting) else { return nil }
        let offset = mapped.zone.seconds
        let isClock = ["datetime", "timestamp"].contains(column.type)
        switch (mapped.type, dialect.engine) {
        case (nil, .mariaDB) where isClock, (.datetime, .mariaDB) where isClock:
            // The session's zone is UTC, and a TIMESTAMP is converted to it whatever was declared.
            let own = column.type == "timestamp" ? 0 : offset
            return TimeColumn(
                name: column.name, storage: .wallClock(fraction: column.fraction, offset: own))
        case (nil, .sqlite) where !column.isInteger, (.datetime, .sqlite) where !column.isInteger:
            return TimeColumn(name: column.name, storage: .text(offset: offset))
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
                    + "store.active-users.\(setting)")
        default:
            throw refusal(
                "column \(column.name) has type \(column.type), which cannot hold "
                    + "\(mapped.type?.rawValue ?? "a date with time"); correct "
                    + "store.active-users.\(setting)")
        }
    }
}
