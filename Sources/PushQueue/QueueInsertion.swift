import APNsProtocol
import Database
import Encodings
import TokenHygiene
import TokenTable

/// A notification to add to the queue.
package struct NewNotification: Hashable, Sendable {
    /// The device token to send to.
    package var token: DeviceToken
    /// The JSON payload, sent unchanged.
    package var payload: [UInt8]
    /// `apns-push-type`; nil: alert.
    package var pushType: String?
    /// `apns-priority`; nil: the push type's default.
    package var priority: Int?
    /// `apns-expiration` in seconds since 1970; nil: none.
    package var expiration: Int64?
    /// `apns-collapse-id`; nil: none.
    package var collapseID: String?
    /// The earliest time to send it; nil: at once.
    package var notBefore: EpochMilliseconds?

    /// Makes a notification; each nil leaves the choice to the defaults.
    package init(
        token: DeviceToken, payload: [UInt8], pushType: String? = nil, priority: Int? = nil,
        expiration: Int64? = nil, collapseID: String? = nil, notBefore: EpochMilliseconds? = nil
    ) {
        self.token = token
        self.payload = payload
        self.pushType = pushType
        self.priority = priority
        self.expiration = expiration
        self.collapseID = collapseID
        self.notBefore = notBefore
    }
}

extension TokenTable {
    /// Rows per INSERT statement.
    private static let rowsPerInsert = 100

    /// Adds notifications for one partition to the queue, all of them or none, in one transaction.
    /// A commit whose answer was lost is not repeated, because that could add all notifications
    /// twice.
    ///
    /// - Throws: `configuration` where the queue has no column for a requested value, or the value
    ///   does not fit; `commitUnknown` where the commit's answer was lost.
    package func enqueue(
        _ notifications: [NewNotification], for partition: Partition
    ) throws(StoreFailure) {
        guard !notifications.isEmpty else { return }
        let layout = try queueLayout()
        let insert = try QueueInsert(layout, connection.dialect, partition)
        for notification in notifications { try insert.check(notification) }
        let count = notifications.count
        let doing = "queueing \(count) notification\(count == 1 ? "" : "s") in \(layout.table)"
        var isCommitting = false
        var lost: SQLFailure?
        func add() throws(SQLFailure) {
            guard lost == nil else { return }
            try connection.begin()
            let now = try connection.dialect.instant(
                connection.query("SELECT \(connection.dialect.now)")[0, 0])
            for run in notifications.runs(of: Self.rowsPerInsert) {
                let statement = insert.statement(for: run, now: now)
                _ = try connection.execute(statement.sql, statement.values)
            }
            isCommitting = true
            do throws(SQLFailure) {
                try connection.commit()
            } catch {
                guard error.kind == .lost else { throw error }
                lost = error
            }
        }
        do throws(StoreFailure) {
            try retries.retrying(doing, add)
        } catch {
            throw namingGrant(error)
        }
        if isCommitting, let lost {
            throw StoreFailure(
                .commitUnknown,
                "\(doing): \(lost.message) (\(lost.code)) at the commit, so they may be queued or "
                    + "not; look for them in \(layout.table) before queueing them again")
        }
    }

    /// The failure with the GRANT that cures it, where the account lacks the right to add rows.
    private func namingGrant(_ failure: StoreFailure) -> StoreFailure {
        guard failure.code == .permission, let grant = try? insertGrant() else { return failure }
        return StoreFailure(.permission, "\(failure.sentence): \(grant)")
    }

    /// The tokens that a user may be reached by: those of the user's rows in a partition that are
    /// not stale, each once.
    ///
    /// - Throws: `configuration` if the token table has no user column.
    package func tokens(
        ofUser user: String, in partition: Partition
    ) throws(StoreFailure) -> [DeviceToken] {
        let condition = try layout().selection(of: partition).condition(connection.dialect)
        let tokens = try tokens(ofUser: user, where: condition, limit: nil)
        let reasons = try skipReasons(of: tokens, in: partition)
        return tokens.filter { reasons[$0] == nil }
    }

    /// The tokens in all rows of a user, of any app and state, each once; at most those of `limit`
    /// rows.
    ///
    /// - Throws: `configuration` if the token table has no user column.
    package func allTokens(
        ofUser user: String, limit: Int
    ) throws(StoreFailure) -> [DeviceToken] {
        let platform = try layout().platformCondition(connection.dialect)
        return try tokens(ofUser: user, where: platform, limit: limit)
    }

    private func tokens(
        ofUser user: String, where condition: (sql: String, values: [SQLValue]), limit: Int?
    ) throws(StoreFailure) -> [DeviceToken] {
        let layout = try layout()
        let dialect = connection.dialect
        guard let column = try userColumn() else {
            throw StoreFailure(
                .configuration,
                "looking up a user's tokens in \(layout.table): it has neither a column user_id "
                    + "nor udid; name the column of users under store.active-users.user.column")
        }
        let lookup =
            "SELECT \(dialect.quoted(layout.token.name)) "
            + "FROM \(layout.table.sql(dialect)) WHERE \(dialect.quoted(column.name)) = ?"
        guard let value = column.value(for: user) else { return [] }
        let end = limit.map { " LIMIT \($0)" } ?? ""
        let rows = try retries.retrying("looking up a user's tokens in \(layout.table)") {
            () throws(SQLFailure) in
            try connection.query(lookup + condition.sql + end, [value] + condition.values)
        }
        var tokens: [DeviceToken] = []
        for row in 0..<rows.count {
            if let token = layout.token.token(rows[row, 0]), !tokens.contains(token) {
                tokens.append(token)
            }
        }
        return tokens
    }

    /// The user column; nil where the token table has none.
    package func userColumn() throws(StoreFailure) -> PartitionColumn? {
        let columns = ColumnResolver(
            table: try catalogTable(), dialect: connection.dialect, group: "store.active-users")
        let candidates =
            settings.mapping.user.map { [$0] } ?? [.detect("user_id"), .detect("udid")]
        for candidate in candidates {
            if let column = try columns.partition(candidate, setting: "user.column", values: [:]) {
                return column
            }
        }
        return nil
    }
}

extension PartitionColumn {
    /// The user as a value of the column; nil where a number column cannot hold it.
    fileprivate func value(for user: String) -> SQLValue? {
        isInteger ? Int64(user).map(SQLValue.integer) : .text(user)
    }
}

/// Builds the statements that add rows to the queue.
struct QueueInsert {
    let layout: QueueLayout
    let dialect: SQLDialect
    private let partition: PartitionSelection

    init(
        _ layout: QueueLayout, _ dialect: SQLDialect, _ partition: Partition
    ) throws(StoreFailure) {
        self.layout = layout
        self.dialect = dialect
        self.partition = try layout.selection(of: partition)
    }

    /// Refuses a value that the table has no column for. Without the value the notification would
    /// be sent differently from the request.
    func check(_ notification: NewNotification) throws(StoreFailure) {
        let options = layout.options
        let notBefore = layout.delivery.isInRow ? layout.delivery.notBefore.name : nil
        let wanted: [(String, Bool, String?)] = [
            ("push-type", notification.pushType != nil, options.pushType),
            ("priority", notification.priority != nil, options.priority),
            ("expiration", notification.expiration != nil, options.expiration),
            ("collapse-id", notification.collapseID != nil, options.collapseID),
            ("not-before", notification.notBefore != nil, notBefore),
        ]
        for (setting, isWanted, column) in wanted where isWanted && column == nil {
            throw StoreFailure(
                .configuration,
                "queueing a notification in \(layout.table): it has no column for \(setting); name "
                    + "one under store.push-queue.\(setting), or leave it out")
        }
        if !layout.payloadIsBinary,
            String(validating: notification.payload, as: UTF8.self) == nil
        {
            throw StoreFailure(
                .configuration,
                "queueing a notification in \(layout.table): the payload is not UTF-8, which the "
                    + "text column \(layout.payload) cannot hold; correct the payload")
        }
        // The escapes are sent as they are stored.
        let size = stored(notification.payload).text?.utf8.count ?? notification.payload.count
        let limit = (notification.pushType.flatMap(PushType.init) ?? .alert).payloadLimit
        guard size <= limit || size == notification.payload.count else {
            throw StoreFailure(
                .configuration,
                "queueing a notification in \(layout.table): column \(layout.payload) cannot hold all "
                    + "characters of the payload, and with escapes in their place it has \(size) bytes, "
                    + "of which APNs takes \(limit); shorten it, or convert the column to utf8mb4")
        }
    }

    /// The payload as a value of its column.
    private func stored(_ payload: [UInt8]) -> SQLValue {
        if layout.payloadIsBinary { return .bytes(payload) }
        let text = String(decoding: payload, as: UTF8.self)
        return .text(layout.lastCharacter.map { JSONText.escaping(above: $0, in: text) } ?? text)
    }

    /// The INSERT statement for some rows.
    func statement(
        for notifications: ArraySlice<NewNotification>, now: EpochMilliseconds
    ) -> (sql: String, values: [SQLValue]) {
        let options = layout.options
        var columns =
            partition.values.map(\.column.name) + [layout.token.name, layout.payload]
            + options.names
        if layout.delivery.isInRow { columns.append(layout.delivery.notBefore.name) }
        if let queuedAt = layout.queuedAt { columns.append(queuedAt.name) }
        var values: [SQLValue] = []
        values.reserveCapacity(columns.count * notifications.count)
        for notification in notifications {
            values += partition.values.map(\.value)
            values.append(layout.token.stored(notification.token))
            values.append(stored(notification.payload))
            func add(_ column: String?, _ value: SQLValue?) {
                if column != nil { values.append(value ?? .null) }
            }
            add(options.pushType, notification.pushType.map(SQLValue.text))
            add(options.priority, notification.priority.map { .integer(Int64($0)) })
            add(options.expiration, notification.expiration.map(SQLValue.integer))
            add(options.collapseID, notification.collapseID.map(SQLValue.text))
            if layout.delivery.isInRow {
                let time = layout.delivery.notBefore
                values.append(notification.notBefore.map { time.value(time.floor($0)) } ?? .null)
            }
            if let queuedAt = layout.queuedAt {
                values.append(queuedAt.value(queuedAt.floor(now)))
            }
        }
        let row = "(\(placeholders(columns.count)))"
        let rows = repeatElement(row, count: notifications.count).joined(separator: ", ")
        let list = columns.map(dialect.quoted).joined(separator: ", ")
        return ("INSERT INTO \(layout.table.sql(dialect)) (\(list)) VALUES \(rows)", values)
    }
}

extension TokenColumn {
    /// A token in the column's encoding: bytes, or lower-case hex.
    func stored(_ token: DeviceToken) -> SQLValue {
        guard encoding == .hex else { return .bytes(token.bytes) }
        return isBinary ? .bytes(Array(token.hex.utf8)) : .text(token.hex)
    }
}
