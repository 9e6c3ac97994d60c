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
    package var headers: NotificationHeaders
    /// The earliest time to send it; nil: at once.
    package var notBefore: EpochMilliseconds?

    package init(
        token: DeviceToken, payload: [UInt8], headers: NotificationHeaders = NotificationHeaders(),
        notBefore: EpochMilliseconds? = nil
    ) {
        (self.token, self.payload) = (token, payload)
        (self.headers, self.notBefore) = (headers, notBefore)
    }
}

extension TokenTable {
    /// Rows per INSERT statement.
    private static let rowsPerInsert = 100

    /// Adds notifications for one partition to the queue, all of them or none, in one transaction.
    /// A commit whose answer was lost is not repeated, because that could add all notifications
    /// twice. A payload that is stored with escapes may have `payloadLimit` bytes; nil: those of its push
    /// type.
    ///
    /// - Throws: `configuration` where the queue has no column for a requested value, or the value
    ///   does not fit; `commitUnknown` where the commit's answer was lost.
    package func enqueue(
        _ notifications: [NewNotification], for partition: Partition, payloadLimit: Int? = nil
    ) throws(StoreFailure) {
        guard !notifications.isEmpty else { return }
        let layout = try queueLayout()
        var insert = try QueueInsert(layout, connection.dialect, partition)
        insert.payloadLimit = payloadLimit
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
}

/// Builds the statements that add rows to the queue.
struct QueueInsert {
    let layout: QueueLayout
    let dialect: SQLDialect
    /// The most bytes of a payload; nil: those of its push type.
    var payloadLimit: Int?
    private let partition: PartitionSelection

    init(
        _ layout: QueueLayout, _ dialect: SQLDialect, _ partition: Partition
    ) throws(StoreFailure) {
        (self.layout, self.dialect) = (layout, dialect)
        self.partition = try layout.selection(of: partition)
    }

    /// The columns that a queue may lack, with a notification's values.
    private func optional(
        _ notification: NewNotification
    ) -> [(setting: String, column: String?, value: SQLValue?)] {
        let (options, headers) = (layout.options, notification.headers)
        let time = layout.delivery.notBefore
        return [
            ("push-type", options.pushType, headers.pushType.map(SQLValue.text)),
            ("priority", options.priority, headers.priority.map { .integer(Int64($0)) }),
            ("expiration", options.expiration, headers.expiration.map(SQLValue.integer)),
            ("collapse-id", options.collapseID, headers.collapseID.map(SQLValue.text)),
            (
                "not-before", layout.delivery.isInRow ? time.name : nil,
                notification.notBefore.map { time.value(time.floor($0)) }
            ),
        ]
    }

    /// Refuses a value that the table has no column for. Without the value the notification would
    /// be sent differently from the request.
    func check(_ notification: NewNotification) throws(StoreFailure) {
        for (setting, column, value) in optional(notification) where value != nil && column == nil {
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
        let limit =
            payloadLimit
            ?? (notification.headers.pushType.flatMap(PushType.init) ?? .alert).payloadLimit
        guard size <= limit || size == notification.payload.count else {
            throw StoreFailure(
                .configuration,
                "queueing a notification in \(layout.table): column \(layout.payload) cannot hold all "
                    + "characters of the payload, and with escapes in their place it has \(size) bytes, "
                    + "of which the gateway takes \(limit); shorten it, or convert the column to utf8mb4"
            )
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
        var columns = partition.values.map(\.column.name) + [layout.token.name, layout.payload]
        if let queuedAt = layout.queuedAt { columns.append(queuedAt.name) }
        var values: [SQLValue] = []
        for (number, notification) in notifications.enumerated() {
            values += partition.values.map(\.value)
            values += [layout.token.stored(notification.token), stored(notification.payload)]
            if let time = layout.queuedAt { values.append(time.value(time.floor(now))) }
            for case (_, let column?, let value) in optional(notification) {
                if number == 0 { columns.append(column) }
                values.append(value ?? .null)
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

// The users of the token table: their tokens, and the users of tokens.

extension TokenTable {
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
        let column = try seeingColumns(of: layout.table) { () throws(StoreFailure) in
            if let column = try userColumn() { return column }
            var failure = StoreFailure(
                .configuration,
                "looking up a user's tokens in \(layout.table): it has neither a column user_id "
                    + "nor udid with text or whole numbers; name the column of users under store.active-users.user.column"
            )
            failure.unseenColumn = "user_id"
            throw failure
        }
        let lookup =
            "SELECT \(dialect.quoted(layout.token.name)) "
            + "FROM \(layout.table.sql(dialect)) WHERE \(dialect.quoted(column.name)) = ?"
        guard let value = column.value(for: user) else { return [] }
        let end = limit.map { " LIMIT \($0)" } ?? ""
        let rows = try retries.retrying(
            "looking up a user's tokens in \(layout.table)",
            do: connection.query(lookup + condition.sql + end, [value] + condition.values))
        var tokens: [DeviceToken] = []
        for row in 0..<rows.count {
            if let token = layout.token.token(rows[row, 0]), !tokens.contains(token) {
                tokens.append(token)
            }
        }
        return tokens
    }

    /// The users in the rows of tokens, of any app and state, each once, in the order of their names; at
    /// most `StatementShape.longest` search values are in a statement. Nil where the token table has no
    /// user column.
    ///
    /// - Throws: any failure of a query.
    package func users(
        of tokens: Set<DeviceToken>
    ) throws(StoreFailure) -> [DeviceToken: [String]]? {
        let layout = try layout()
        let dialect = connection.dialect
        guard let column = try userColumn() else { return nil }
        let platform = layout.platformCondition(dialect)
        let name = dialect.quoted(layout.token.name)
        var found: [DeviceToken: Set<String>] = [:]
        for run in tokens.sorted().runs(of: StatementShape.longest / layout.token.spellings) {
            var values: [SQLValue] = []
            for token in run { layout.token.appendSearchValues(for: token, to: &values) }
            values = StatementShape.padded(values)
            let lookup =
                "SELECT \(name), \(dialect.quoted(column.name)) FROM \(layout.table.sql(dialect)) "
                + "WHERE \(name) IN (\(placeholders(values.count)))\(platform.sql)"
            let rows = try retries.retrying(
                "looking up users in \(layout.table)",
                do: connection.query(lookup, values + platform.values))
            for row in 0..<rows.count {
                guard let token = layout.token.token(rows[row, 0]), tokens.contains(token),
                    let user = rows[row, 1].text ?? rows[row, 1].integer.map(String.init)
                else { continue }
                found[token, default: []].insert(user)
            }
        }
        return found.mapValues { $0.sorted() }
    }

    /// The user column; nil where the token table has none, also where a column with the usual name holds
    /// something else, such as a UUID as bytes, and the settings name none.
    ///
    /// - Throws: `configuration` where the one that the settings name cannot be used.
    package func userColumn() throws(StoreFailure) -> PartitionColumn? {
        let columns = ColumnResolver(
            table: try catalogTable(), dialect: connection.dialect, group: "store.active-users")
        let candidates =
            settings.mapping.user.map { [$0] } ?? [.detect("user_id"), .detect("udid")]
        for candidate in candidates {
            do throws(StoreFailure) {
                let column = try columns.partition(candidate, setting: "user.column", values: [:])
                if let column { return column }
            } catch {
                guard case .detect = candidate else { throw error }
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
