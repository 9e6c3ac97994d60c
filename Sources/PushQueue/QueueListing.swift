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
    private let reader: QueuedRowReader
    private let plan: QueueListingPlan
    private let seesClaims: Bool
    private let mostSearched: Int
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
    private var layout: QueueLayout { reader.layout }

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
        (self.store, self.filter, self.mostSearched) = (store, filter, mostSearched)
        let readsDelivery = layout.delivery.isInRow ? true : try store.canReadDelivery()
        reader = try QueuedRowReader(
            layout, store.connection.dialect, readsDelivery: readsDelivery,
            readsQueuedAt: readsQueuedAt, partitions: partitions)
        plan = try QueueListingPlan(filter, reader, try store.queueTable())
        seesClaims = filter.hasOpen ? try store.canReadClaims() : true
        isAtEnd = filter.tokens?.isEmpty == true
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

    /// Whether the queue has a time of queueing that the account may not read.
    package var lacksTimes: Bool { layout.queuedAt != nil && reader.queuedAt == nil }
    /// Whether the claims of senders cannot be read, so that a row that a sender holds looks as if it
    /// waited.
    package var lacksClaims: Bool { !seesClaims }
    /// Whether the side table with the states cannot be read, so that only the time of sending tells
    /// a state.
    package var lacksStates: Bool { !reader.readsDelivery }
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
            } else {
                endWindow()
            }
            if !page.rows.isEmpty { return page.rows }
        }
        isAtEnd = true
        return []
    }

    // MARK: Windows

    /// Finds where the next window ends; false where no more rows may be searched.
    private mutating func enterWindow() throws(StoreFailure) -> Bool {
        guard plan.searches, !isInWindow else { return true }
        let size = min(Self.window, mostSearched - searched)
        guard size > 0 else {
            newest = searched
            return false
        }
        let key = reader.key
        let statement =
            "SELECT \(key) FROM \(layout.table.sql(connection.dialect)) AS q WHERE \(key) <= ? "
            + "ORDER BY \(key) DESC LIMIT 1 OFFSET \(size)"
        let start = position
        floor = try store.retries.retrying("reading the keys of \(layout.table)") {
            () throws(SQLFailure) in
            try connection.query(statement, [.integer(start)]).scalar?.integer
        }
        searched += size
        isInWindow = true
        return true
    }

    private mutating func endWindow() {
        if let floor {
            position = floor
            isInWindow = false
        } else {
            isAtEnd = true
        }
    }

    // MARK: Reading

    /// What one statement read.
    private struct Page {
        /// The rows that match.
        var rows: [QueuedRow] = []
        /// The number of rows read.
        var count = 0
        /// The lowest key read.
        var last: Int64?
    }

    private func read() throws(StoreFailure) -> Page {
        try store.retries.retrying("reading the rows of \(layout.table)") {
            () throws(SQLFailure) in
            var claimed = KeySet()
            if seesClaims && filter.hasOpen {
                claimed = try ClaimRecord.claimedKeys(of: layout.name, connection)
            }
            var page = Page()
            guard let range = range(claimed) else { return page }
            let statement = plan.statement(range, limit: Self.page)
            let rows = try connection.query(statement.sql, statement.values)
            try rows.require(width: QueuedRowReader.width)
            page.count = rows.count
            for place in 0..<rows.count {
                let values = rows.row(place)
                page.last = try layout.rowKey(values.first)
                if let row = try match(values, claimed) { page.rows.append(row) }
            }
            return page
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
        let partitions = reader.partitions(of: values)
        if let wanted = filter.partitions, !partitions.contains(where: wanted.contains) {
            return nil
        }
        let row = try reader.row(
            values, of: partitions.count == 1 ? partitions[0] : nil, claimed: claimed)
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
}

/// The statement that reads the rows of a listing, and how it finds them.
struct QueueListingPlan {
    /// Whether rows are searched because no index leads to those that match.
    let searches: Bool

    private let reader: QueuedRowReader
    private let hint: String
    private let condition: (sql: String, values: [SQLValue])

    /// Plans the listing of the rows that a filter lets through, of a table as the database describes it.
    ///
    /// - Throws: `configuration` where a column cannot hold a partition's value.
    init(
        _ filter: QueueFilter, _ reader: QueuedRowReader, _ table: CatalogTable
    ) throws(StoreFailure) {
        let layout = reader.layout
        self.reader = reader
        var terms = [
            Self.tokens(filter, reader), Self.states(filter, reader), Self.since(filter, reader),
        ].compactMap { $0 }
        let partitions = try Self.partitions(filter, reader)
        if let partitions { terms.append(partitions) }
        condition = (
            terms.map { " AND \($0.sql)" }.joined(), terms.flatMap(\.values)
        )
        // An index that begins with app and environment helps only where both are given.
        let given = partitions == nil ? [] : [layout.app?.name, layout.environment?.name]
        let byToken =
            filter.tokens == nil
            ? nil : table.index(onToken: layout.token.name, after: given.compactMap { $0 })
        hint = reader.dialect.indexHint(byToken?.name)
        let byTime =
            filter.since == nil ? nil : reader.queuedAt.flatMap { table.index(leading: $0.name) }
        let byState = filter.isOpenOnly && layout.openIndex != nil || filter.states == [.claimed]
        let isFiltered = !terms.isEmpty || !filter.states.isEmpty
        searches = isFiltered && byToken == nil && byTime == nil && !byState
    }

    /// The statement for rows whose keys are above `floor` and not above `top`.
    func statement(
        _ range: (floor: Int64?, top: Int64), limit: Int
    ) -> (sql: String, values: [SQLValue]) {
        let selection = reader.selection(hint: hint)
        let (key, floor) = (reader.key, range.floor.map { [SQLValue.integer($0)] } ?? [])
        let sql =
            selection.sql + " WHERE \(key) <= ?" + (floor.isEmpty ? "" : " AND \(key) > ?")
            + "\(condition.sql) ORDER BY \(key) DESC LIMIT \(limit)"
        return (sql, selection.values + [.integer(range.top)] + floor + condition.values)
    }

    private typealias Term = (sql: String, values: [SQLValue])

    private static func tokens(_ filter: QueueFilter, _ reader: QueuedRowReader) -> Term? {
        guard let tokens = filter.tokens else { return nil }
        let column = reader.layout.token
        var values: [SQLValue] = []
        for token in tokens { column.appendSearchValues(for: token, to: &values) }
        values = StatementShape.padded(values)
        return ("\(reader.own(column.name)) IN (\(placeholders(values.count)))", values)
    }

    /// A row without an entry in the side table waits, or another program has sent it.
    private static func states(_ filter: QueueFilter, _ reader: QueuedRowReader) -> Term? {
        guard !filter.states.isEmpty else { return nil }
        let (layout, delivery) = (reader.layout, reader.layout.delivery)
        let sentAt = layout.sentAt.map { reader.own($0.name) }
        if filter.isOpenOnly {
            // The condition of the index that finds open rows.
            if delivery.isInRow { return ("\(reader.state(delivery.answeredAt.name)) IS NULL", []) }
            if let sentAt, !reader.readsDelivery { return ("\(sentAt) IS NULL", []) }
        }
        guard reader.readsDelivery else { return nil }
        let state = reader.state(delivery.state)
        var names = filter.states
        if filter.hasOpen { names.formUnion([.pending, .retry]) }
        names.remove(.claimed)
        let values = StatementShape.padded(names.map(\.rawValue).sorted().map(SQLValue.text))
        var ways = ["\(state) IN (\(placeholders(values.count)))"]
        if filter.hasOpen || filter.states.contains(.sent) { ways.append("\(state) IS NULL") }
        if filter.states.contains(.sent), let sentAt { ways.append("\(sentAt) IS NOT NULL") }
        var sql = "(\(ways.joined(separator: " OR ")))"
        if filter.isOpenOnly, let sentAt { sql += " AND \(sentAt) IS NULL" }
        return (sql, values)
    }

    /// Texts of a time column may name a zone of their own or have another separator of date and time, so
    /// they are compared by the day before.
    private static func since(_ filter: QueueFilter, _ reader: QueuedRowReader) -> Term? {
        guard let since = filter.since, let column = reader.queuedAt else { return nil }
        var least = column.floor(since)
        if case .text = column.storage { least = column.floor(since.adding(seconds: -86_400)) }
        return ("\(reader.own(column.name)) >= ?", [column.value(least)])
    }

    /// Nil where the table has no column that tells partitions apart.
    private static func partitions(
        _ filter: QueueFilter, _ reader: QueuedRowReader
    ) throws(StoreFailure) -> Term? {
        guard let partitions = filter.partitions else { return nil }
        var (ways, values): ([String], [SQLValue]) = ([], [])
        for partition in partitions {
            let selection = try reader.layout.selection(of: partition).values
            guard !selection.isEmpty else { return nil }
            let terms = selection.map { "\(reader.own($0.column.name)) = ?" }
            ways.append("(\(terms.joined(separator: " AND ")))")
            values += selection.map(\.value)
        }
        return ("(\(ways.joined(separator: " OR ")))", values)
    }
}
