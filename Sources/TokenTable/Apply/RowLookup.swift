import APNsProtocol
import Database
import TokenHygiene

/// A row of the user's table that carries a token of the evidence.
struct MatchedRow {
    /// Which entry of the evidence looked up.
    let evidence: Int
    /// The row's values, in the order of `RowLookup.columns`.
    let values: ArraySlice<SQLValue>
    /// When the device registered, by this row.
    let registeredAt: EpochMilliseconds?
    /// The mark in the row.
    let mark: EpochMilliseconds?
    /// Why the row cannot be judged or, where it is to be removed, not be brought back.
    var obstacle: RowRefusal?
}

/// Rows found for some evidence.
struct FoundRows {
    /// The rows, in the order of the evidence.
    var rows: [MatchedRow] = []
    /// Bytes of the rows read.
    var bytes = 0
    /// Whether there was more than could be taken, so that some rows are missing.
    var isCutShort = false
}

/// Finds the rows of one partition that carry given tokens, for classification and for changes.
struct RowLookup {
    /// What is selected, in order.
    let columns: [String]
    /// Where the key stands among the columns.
    let key: [Int]
    /// Where the mark stands.
    let mark: Int?
    /// Where the reason stands.
    let reason: Int?

    let layout: TableLayout
    let dialect: SQLDialect
    /// Where the token stands.
    let token: Int
    /// Where the registration stands.
    let registration: Int?
    let inexact: [(column: Int, value: SQLValue)]
    /// Whether whole rows are read.
    let readsWholeRows: Bool
    /// An expression that tells, behind the columns, whether all values of the row can be kept as they
    /// are; nil where they can by their types.
    private let exactness: String?
    let condition: (sql: String, values: [SQLValue])

    /// Plans the lookup, in all partitions where none is named; `wholeRows` selects every column, for the before-image of deletes.
    init(
        _ layout: TableLayout, _ dialect: SQLDialect, _ partition: Partition?, wholeRows: Bool
    ) throws(StoreFailure) {
        self.layout = layout
        self.dialect = dialect
        readsWholeRows = wholeRows
        condition =
            try partition.map { partition throws(StoreFailure) in
                try layout.partitionCondition(partition, dialect)
            } ?? ("", [])
        var compared: [(name: String, value: SQLValue)] = []
        if let partition, let app = layout.app, !app.isExact {
            compared.append((app.name, try app.value(for: partition.app)))
        }
        if let partition, let environment = layout.environment, !environment.isExact {
            compared.append((environment.name, try environment.value(for: partition.environment)))
        }
        var columns = wholeRows ? layout.columns : []
        func place(_ name: String) -> Int {
            if let known = columns.firstIndex(of: name) { return known }
            columns.append(name)
            return columns.count - 1
        }
        key = layout.key.map { place($0.name) }
        token = place(layout.token.name)
        registration = layout.registration.map { place($0.name) }
        mark = layout.mark.map { place($0.name) }
        reason = layout.reason.map { place($0) }
        exactness = wholeRows ? layout.exactness : nil
        inexact = compared.map { (place($0.name), $0.value) }
        self.columns = columns
    }

    /// The rows that carry tokens of the evidence, until they have more than `mostBytes` bytes.
    func rows(
        for evidence: ArraySlice<TokenEvidence>, _ connection: any SQLConnection, locking: Bool,
        mostBytes: Int = .max
    ) throws(SQLFailure) -> FoundRows {
        var found = FoundRows()
        found.rows.reserveCapacity(evidence.count)
        var rest = evidence
        while !rest.isEmpty {
            var values = searchValues(&rest)
            // Nothing to ask for where every token is longer than any column.
            guard !values.isEmpty else { continue }
            values = StatementShape.padded(values)
            let sql = selection(values.count, locking: locking)
            let rows = try connection.query(
                sql, values + condition.values, mostBytes: mostBytes - found.bytes)
            try rows.require(width: width)
            for index in 0..<rows.count {
                if let match = match(rows.row(index), in: evidence) { found.rows.append(match) }
            }
            found.bytes += rows.bytes
            if found.bytes > mostBytes {
                found.isCutShort = true
                return found
            }
        }
        found.rows.sort { $0.evidence < $1.evidence }
        return found
    }

    /// Takes evidence off the front for one statement, as many tokens as its list and its size have
    /// room for, and gives the values to search them by.
    private func searchValues(_ rest: inout ArraySlice<TokenEvidence>) -> [SQLValue] {
        let limit = StatementShape.longest / layout.token.spellings
        var values: [SQLValue] = []
        values.reserveCapacity(StatementShape.longest + condition.values.count)
        var bytes = 0
        var taken = 0
        for item in rest.prefix(limit) where bytes < Self.mostBytes {
            taken += 1
            guard item.token.count <= Self.longestToken else { continue }
            layout.token.appendSearchValues(for: item.token, to: &values)
            bytes += item.token.count * 2 * layout.token.spellings
        }
        rest.removeFirst(taken)
        return values
    }

    /// Bytes of the longest token that is looked up. No table holds longer ones, and a peer that
    /// sends them must not make statements of any size.
    private static let longestToken = SideMarks.longestToken
    /// Bytes of tokens in one statement, far below the 1 MiB that every server takes.
    private static let mostBytes = 256 * 1_024

    /// What is selected.
    var selected: String {
        (columns.map(dialect.quoted) + [exactness].compactMap { $0 }).joined(separator: ", ")
    }

    /// The number of values selected.
    var width: Int { columns.count + (exactness == nil ? 0 : 1) }

    private func selection(_ length: Int, locking: Bool) -> String {
        return "SELECT \(selected) FROM \(layout.table.sql(dialect))\(indexHint) WHERE "
            + "\(dialect.quoted(layout.token.name)) IN (\(placeholders(length)))\(condition.sql)"
            + (locking ? dialect.rowLock : "")
    }

    /// Says which index to use. Left to choose, MariaDB reads a small table whole: then it locks
    /// rows before index entries, a registration locks them the other way round, and of the two
    /// the registration is the one given up (error 1213).
    private var indexHint: String {
        guard dialect.engine == .mariaDB, let index = layout.tokenIndex else { return "" }
        return " FORCE INDEX (\(dialect.quoted(index)))"
    }

    private func match(
        _ values: ArraySlice<SQLValue>, in evidence: ArraySlice<TokenEvidence>
    ) -> MatchedRow? {
        let start = values.startIndex
        guard let token = layout.token.token(values[start + token]),
            let index = evidence.index(of: token),
            // A row without a key cannot be named. Only SQLite lets a primary key be NULL.
            key.allSatisfy({ values[start + $0] != .null })
        else { return nil }
        return match(values, evidence: index)
    }

    /// Takes a row that was read for what it is; nil where it belongs to another partition.
    func match(_ values: ArraySlice<SQLValue>, evidence: Int) -> MatchedRow? {
        let start = values.startIndex
        for (column, value) in inexact where values[start + column] != value { return nil }
        return MatchedRow(
            evidence: evidence, values: values,
            registeredAt: registration.flatMap {
                layout.registration?.registration(values[start + $0])
            },
            mark: mark.flatMap { layout.mark?.mark(values[start + $0]) },
            obstacle: obstacle(values))
    }

    /// What stands against judging a row, or against removing it.
    private func obstacle(_ values: ArraySlice<SQLValue>) -> RowRefusal? {
        let start = values.startIndex
        if let registration, let column = layout.registration,
            column.isUnreadable(values[start + registration])
        {
            return .registration
        }
        let isShort = layout.key.allSatisfy(\.isInteger)
        if !isShort,
            RowImage.key(key.map { values[start + $0] }).utf8.count > ChangeLedger.longestKey
        {
            return .key
        }
        return nil
    }

    /// Whether a row that was read whole can be brought back byte by byte from what was read.
    func isExact(_ values: ArraySlice<SQLValue>, _ connection: any SQLConnection) -> Bool {
        // An image spells bytes as two digits each and a control character as six.
        let room = (connection.mostBytes - 65_536) / 6
        let bytes = values.reduce(0) { sum, value in
            switch value {
            case .text(let text): sum + text.utf8.count
            case .bytes(let content), .rawText(let content): sum + content.count / 3 + 1
            default: sum
            }
        }
        if bytes > room { return false }
        if exactness != nil, values.last?.count == 0 { return false }
        guard dialect.engine == .mariaDB else { return true }
        // Bytes that are no text of the connection's character set are refused on their way back.
        return !values.contains { if case .rawText = $0 { true } else { false } }
    }
}

extension ArraySlice<TokenEvidence> {
    /// Where a token stands in evidence that is in token order.
    fileprivate func index(of token: DeviceToken) -> Int? {
        var low = startIndex
        var high = endIndex
        while low < high {
            let middle = low + (high - low) / 2
            if self[middle].token < token { low = middle + 1 } else { high = middle }
        }
        return low < endIndex && self[low].token == token ? low : nil
    }
}
