import APNsProtocol
import Database
import Encodings
import Findings
import TokenHygiene

/// A row of the user's table that carries a token of the evidence.
struct MatchedRow {
    /// The index of the evidence that was looked up.
    var evidence: Int
    /// The row's values, in the order of `RowLookup.columns`.
    let values: ArraySlice<SQLValue>
    /// The registration time in this row; nil without one.
    let registeredAt: EpochMilliseconds?
    /// The mark in the row; nil without one.
    let mark: EpochMilliseconds?
    /// Whether the row's column of two values says that it is dead; nil without such a column.
    var isDead: Bool?
    /// The reason why the row cannot be judged or, where it is to be removed, not be restored.
    var obstacle: RowRefusal?

    /// The value of a column, by its index in `RowLookup.columns`.
    subscript(column: Int) -> SQLValue { values[values.startIndex + column] }

    /// The state by which the row is judged. `time` is that of the token's mark in
    /// `pushsweep_invalid`.
    func judged(markedAt time: EpochMilliseconds?) -> RegisteredToken {
        RegisteredToken(registeredAt: registeredAt, invalidatedAt: mark ?? time, isDead: isDead)
    }
}

/// Rows that were found, in a list or by their keys.
struct FoundRows<Rows> {
    var rows: Rows
    /// The number of bytes in the rows read.
    var bytes = 0
    /// Whether the read stopped at its size limit, so that some rows are missing.
    var isCutShort = false
}

/// Finds the rows of one partition that carry given tokens, for classification and for changes.
struct RowLookup {
    /// The selected columns in order.
    let columns: [String]
    /// The indices of the key among the columns.
    let key: [Int]
    /// The first of the columns, which the image of a removed row has.
    let imaged: [String]
    /// The index of the mark; nil without a column.
    let mark: Int?
    /// The index of the column of two values; nil without one.
    let living: Int?
    /// The index of the reason; nil without a column.
    let reason: Int?

    let layout: TableLayout
    let connection: any SQLConnection
    var dialect: SQLDialect { connection.dialect }
    /// The index of the token.
    let token: Int
    /// The index of the registration; nil without a column.
    let registration: Int?
    /// Columns that are compared again after reading, because a collation finds rows of other partitions.
    let compared: [(column: Int, value: SQLValue)]
    /// An expression, selected after the columns, that shows whether all values of the row can be
    /// kept unchanged; nil where the columns' types guarantee it.
    private let exactness: String?
    /// The end of a SELECT that locks rows.
    private let lock: String
    let condition: BoundSQL

    /// Prepares the lookup, in all partitions where `partition` is nil. `wholeRows` selects every
    /// column, for the before-image of deletes; `changesRows` states whether locked rows are changed
    /// later; `also` names columns that are selected in any case. With `looksAlike` it finds rows of environments that the
    /// table's collation takes for this one, too.
    init(
        _ layout: TableLayout, _ connection: any SQLConnection, _ partition: Partition?,
        wholeRows: Bool, changesRows: Bool = true, also: [String] = [], looksAlike: Bool = false
    ) throws(StoreFailure) {
        self.layout = layout
        self.connection = connection
        lock = changesRows ? connection.dialect.rowLock : connection.dialect.sharedLock
        let selection = try partition.map { partition throws(StoreFailure) in
            try layout.selection(of: partition)
        }
        condition = selection?.condition(connection.dialect) ?? ("", [])
        var columns = wholeRows ? layout.columns : []
        func place(_ name: String) -> Int {
            if let known = columns.firstIndex(exactly: name) { return known }
            columns.append(name)
            return columns.count - 1
        }
        key = layout.key.map { place($0.name) }
        token = place(layout.token.name)
        registration = layout.registration.map { place($0.name) }
        mark = layout.mark.map { place($0.name) }
        living = layout.living.map { place($0.name) }
        reason = layout.reason.map { place($0) }
        exactness = wholeRows ? layout.exactness : nil
        imaged = columns
        for name in also { _ = place(name) }
        let alike = looksAlike ? layout.environment?.name : nil
        compared = (selection?.compared ?? []).filter { $0.column != alike }.map {
            (place($0.column), $0.value)
        }
        self.columns = columns
    }

    /// The values of a row's key.
    func key(of row: MatchedRow) -> [SQLValue] {
        key.map { row[$0] }
    }

    /// The key of a row as the ledger spells it.
    func name(of row: MatchedRow) -> ExactText { RowImage.key(key(of: row)) }

    /// The rows that carry tokens of the evidence, until they have more than `mostBytes` bytes.
    func rows(
        for evidence: ArraySlice<TokenEvidence>, locking: Bool,
        mostBytes: Int = .max
    ) throws(SQLFailure) -> FoundRows<[MatchedRow]> {
        var found = FoundRows<[MatchedRow]>(rows: [])
        found.rows.reserveCapacity(evidence.count)
        var rest = evidence
        while !rest.isEmpty {
            var values = searchValues(&rest)
            // No query where every token is longer than any column.
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

    /// Removes evidence from the front for one statement, as many tokens as its list and its size
    /// allow, and returns the values to search them by.
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

    /// Bytes of the longest token that is looked up. Tables hold no longer ones, and a peer that
    /// sends them must not cause statements of any size.
    private static let longestToken = InvalidTokenTable.longestToken
    /// The most bytes of tokens in one statement, far below the 1 MiB that every server accepts.
    private static let mostBytes = 256 * 1_024

    /// The selected expressions as a list for SELECT.
    var selected: String {
        (columns.map(dialect.quoted) + [exactness].compactMap { $0 }).joined(separator: ", ")
    }

    /// The number of values selected per row.
    var width: Int { columns.count + (exactness == nil ? 0 : 1) }

    private func selection(_ length: Int, locking: Bool) -> String {
        let hint = dialect.indexHint(layout.tokenIndex)
        return "SELECT \(selected) FROM \(layout.table.sql(dialect))\(hint) WHERE "
            + "\(dialect.quoted(layout.token.name)) IN (\(placeholders(length)))\(condition.sql)"
            + (locking ? lock : "")
    }

    /// Names the index to use, since statistics may be wrong. Without the hint MariaDB reads a small table
    /// whole. A locking read then waits for rows that it does not want. And it locks rows before index
    /// entries, a registration locks them in the opposite order, and the server rolls the registration
    /// back (error 1213).
    var keyHint: String { dialect.indexHint(layout.keyIndex) }

    private func match(
        _ values: ArraySlice<SQLValue>, in evidence: ArraySlice<TokenEvidence>
    ) -> MatchedRow? {
        let start = values.startIndex
        guard let token = layout.token.token(values[start + token]),
            let index = evidence.index(of: token)
        else { return nil }
        return match(values, evidence: index)
    }

    /// Converts a row that was read; nil where it belongs to another partition.
    func match(_ values: ArraySlice<SQLValue>, evidence: Int) -> MatchedRow? {
        let start = values.startIndex
        for (column, value) in compared where values[start + column] != value { return nil }
        return MatchedRow(
            evidence: evidence, values: values,
            registeredAt: registration.flatMap {
                layout.registration?.registration(values[start + $0])
            },
            mark: mark.flatMap { layout.mark?.mark(values[start + $0]) },
            isDead: living.flatMap { layout.living?.isDead(values[start + $0]) },
            obstacle: obstacle(values))
    }

    /// The reason against judging a row, or against removing it; nil without one.
    private func obstacle(_ values: ArraySlice<SQLValue>) -> RowRefusal? {
        let start = values.startIndex
        if let registration, let column = layout.registration,
            column.isUnreadable(values[start + registration])
        {
            return .registration
        }
        // A row without a key cannot be named. Only SQLite allows a primary key to be NULL.
        if dialect.engine == .sqlite, key.contains(where: { values[start + $0] == .null }) {
            return .key
        }
        let isShort = layout.key.allSatisfy(\.isInteger)
        if !isShort,
            RowImage.key(key.map { values[start + $0] }).utf8.count > PushsweepTable.longestKey
        {
            return .key
        }
        return nil
    }

    /// Whether a row that was read whole can be restored byte by byte from its values.
    func isExact(_ values: ArraySlice<SQLValue>) -> Bool {
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
        // Bytes that are not text of the connection's character set would be refused when restored.
        return !values.contains { if case .rawText = $0 { true } else { false } }
    }
}

extension ArraySlice<TokenEvidence> {
    /// The index of a token in evidence that is in token order.
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

extension RowLookup {
    /// The rows with given keys, until they have more than `mostBytes` bytes. A row whose key the
    /// database treats as equal but spells differently is listed under its own spelling.
    func rows(
        keys: [[SQLValue]], locking: Bool, mostBytes: Int = .max
    ) throws(SQLFailure) -> FoundRows<[ExactText: ArraySlice<SQLValue>]> {
        var found = FoundRows<[ExactText: ArraySlice<SQLValue>]>(rows: [:])
        let isSingle = layout.key.count == 1
        let names = layout.key.map { dialect.quoted($0.name) }
        let match = "(\(names.map { "\($0) = ?" }.joined(separator: " AND ")))"
        let longest = isSingle ? StatementShape.longest : StatementShape.longestLinear
        for run in keys.runs(of: longest) {
            let padded = StatementShape.padded(run)
            let condition =
                isSingle
                ? "\(names[0]) IN (\(placeholders(padded.count)))"
                : repeatElement(match, count: padded.count).joined(separator: " OR ")
            let rows = try connection.query(
                "SELECT \(selected) FROM \(layout.table.sql(dialect))\(keyHint) WHERE \(condition)"
                    + (locking ? lock : ""),
                padded.flatMap { $0 }, mostBytes: mostBytes - found.bytes)
            try rows.require(width: width)
            for index in 0..<rows.count {
                let values = rows.row(index)
                found.rows[RowImage.key(key.map { values[values.startIndex + $0] })] = values
            }
            found.bytes += rows.bytes
            if found.bytes > mostBytes {
                found.isCutShort = true
                return found
            }
        }
        return found
    }

    /// The registration time in a row or in its image.
    func registration(_ content: RowContent) -> EpochMilliseconds? {
        Self.registration(content, layout)
    }

    /// The same in a given layout.
    static func registration(_ content: RowContent, _ layout: TableLayout) -> EpochMilliseconds? {
        guard let column = layout.registration, let value = content[column.name] else { return nil }
        return column.registration(column.asRead(value))
    }
}

extension TimeColumn {
    /// The value as the driver reads it, where an image has it as text.
    func asRead(_ value: SQLValue) -> SQLValue {
        guard case .wallClock = storage, case .text(let text) = value,
            let clock = WallClock(text: text.string)
        else { return value }
        return .wallClock(clock)
    }
}

extension InvalidTokenTable {
    /// The marks on the tokens of rows that were found for evidence.
    func marks(
        of rows: [MatchedRow], in evidence: ArraySlice<TokenEvidence>, locking: Bool
    ) throws(SQLFailure) -> [DeviceToken: TokenMark] {
        try marks(
            on: Set(rows.map(\.evidence)).map { evidence[$0].token }.sorted(), locking: locking)
    }
}
