import APNsProtocol
import Database
import TokenHygiene
import TokenTable

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
