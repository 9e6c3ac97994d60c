import Database
import TokenTable

/// Resolves the queue's mapping against its table as the database describes it.
struct QueueResolver {
    let mapping: QueueMapping
    /// The environment column's values for `production` and `sandbox`.
    let environmentValues: [String: String]
    let table: CatalogTable
    let dialect: SQLDialect

    private var columns: ColumnResolver {
        ColumnResolver(table: table, dialect: dialect, group: "store.push-queue")
    }

    /// The layout, with all columns found and checked.
    func layout() throws(StoreFailure) -> QueueLayout {
        let payload = try columns.required(mapping.payload, setting: "payload")
        guard payload.isText || payload.isBinary || payload.type.isEmpty else {
            throw columns.refusal(
                "column \(payload.name) holds neither text nor bytes; correct "
                    + "store.push-queue.payload")
        }
        let sentAt = try time(mapping.sentAt, "sent-at")
        let delivery = try delivery()
        let closing = delivery.isInRow ? delivery.answeredAt : sentAt
        return QueueLayout(
            table: table.name, name: table.canonicalName, key: try key(),
            token: try columns.token(mapping.token, mapping.encoding), payload: payload.name,
            payloadIsBinary: payload.isBinary,
            app: try columns.partition(mapping.app, setting: "app", values: [:]),
            environment: try columns.partition(
                mapping.environment, setting: "environment", values: environmentValues),
            options: try options(), queuedAt: try queuedAt(), sentAt: sentAt, delivery: delivery,
            openIndex: closing.flatMap { table.index(leading: $0.name) }?.name)
    }

    /// The key column. Rows are sent in its order, and claims store runs of its values.
    private func key() throws(StoreFailure) -> String {
        let usual = ["message_id", "id"].first { table.column($0) != nil }
        guard let name = mapping.key ?? usual ?? table.primaryKey.first else {
            throw columns.refusal(
                "it has no primary key that the account may see; name the column that identifies "
                    + "a row under store.push-queue.key, or grant SELECT on it")
        }
        let column = try columns.required(name, setting: "key")
        guard column.isInteger, table.isUnique([name]) else {
            throw columns.refusal(
                "column \(column.name) cannot be the key, which has to hold whole numbers, each in "
                    + "one row only; name another under store.push-queue.key, or add an "
                    + "AUTO_INCREMENT column")
        }
        return column.name
    }

    private func queuedAt() throws(StoreFailure) -> TimeColumn? {
        if let named = mapping.queuedAt { return try time(named, "queued-at") }
        if let usual = try time(.detect("time_queued"), "queued-at") { return usual }
        return try time(.detect("queued_at"), "queued-at")
    }

    private func options() throws(StoreFailure) -> QueueLayout.Options {
        QueueLayout.Options(
            pushType: try columns.optional(mapping.pushType, setting: "push-type")?.name,
            priority: try number(mapping.priority, "priority"),
            expiration: try number(mapping.expiration, "expiration"),
            collapseID: try columns.optional(mapping.collapseID, setting: "collapse-id")?.name)
    }

    private func number(
        _ mapped: OptionalColumn, _ setting: String
    ) throws(StoreFailure) -> String? {
        guard let column = try columns.optional(mapped, setting: setting) else { return nil }
        if column.isInteger { return column.name }
        // An unmapped column may have the usual name for another purpose.
        if case .detect = mapped { return nil }
        throw columns.refusal(
            "column \(column.name) holds no whole numbers; correct store.push-queue.\(setting)")
    }

    private func time(
        _ mapped: OptionalColumn, _ setting: String
    ) throws(StoreFailure) -> TimeColumn? {
        try columns.time(
            TimeMapping(column: mapped, type: mapping.timeType, zone: mapping.zone),
            setting: setting)
    }

    /// The delivery columns of the row if it has all five; else those of the side table.
    private func delivery() throws(StoreFailure) -> DeliveryColumns {
        let mapped = [
            ("state", mapping.state), ("attempts", mapping.attempts), ("reason", mapping.reason),
            ("not-before", mapping.notBefore), ("answered-at", mapping.answeredAt),
        ]
        var missing: [String] = []
        var isWanted = false
        for (setting, column) in mapped {
            if try columns.optional(column, setting: setting) == nil { missing.append(setting) }
            if case .named = column { isWanted = true }
        }
        guard missing.isEmpty else {
            guard isWanted else { return .beside(table.canonicalName, dialect) }
            throw columns.refusal(
                "columns for the state of rows are used all five or not at all, and there is none "
                    + "for \(missing.joined(separator: ", ")); name them under store.push-queue, "
                    + "or name none and the state is kept in pushsweep_delivery")
        }
        guard let state = try columns.optional(mapping.state, setting: "state"),
            let attempts = try number(mapping.attempts, "attempts"),
            let reason = try columns.optional(mapping.reason, setting: "reason"),
            let notBefore = try time(mapping.notBefore, "not-before"),
            let answeredAt = try time(mapping.answeredAt, "answered-at")
        else { return .beside(table.canonicalName, dialect) }
        return DeliveryColumns(
            table: table.name, key: try key(), queue: nil, state: state.name,
            attempts: attempts, reason: reason.name, notBefore: notBefore, answeredAt: answeredAt)
    }
}

extension CatalogTable {
    /// An index whose first column is `name`.
    func index(leading name: String) -> CatalogIndex? {
        indexes.first { $0.columns.first?.lowercased() == name.lowercased() }
    }
}
