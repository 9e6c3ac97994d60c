import Database
import Findings
import TokenHygiene
import TokenTable

/// The queue as the store uses it: the mapping of the settings, resolved against the database.
struct QueueLayout: Hashable, Sendable {
    let table: TableName
    /// Its name in the side tables, the same for every spelling in the settings.
    let name: String
    /// The integer column that identifies a row.
    let key: String
    let token: TokenColumn
    /// The column of the JSON to send.
    let payload: String
    /// Whether the payload column holds bytes rather than text.
    let payloadIsBinary: Bool
    /// The app column, where the table has one.
    let app: PartitionColumn?
    /// The environment column, where the table has one.
    let environment: PartitionColumn?
    /// The columns of push type, priority, expiration and collapse id, where the table has them.
    let options: Options
    /// The time at which a row was queued, where the table has it.
    let queuedAt: TimeColumn?
    /// The time at which a row was sent, where the table has it.
    let sentAt: TimeColumn?
    /// The columns of a row's delivery state.
    let delivery: DeliveryColumns
    /// The index that finds open rows without reading closed ones, where the table has one.
    let openIndex: String?

    /// The columns of the `apns-` headers.
    struct Options: Hashable, Sendable {
        let pushType: String?
        let priority: String?
        let expiration: String?
        let collapseID: String?

        /// The names of the columns that the table has.
        var names: [String] { [pushType, priority, expiration, collapseID].compactMap { $0 } }
    }

    /// The columns of the queue's own table that hold results, each once.
    var writtenColumns: [String] { Self.written(sentAt, delivery).map(\.name) }

    /// The same, each with its setting.
    static func written(
        _ sentAt: TimeColumn?, _ delivery: DeliveryColumns
    ) -> [(setting: String, name: String)] {
        let sent = sentAt.map { [("sent-at", $0.name)] } ?? []
        guard delivery.isInRow else { return sent }
        return sent + delivery.named
    }

    /// The rows of a partition. Throws `configuration` where a column cannot hold its value.
    func selection(of partition: Partition) throws(StoreFailure) -> PartitionSelection {
        try PartitionSelection(partition, app: app, environment: environment)
    }
}

extension QueueLayout {
    /// The queue as `q`, with its delivery states as `d` where they are beside it and may be read.
    func source(
        _ dialect: SQLDialect, hint: String = "", readsDelivery: Bool = true
    ) -> (sql: String, values: [SQLValue]) {
        let own = "\(table.sql(dialect)) AS q\(hint)"
        guard readsDelivery, let queue = delivery.queue else { return (own, []) }
        let side =
            " LEFT JOIN \(delivery.table.sql(dialect)) AS d ON d.queue = ? "
            + "AND d.queue_key = q.\(dialect.quoted(key))"
        return (own + side, [.text(queue)])
    }

    /// A delivery column in a statement with that source.
    func state(_ column: String, _ dialect: SQLDialect) -> String {
        "\(delivery.isInRow ? "q" : "d").\(dialect.quoted(column))"
    }
}

/// The columns of each row's delivery state: in the row itself, or in `pushsweep_delivery` under
/// the row's key. The columns have the same meaning in both.
struct DeliveryColumns: Hashable, Sendable {
    /// The table that has the columns.
    let table: TableName
    /// The table's column that holds the row's key.
    let key: String
    /// The queue's name in the side table; nil where the columns are in the queue's own rows.
    let queue: String?
    let state: String
    let attempts: String
    let reason: String
    let notBefore: TimeColumn
    let answeredAt: TimeColumn

    /// The columns, each with its setting.
    var named: [(setting: String, name: String)] {
        [
            ("state", state), ("attempts", attempts), ("reason", reason),
            ("not-before", notBefore.name), ("answered-at", answeredAt.name),
        ]
    }

    /// Whether the columns are in the queue's own rows.
    var isInRow: Bool { queue == nil }

    /// The columns of the side table `pushsweep_delivery`.
    static func beside(_ queue: String, _ dialect: SQLDialect) -> DeliveryColumns {
        DeliveryColumns(
            table: TableName(name: PushsweepTable.delivery.name), key: "queue_key",
            queue: queue, state: "state", attempts: "attempts", reason: "reason",
            notBefore: dialect.ownTime("not_before"),
            answeredAt: dialect.ownTime("answered_at"))
    }
}

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
        try refuseGenerated(sentAt, delivery)
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

    /// Refuses columns that hold results and that the database computes: a notification would be sent, and
    /// its result could not be written.
    private func refuseGenerated(
        _ sentAt: TimeColumn?, _ delivery: DeliveryColumns
    ) throws(StoreFailure) {
        for (setting, name) in QueueLayout.written(sentAt, delivery)
        where table.column(name)?.isGenerated == true {
            throw columns.refusal(
                "column \(name) is computed from others, so no result can be written to it; name another "
                    + "under store.push-queue.\(setting), or `none`")
        }
    }

    /// The key column. Rows are sent in its order, and claims store runs of its values.
    private func key() throws(StoreFailure) -> String {
        let usual = ["message_id", "id"].first { table.column($0) != nil }
        guard let name = mapping.key ?? usual ?? table.primaryKey.first else {
            var failure = columns.refusal(
                "it has no primary key that the account may see; name the column that identifies "
                    + "a row under store.push-queue.key, or grant SELECT on it")
            failure.unseenColumn = "id"
            throw failure
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
        var missing: [String] = []
        var isWanted = false
        for (setting, column) in mapping.delivery {
            switch column {
            case .absent: missing.append(setting)
            case .detect(let usual):
                let isThere = table.column(usual) != nil || table.hidden.contains(usual)
                if !isThere { missing.append(setting) }
            case .named(let name):
                _ = try columns.required(name, setting: setting)
                isWanted = true
            }
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

extension QueueMapping {
    /// The columns of the delivery state, each with its setting.
    fileprivate var delivery: [(setting: String, column: OptionalColumn)] {
        [
            ("state", state), ("attempts", attempts), ("reason", reason), ("not-before", notBefore),
            ("answered-at", answeredAt),
        ]
    }

    /// All columns that a queue may lack but the times of queueing and sending, by the names in our schema.
    var optional: [(own: String, column: OptionalColumn)] {
        [
            ("app_id", app), ("environment", environment), ("push_type", pushType),
            ("priority", priority), ("expiration", expiration), ("collapse_id", collapseID),
        ] + delivery.map { ($0.setting.replacing("-", with: "_"), $0.column) }
    }
}

extension CatalogTable {
    /// An index whose first column is `name`.
    func index(leading name: String) -> CatalogIndex? {
        indexes.first { $0.columns.first?.lowercased() == name.lowercased() }
    }
}
