import APNsProtocol
import Database
import Findings
import TokenHygiene
import TokenTable

/// A waiting row of the queue as read; without a notification where it has no token.
typealias DueRow = (key: Int64, notification: PushNotification?)

/// Reads waiting rows in the order of their keys.
struct DueRowReader {
    /// The highest number of bytes in one batch. Tokens and payloads of 2,000 usual rows have a
    /// fifth of it.
    static let mostBytes = 4 * 1_024 * 1_024

    let layout: QueueLayout
    let connection: any SQLConnection
    var dialect: SQLDialect { connection.dialect }
    /// Whether the delivery states may be read; a dry run works without them where the side table
    /// is missing.
    var readsDelivery = true
    private let partition: (sql: String, values: [SQLValue])
    private let rechecked: [(column: String, value: SQLValue)]

    init(
        _ layout: QueueLayout, _ connection: any SQLConnection, _ partition: Partition
    ) throws(StoreFailure) {
        self.layout = layout
        self.connection = connection
        let selection = try layout.selection(of: partition)
        self.partition = selection.condition(connection.dialect, alias: "q.")
        rechecked = selection.compared
    }

    struct Found {
        var rows: [DueRow] = []
        /// The highest key read; nil where no row was read.
        var last: Int64?
        /// Whether the rows reach the end of the queue.
        var isAtEnd = false
    }

    /// Reads at most `limit` rows after a key, without those that open claims hold, and of a share of
    /// the queue where one is given. Rows of another app that the column's collation equates with this
    /// one are skipped.
    func read(
        after position: Int64, limit: Int, except claimed: KeySet, now: EpochMilliseconds,
        space: Int64, share: ClaimShare? = nil
    ) throws(SQLFailure) -> Found {
        let runs = Self.longRuns(of: claimed, after: position)
        let most = Self.rows(limit, beside: claimed, after: position, in: share, less: runs)
        let statement = selection(after: position, limit: most, except: runs, now: now, share)
        let rows = try connection.query(
            statement.sql, statement.values, mostBytes: Self.mostBytes)
        try rows.require(width: columns.count)
        var found = Found()
        found.rows.reserveCapacity(min(rows.count, limit))
        for index in 0..<rows.count {
            let values = rows.row(index)
            let key = try layout.rowKey(values.first)
            found.last = key
            if isOfPartition(values) && !claimed.contains(key) {
                found.rows.append(row(key, values, space: space))
                if found.rows.count == limit { return found }
            }
        }
        found.isAtEnd = rows.count < most && rows.bytes <= Self.mostBytes
        return found
    }

    /// Rows to read for `limit` rows. Claimed keys that the statement does not exclude are skipped
    /// after reading, so that few rows would be looked for in as many small reads. There are a few
    /// sizes, so that there are few statements to prepare.
    private static func rows(
        _ limit: Int, beside claimed: KeySet, after position: Int64, in share: ClaimShare?,
        less excluded: [ClosedRange<Int64>]
    ) -> Int {
        let excluded = Set(excluded)
        let ahead = claimed.runs.reduce(0) { ahead, run in
            let isRead =
                run.upperBound > position && share?.contains(run.lowerBound) != false
                && !excluded.contains(run)
            return ahead + (isRead ? run.count : 0)
        }
        return [limit, 200, 1_000].first { $0 >= min(limit + ahead, 1_000) && $0 >= limit } ?? limit
    }

    /// Key, token, payload, attempts, options, and the columns that are compared again after
    /// reading.
    private var columns: [String] {
        let delivery = layout.delivery
        let attempts =
            delivery.isInRow
            ? "q.\(dialect.quoted(delivery.attempts))"
            : readsDelivery ? "COALESCE(d.attempts, 0)" : "0"
        let options = layout.options
        let optional = [
            options.pushType, options.priority, options.expiration, options.collapseID,
        ].map { $0.map { "q.\(dialect.quoted($0))" } ?? "NULL" }
        return [layout.key, layout.token.name, layout.payload].map { "q.\(dialect.quoted($0))" }
            + [attempts] + optional + rechecked.map { "q.\(dialect.quoted($0.column))" }
    }

    private func selection(
        after position: Int64, limit: Int, except runs: [ClosedRange<Int64>],
        now: EpochMilliseconds, _ share: ClaimShare?
    ) -> (sql: String, values: [SQLValue]) {
        let delivery = layout.delivery
        let key = "q.\(dialect.quoted(layout.key))"
        let isBeside = !delivery.isInRow && readsDelivery
        let source = layout.source(dialect, hint: hint, readsDelivery: readsDelivery)
        var sql = "SELECT \(columns.joined(separator: ", ")) FROM \(source.sql) WHERE \(key) > ?"
        var values = source.values + [.integer(position)]
        for run in runs {
            sql += " AND NOT (\(key) BETWEEN ? AND ?)"
            values += [.integer(run.lowerBound), .integer(run.upperBound)]
        }
        if let share = share?.condition(key, dialect) {
            sql += " AND \(share.sql)"
            values += share.values
        }
        if let sentAt = layout.sentAt { sql += " AND q.\(dialect.quoted(sentAt.name)) IS NULL" }
        sql += partition.sql
        values += partition.values
        if delivery.isInRow {
            sql += " AND \(openCondition("q", delivery))"
            values.append(delivery.notBefore.value(now))
        } else if isBeside {
            sql += " AND (d.queue_key IS NULL OR \(openCondition("d", delivery)))"
            values.append(delivery.notBefore.value(now))
        }
        return ("\(sql) ORDER BY \(key) LIMIT \(limit)", values)
    }

    /// Long runs of claimed keys are excluded in the statement; the other claimed keys are skipped
    /// after reading.
    private static func longRuns(
        of claimed: KeySet, after position: Int64
    ) -> [ClosedRange<Int64>] {
        let ahead = claimed.runs.filter { $0.upperBound > position && $0.count >= 50 }
        return StatementShape.padded(
            runs: Array(ahead.sorted { $0.count > $1.count }.prefix(30)))
    }

    private func openCondition(_ alias: String, _ delivery: DeliveryColumns) -> String {
        func name(_ column: String) -> String { "\(alias).\(dialect.quoted(column))" }
        return "\(name(delivery.answeredAt.name)) IS NULL "
            + "AND (\(name(delivery.notBefore.name)) IS NULL "
            + "OR \(name(delivery.notBefore.name)) <= ?)"
    }

    /// Without the hint MariaDB may read the whole table by its key to find the few open rows.
    private var hint: String { dialect.indexHint(layout.openIndex) }

    private func isOfPartition(_ values: ArraySlice<SQLValue>) -> Bool {
        let first = values.startIndex + 8
        for (place, column) in rechecked.enumerated() where values[first + place] != column.value {
            return false
        }
        return true
    }

    private func row(
        _ key: Int64, _ values: ArraySlice<SQLValue>, space: Int64
    ) -> DueRow {
        let start = values.startIndex
        let token = layout.token.token(values[start + 1])
        let notification = token.map { token in
            PushNotification(
                row: key, token: token, id: APNsID(space: space, key: key),
                headers: NotificationHeaders(
                    pushType: values[start + 4].text,
                    priority: values[start + 5].integer.flatMap { Int(exactly: $0) },
                    expiration: values[start + 6].integer, collapseID: values[start + 7].text),
                payload: Self.bytes(values[start + 2]), attempts: values[start + 3].count ?? 0)
        }
        return (key, notification)
    }

    private static func bytes(_ value: SQLValue) -> [UInt8] {
        switch value {
        case .text(let text): Array(text.utf8)
        case .bytes(let bytes): bytes
        default: []
        }
    }
}

extension TokenTable {
    /// Rows per read.
    private static let previewBatch = 2_000

    /// Divides the first rows of a partition that are due, at most `limit`, as a claim would, and passes
    /// them on batch by batch. Reads only and needs no right except SELECT.
    package func previewClaims(
        _ partition: Partition, limit: Int = .max, shouldStop: () -> Bool = { false },
        _ body: (Batch) -> Void
    ) throws(StoreFailure) {
        let lookup = try tokenStatuses(in: partition, forecasting: true)
        _ = try readDueRows(partition, limit: limit, shouldStop: shouldStop) {
            rows throws(StoreFailure) in
            let tokens = rows.compactMap { $0.notification?.token }
            let reasons = try skipReasons(of: tokens, in: partition, by: lookup)
            body(Batch(id: 0, partition, rows, skipping: reasons))
        }
    }

    /// Reads the tokens of the rows of a partition that are due, batch by batch; nil for a row whose
    /// token is none. Reads only and needs no right except SELECT. Returns false where `shouldStop`
    /// ended the reading.
    ///
    /// - Throws: `permission` where the account may not see what senders hold or have finished, which is not due; any
    ///   other failure of reading.
    package func readDueTokens(
        _ partition: Partition, shouldStop: () -> Bool = { false },
        _ body: ([DeviceToken?]) throws(StoreFailure) -> Void
    ) throws(StoreFailure) -> Bool {
        for table in try queueLayout().delivery.isInRow
            ? [PushsweepTable.claim] : [.claim, .delivery]
        {
            let columns = table.columns.map(\.name).joined(separator: ", ")
            _ = try session.decides(by: table, columns, to: "looking for rows that are due")
        }
        return try readDueRows(partition, limit: .max, shouldStop: shouldStop) {
            rows throws(StoreFailure) in
            try body(rows.map { $0.notification?.token })
        }
    }

    /// Reads the rows of a partition that are due, at most `limit`; true when there are no more.
    private func readDueRows(
        _ partition: Partition, limit: Int, shouldStop: () -> Bool,
        _ body: ([DueRow]) throws(StoreFailure) -> Void
    ) throws(StoreFailure) -> Bool {
        let layout = try queueLayout()
        var reader = try DueRowReader(layout, connection, partition)
        if !layout.delivery.isInRow { reader.readsDelivery = try canReadDelivery() }
        let seesClaims = try canReadClaims()
        var position = Int64.min
        var read = 0
        while read < limit && !shouldStop() {
            let size = min(limit - read, Self.previewBatch)
            let batch = try retries.retrying("reading rows of \(layout.table)") {
                () throws(SQLFailure) in
                let now = try connection.dialect.instant(
                    connection.query("SELECT \(connection.dialect.now)")[0, 0])
                let claimed =
                    seesClaims
                    ? try ClaimRecord.openClaims(of: layout.name, connection).keys : KeySet()
                return try reader.read(
                    after: position, limit: size, except: claimed, now: now, space: 0)
            }
            position = batch.last ?? position
            read += batch.rows.count
            try body(batch.rows)
            if batch.isAtEnd { return true }
        }
        return false
    }

    /// Whether `pushsweep_delivery` exists and the account may read it.
    func canReadDelivery() throws(StoreFailure) -> Bool {
        try session.canRead(
            "pushsweep_delivery",
            "queue, queue_key, state, attempts, reason, not_before, answered_at")
    }

    /// Whether the account may read the time of queueing, which a sender does not need.
    func canReadQueuedAt(_ layout: QueueLayout) throws(StoreFailure) -> Bool {
        guard let column = layout.queuedAt else { return false }
        let dialect = connection.dialect
        return try session.canRead(layout.table.sql(dialect), dialect.quoted(column.name))
    }

    /// Whether `pushsweep_claim` exists and the account may read it.
    func canReadClaims() throws(StoreFailure) -> Bool {
        try session.canRead("pushsweep_claim", "queue, state, row_keys")
    }
}
