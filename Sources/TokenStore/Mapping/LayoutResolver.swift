/// Lays the mapping of the settings over a table as the database describes it. Whatever does not fit
/// is refused here, before anything is read for the sake of changing it.
struct LayoutResolver {
    let mapping: TableMapping
    let table: CatalogTable
    let dialect: SQLDialect

    private var columns: ColumnResolver {
        ColumnResolver(table: table, dialect: dialect, group: "store.active-users")
    }

    /// The layout the store works with.
    func layout() throws(StoreFailure) -> TableLayout {
        let registration = try columns.time(mapping.registeredAt, setting: "registered-at")
        let mark = try columns.time(mapping.invalidatedAt, setting: "invalidated-at")
        if let mark, table.column(mark.name)?.movesItself == true {
            throw columns.refusal(
                "column \(mark.name) sets itself to the present whenever the row changes, so a "
                    + "registration would look like a mark; drop its ON UPDATE CURRENT_TIMESTAMP")
        }
        let movesItself = registration.flatMap { table.column($0.name) }?.movesItself ?? false
        let token = try columns.token(mapping.token, mapping.encoding)
        let app = try columns.partition(mapping.app, setting: "app", values: [:])
        let environment = try columns.partition(
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
                : try columns.optional(mapping.reason, setting: "reason")?.name,
            columns: table.columns.filter { !$0.isGenerated }.map(\.name))
    }

    private func key() throws(StoreFailure) -> [TableLayout.KeyColumn] {
        var names = mapping.key ?? []
        if names.isEmpty {
            names = table.column("id").map { [$0.name] } ?? table.primaryKey
        }
        guard !names.isEmpty else {
            throw self.columns.refusal(
                "it has no primary key that the account may see; name columns that identify a row "
                    + "under store.active-users.key, or grant SELECT on them")
        }
        var columns: [TableLayout.KeyColumn] = []
        for name in names {
            let column = try self.columns.required(name, setting: "key")
            if column.isNullable && dialect.engine == .mariaDB {
                throw self.columns.refusal(
                    "key column \(column.name) can be NULL and then identifies no row")
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
