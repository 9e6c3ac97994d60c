import APNsProtocol
import Database
import TokenHygiene
import TokenTable

// The rows of the queue, newest first, for a person who asks what became of notifications.
//
// The queue belongs to the application, may have millions of rows, and usually has no index but its key
// and the one that finds open rows. So the rows are read in the order of their keys, page by page, in
// memory that does not grow. Without a filter that is all. With a filter an index leads to the rows, where
// the table has one that fits. Where none does, the rows are searched in windows of a fixed number of
// rows, the newest first, so that no statement runs for long. The search ends after a number of rows that
// the caller gives, and the result says how many were searched.
//
// A filter in SQL lets rows through that only might match: collations ignore the case of letters, and no
// column says which rows a sender holds. Each row is compared once more after it is read.
//
// Senders write while the rows are read. The claims are read before each page: a row that gets its result
// in between has that result. In the other order it would look as if it waited.

/// Which rows of the queue are listed. A filter that is nil or empty lets all rows through.
package struct QueueFilter: Hashable, Sendable {
    /// Rows with one of these tokens, at most a hundred; no rows for no tokens.
    package var tokens: [DeviceToken]?
    /// Rows in one of these states.
    package var states: Set<DeliveryState> = []
    /// Rows of one of these apps and environments, by the table's values.
    package var partitions: [Partition]?
    /// Rows that were queued at this time or later.
    package var since: EpochMilliseconds?

    /// Lets all rows through.
    package init() {}

    /// Whether only rows without a final state match.
    var isOpenOnly: Bool { !states.isEmpty && states.allSatisfy { !$0.isFinal } }
    /// Whether rows without a final state match.
    var hasOpen: Bool { states.isEmpty || states.contains { !$0.isFinal } }
}

/// Reads the rows that a filter lets through, newest first. Reads only.
package struct QueueListing {
    /// The most rows that one statement reads.
    private static let page = 500
    /// The rows that one statement searches where no index leads to them.
    private static let window = 50_000

    private let store: TokenTable
    private let filter: QueueFilter
    private let layout: QueueLayout
    private let mostSearched: Int
    private let seesClaims: Bool
    /// Whether the delivery states may be read, where they are in a side table.
    private let readsDelivery: Bool
    /// The time of queueing, where the table has it and it may be read.
    private let queuedAt: TimeColumn?
    /// The partitions of the settings with their values in the queue's columns.
    private let named: [(partition: Partition, selection: PartitionSelection)]

    // MARK: How the rows are found
    private var condition: Term = ("", [])
    private var hint = ""
    /// Whether rows are searched because no index leads to those that match.
    private var searches = false

    // MARK: What was read so far
    /// The next key to be looked at.
    private var position = Int64.max
    /// The key below the present window; nil for none.
    private var floor: Int64?
    private var isInWindow = false
    private var searched = 0
    private var isAtEnd = false

    /// The newest rows that were searched where no index leads to the rows and there are older ones, which
    /// were not searched; nil where all rows were considered.
    package private(set) var newest: Int?

    private var connection: any SQLConnection { store.connection }
    private var dialect: SQLDialect { connection.dialect }
    private var delivery: DeliveryColumns { layout.delivery }

    /// Prepares the reading. `partitions` are those of the settings, which name the apps of rows. At most
    /// `mostSearched` rows are searched where no index leads to them.
    ///
    /// - Throws: `configuration` where the queue does not fit the settings or has no column that the
    ///   filter needs; any failure of a query.
    package init(
        _ store: TokenTable, _ filter: QueueFilter, in partitions: [Partition],
        mostSearched: Int = TokenTable.mostQueueRowsSearched
    ) throws(StoreFailure) {
        let layout = try store.queueLayout()
        let readsQueuedAt = try store.canReadQueuedAt(layout)
        if filter.since != nil, layout.queuedAt == nil || !readsQueuedAt {
            throw Self.untimed(layout)
        }
        (self.store, self.filter, self.layout) = (store, filter, layout)
        self.mostSearched = mostSearched
        queuedAt = readsQueuedAt ? layout.queuedAt : nil
        readsDelivery = layout.delivery.isInRow ? true : try store.canReadDelivery()
        named = try partitions.map { partition throws(StoreFailure) in
            (partition, try layout.selection(of: partition))
        }
        seesClaims = filter.hasOpen ? try store.canReadClaims() : true
        isAtEnd = filter.tokens?.isEmpty == true
        try plan(store.queueTable())
    }

    private static func untimed(_ layout: QueueLayout) -> StoreFailure {
        guard let column = layout.queuedAt?.name else {
            return StoreFailure(
                .configuration,
                "listing rows of \(layout.table): it has no column for the time of queueing, so rows "
                    + "since a time cannot be found; name one under store.push-queue.queued-at")
        }
        return StoreFailure(
            .permission,
            "listing rows of \(layout.table): the account may not read its column \(column), so rows "
                + "since a time cannot be found; grant SELECT on it, as `pushsweep check --grants` says"
        )
    }

    /// What cannot be read, and so not be told of the rows.
    package var gaps: [String] {
        var gaps: [String] = []
        if !seesClaims {
            gaps.append(
                "pushsweep_claim: the account may not read it, so a row that a sender holds looks "
                    + "pending; grant SELECT on it")
        }
        if !readsDelivery {
            gaps.append(
                "pushsweep_delivery: the account may not read it or there is none, so only the time of "
                    + "sending tells the state of a row; grant SELECT on it, or run `pushsweep schema "
                    + "apply`")
        }
        if layout.queuedAt != nil && queuedAt == nil {
            gaps.append(
                "the time of queueing: the account may not read the column; grant SELECT on it, as "
                    + "`pushsweep check --grants` says")
        }
        return gaps
    }
    /// Whether the queue's rows name their app.
    package var tellsApps: Bool { layout.app != nil }
    /// Whether the queue's rows name their environment.
    package var tellsEnvironments: Bool { layout.environment != nil }

    /// The next rows in order; empty at the end.
    ///
    /// - Throws: any failure of a query; `configuration` for a key that is no whole number of 64 bits.
    package mutating func next() throws(StoreFailure) -> [QueuedRow] {
        while !isAtEnd {
            guard try enterWindow() else { break }
            let page = try read()
            if let last = page.last, page.count == Self.page {
                isAtEnd = last == .min
                position = isAtEnd ? last : last - 1
            } else if let floor {
                (position, isInWindow) = (floor, false)
            } else {
                isAtEnd = true
            }
            if !page.rows.isEmpty { return page.rows }
        }
        isAtEnd = true
        return []
    }

    /// Finds where the next window ends; false where no more rows may be searched.
    private mutating func enterWindow() throws(StoreFailure) -> Bool {
        guard searches, !isInWindow else { return true }
        let size = min(Self.window, mostSearched - searched)
        guard size > 0 else {
            newest = searched
            return false
        }
        let statement =
            "SELECT \(key) FROM \(layout.table.sql(dialect)) AS q WHERE \(key) <= ? "
            + "ORDER BY \(key) DESC LIMIT 1 OFFSET \(size)"
        let start = position
        floor = try store.retries.retrying(
            "reading the keys of \(layout.table)",
            do: connection.query(statement, [.integer(start)]).scalar?.integer)
        searched += size
        isInWindow = true
        return true
    }

    // MARK: Reading

    /// The rows of the next page that match, and how many were read down to which key.
    private func read() throws(StoreFailure) -> (rows: [QueuedRow], count: Int, last: Int64?) {
        try store.retries.retrying("reading the rows of \(layout.table)") {
            () throws(SQLFailure) in
            var claimed = KeySet()
            if seesClaims && filter.hasOpen {
                claimed = try ClaimRecord.openClaims(of: layout.name, connection).keys
            }
            guard let range = range(claimed) else { return ([], 0, nil) }
            let statement = statement(range)
            let rows = try connection.query(statement.sql, statement.values)
            try rows.require(width: columns.count)
            var (matching, last): ([QueuedRow], Int64?) = ([], nil)
            for place in 0..<rows.count {
                let values = rows.row(place)
                last = try layout.rowKey(values.first)
                if let row = try match(values, claimed) { matching.append(row) }
            }
            return (matching, rows.count, last)
        }
    }

    /// The keys to be read; nil for none. Rows that senders hold are near each other, and usually far
    /// from the newest ones.
    private func range(_ claimed: KeySet) -> (floor: Int64?, top: Int64)? {
        guard filter.states == [.claimed] else { return (floor, position) }
        guard let lowest = claimed.runs.first?.lowerBound,
            let highest = claimed.runs.last?.upperBound, lowest <= position
        else { return nil }
        return (lowest == .min ? nil : lowest - 1, min(highest, position))
    }

    /// The row, where it matches.
    private func match(
        _ values: ArraySlice<SQLValue>, _ claimed: KeySet
    ) throws(SQLFailure) -> QueuedRow? {
        let partitions = named.filter { _, selection in
            selection.values.allSatisfy { column, value in
                values[values.startIndex + (column.name == layout.app?.name ? 9 : 10)] == value
            }
        }.map(\.partition)
        if let wanted = filter.partitions, !partitions.contains(where: wanted.contains) {
            return nil
        }
        let row = try row(values, of: partitions.count == 1 ? partitions[0] : nil, claimed)
        if let tokens = filter.tokens {
            guard let token = row.token, tokens.contains(token) else { return nil }
        }
        if !filter.states.isEmpty {
            guard let state = DeliveryState(rawValue: row.state), filter.states.contains(state)
            else { return nil }
        }
        if let since = filter.since {
            guard let queued = row.queued, queued >= since else { return nil }
        }
        return row
    }

    private func row(
        _ values: ArraySlice<SQLValue>, of partition: Partition?, _ claimed: KeySet
    ) throws(SQLFailure) -> QueuedRow {
        let first = values.startIndex
        let key = try layout.rowKey(values[first])
        let sent = layout.sentAt?.mark(values[first + 8])
        var state = values[first + 2].text ?? DeliveryState.pending.rawValue
        if DeliveryState(rawValue: state)?.isFinal == false {
            if sent != nil {
                state = DeliveryState.sent.rawValue
            } else if claimed.contains(key) {
                state = DeliveryState.claimed.rawValue
            }
        }
        return QueuedRow(
            key: key, token: layout.token.token(values[first + 1]), partition: partition,
            state: state, reason: values[first + 4].text, attempts: values[first + 3].count ?? 0,
            queued: queuedAt?.mark(values[first + 5]),
            notBefore: delivery.notBefore.mark(values[first + 6]),
            answered: delivery.answeredAt.mark(values[first + 7]) ?? sent)
    }
}

// MARK: Statements

extension QueueListing {
    fileprivate typealias Term = (sql: String, values: [SQLValue])

    /// The key column.
    fileprivate var key: String { own(layout.key) }

    /// A column of the queue; NULL for one that the table lacks.
    private func own(_ column: String?) -> String {
        column.map { "q.\(dialect.quoted($0))" } ?? "NULL"
    }

    /// A delivery column; NULL where it may not be read.
    private func state(_ column: String) -> String {
        readsDelivery ? layout.state(column, dialect) : "NULL"
    }

    fileprivate var columns: [String] {
        [
            key, own(layout.token.name), state(delivery.state), state(delivery.attempts),
            state(delivery.reason), own(queuedAt?.name), state(delivery.notBefore.name),
            state(delivery.answeredAt.name), own(layout.sentAt?.name), own(layout.app?.name),
            own(layout.environment?.name),
        ]
    }

    /// The statement for rows whose keys are above `floor` and not above `top`.
    fileprivate func statement(_ range: (floor: Int64?, top: Int64)) -> Term {
        let source = layout.source(dialect, hint: hint, readsDelivery: readsDelivery)
        let floor = range.floor.map { [SQLValue.integer($0)] } ?? []
        let sql =
            "SELECT \(columns.joined(separator: ", ")) FROM \(source.sql) WHERE \(key) <= ?"
            + (floor.isEmpty ? "" : " AND \(key) > ?")
            + "\(condition.sql) ORDER BY \(key) DESC LIMIT \(Self.page)"
        return (sql, source.values + [.integer(range.top)] + floor + condition.values)
    }

    /// Decides how the rows are found in the table as the database describes it.
    ///
    /// - Throws: `configuration` where a column cannot hold a partition's value.
    fileprivate mutating func plan(_ table: CatalogTable) throws(StoreFailure) {
        let ofPartitions = try partitionsTerm()
        let terms = [tokensTerm, statesTerm, sinceTerm, ofPartitions].compactMap { $0 }
        condition = (terms.map { " AND \($0.sql)" }.joined(), terms.flatMap(\.values))
        // An index that begins with app and environment helps only where both are given.
        let given = ofPartitions == nil ? [] : [layout.app?.name, layout.environment?.name]
        let byToken =
            filter.tokens == nil
            ? nil : table.index(onToken: layout.token.name, after: given.compactMap { $0 })
        hint = dialect.indexHint(byToken?.name)
        let byTime = filter.since == nil ? nil : queuedAt.flatMap { table.index(leading: $0.name) }
        let byState = filter.isOpenOnly && layout.openIndex != nil || filter.states == [.claimed]
        let isFiltered = !terms.isEmpty || !filter.states.isEmpty
        searches = isFiltered && byToken == nil && byTime == nil && !byState
    }

    private var tokensTerm: Term? {
        guard let tokens = filter.tokens else { return nil }
        var values: [SQLValue] = []
        for token in tokens { layout.token.appendSearchValues(for: token, to: &values) }
        values = StatementShape.padded(values)
        return ("\(own(layout.token.name)) IN (\(placeholders(values.count)))", values)
    }

    /// A row without an entry in the side table waits, or another program has sent it.
    private var statesTerm: Term? {
        guard !filter.states.isEmpty else { return nil }
        let sentAt = layout.sentAt.map { own($0.name) }
        if filter.isOpenOnly {
            // The condition of the index that finds open rows.
            if delivery.isInRow { return ("\(state(delivery.answeredAt.name)) IS NULL", []) }
            if let sentAt, !readsDelivery { return ("\(sentAt) IS NULL", []) }
        }
        guard readsDelivery else { return nil }
        let column = state(delivery.state)
        var names = filter.states
        if filter.hasOpen { names.formUnion([.pending, .retry]) }
        names.remove(.claimed)
        let values = StatementShape.padded(names.map(\.rawValue).sorted().map(SQLValue.text))
        var ways = ["\(column) IN (\(placeholders(values.count)))"]
        if filter.hasOpen || filter.states.contains(.sent) { ways.append("\(column) IS NULL") }
        if filter.states.contains(.sent), let sentAt { ways.append("\(sentAt) IS NOT NULL") }
        var sql = "(\(ways.joined(separator: " OR ")))"
        if filter.isOpenOnly, let sentAt { sql += " AND \(sentAt) IS NULL" }
        return (sql, values)
    }

    /// Texts of a time column may name a zone of their own or have another separator of date and time, so
    /// they are compared by the day before.
    private var sinceTerm: Term? {
        guard let since = filter.since, let column = queuedAt else { return nil }
        var least = column.floor(since)
        if case .text = column.storage { least = column.floor(since.advanced(by: -86_400_000)) }
        return ("\(own(column.name)) >= ?", [column.value(least)])
    }

    /// Nil where the table has no column that tells partitions apart.
    private func partitionsTerm() throws(StoreFailure) -> Term? {
        guard let partitions = filter.partitions else { return nil }
        var (ways, values): ([String], [SQLValue]) = ([], [])
        for partition in partitions {
            let selection = try layout.selection(of: partition).values
            guard !selection.isEmpty else { return nil }
            let terms = selection.map { "\(own($0.column.name)) = ?" }
            ways.append("(\(terms.joined(separator: " AND ")))")
            values += selection.map(\.value)
        }
        return ("(\(ways.joined(separator: " OR ")))", values)
    }
}
