// What the database has about given tokens: their rows, their marks beside the table, and the
// entries of the ledger. Everything is found by an index, because a person asks about one token
// while the ledger has a million entries.

import APNsProtocol
import Database
import TokenHygiene

/// A row of the token table that carries a token, as one app and environment sees it.
package struct TokenRow: Hashable, Sendable {
    /// The row's key.
    package let key: LedgerKey
    /// The app, by the table's value, and the environment; nil for a row of no app of the settings.
    package let partition: Partition?
    /// When the device last registered; nil where the row has no such time, or an unreadable one.
    package let registeredAt: EpochMilliseconds?
    /// Whether the row has a registration that is no time. Such a row is never changed.
    package let hasUnreadableRegistration: Bool
    /// The mark in the row.
    package let mark: EpochMilliseconds?
    /// The reason of the mark in the row.
    package let reason: String?
    /// What the column of two values says; nil without one.
    package let isDead: Bool?
    /// The state by which a sender judges the row; the mark beside the table counts where the row
    /// has none.
    package let judged: RegisteredToken
    /// The state by which evidence is judged: marks beside the table count only where the table has
    /// no column for marks.
    package let judgedByEvidence: RegisteredToken
}

/// A mark in `pushsweep_invalid`.
package struct MarkBeside: Hashable, Sendable {
    /// The app, by the table's value, and the environment.
    package let partition: Partition
    /// Since when the token is dead.
    package let time: EpochMilliseconds?
    /// What the mark follows from.
    package let reason: String?
}

/// Reads what the database has about tokens. Reads only.
package struct TokenHistory {
    let table: TokenTable
    let layout: TableLayout
    var connection: any SQLConnection { table.connection }
    var dialect: SQLDialect { table.connection.dialect }

    /// Prepares the reading.
    ///
    /// - Throws: `configuration` where the table does not fit the settings; any failure of a query.
    package init(_ table: TokenTable) throws(StoreFailure) {
        self.table = table
        layout = try table.layout()
    }

    /// The name of the token table.
    package var tableName: String { layout.table.description }
    /// Whether the table has an index by which its tokens are found.
    package var hasTokenIndex: Bool { layout.tokenIndex != nil }

    /// The instant that a mark of this time would have, see `TableLayout.floor`.
    package func floor(_ time: EpochMilliseconds) -> EpochMilliseconds { layout.floor(time) }

    // MARK: Rows and marks

    /// The rows of tokens, in each of the partitions to which they belong; rows of other apps have
    /// no partition. `marks` are those beside the table.
    ///
    /// - Throws: `configuration` where a column cannot hold a partition's value; any failure of a
    ///   query.
    package func rows(
        of tokens: [DeviceToken], in partitions: [Partition],
        marks: [DeviceToken: [MarkBeside]]
    ) throws(StoreFailure) -> [DeviceToken: [TokenRow]] {
        let sorted = Set(tokens).sorted()
        let evidence = sorted.map { TokenEvidence(token: $0, time: EpochMilliseconds(0)) }
        var found: [DeviceToken: [TokenRow]] = [:]
        var known: Set<String> = []
        for partition in partitions.map(Optional.some) + [nil] {
            let lookup = try RowLookup(layout, connection, partition, wholeRows: false)
            let rows = try table.retries.retrying("looking up tokens in \(layout.table)") {
                () throws(SQLFailure) in
                try lookup.rows(for: evidence[...], locking: false).rows
            }
            for row in rows {
                let name = lookup.name(of: row)
                if partition == nil, known.contains(name) { continue }
                known.insert(name)
                let token = sorted[row.evidence]
                let mark = marks[token]?.first { $0.partition == partition }?.time
                found[token, default: []].append(
                    tokenRow(row, lookup, token, partition, markedBeside: mark))
            }
        }
        return found
    }

    private func tokenRow(
        _ row: MatchedRow, _ lookup: RowLookup, _ token: DeviceToken, _ partition: Partition?,
        markedBeside mark: EpochMilliseconds?
    ) -> TokenRow {
        let isUnreadable = row.obstacle == .registration
        return TokenRow(
            key: LedgerKey(lookup.name(of: row), of: token), partition: partition,
            registeredAt: isUnreadable ? nil : row.registeredAt,
            hasUnreadableRegistration: isUnreadable, mark: row.mark,
            reason: lookup.reason.flatMap { row.values[row.values.startIndex + $0].text },
            isDead: row.isDead, judged: row.judged(markedAt: mark),
            judgedByEvidence: row.judged(markedAt: layout.mark == nil ? mark : nil))
    }

    /// The marks beside the table on tokens, of all apps.
    ///
    /// - Throws: any failure of the query.
    package func marks(
        on tokens: [DeviceToken]
    ) throws(StoreFailure) -> [DeviceToken: [MarkBeside]] {
        let time = dialect.ownTime("invalidated_at")
        var marks: [DeviceToken: [MarkBeside]] = [:]
        for run in Set(tokens).sorted().runs(of: StatementShape.longest) {
            let values = StatementShape.padded(run.map { SQLValue.bytes($0.bytes) })
            let rows = try table.retries.retrying("reading the marks in pushsweep_invalid") {
                () throws(SQLFailure) in
                try connection.query(
                    "SELECT token, app, environment, invalidated_at, reason FROM pushsweep_invalid "
                        + "WHERE token IN (\(placeholders(values.count))) "
                        + "ORDER BY token, app, environment", values)
            }
            for row in 0..<rows.count {
                guard case .bytes(let bytes) = rows[row, 0], let token = DeviceToken(bytes) else {
                    continue
                }
                marks[token, default: []].append(
                    MarkBeside(
                        partition: Partition(
                            app: rows[row, 1].text ?? "", environment: rows[row, 2].text ?? ""),
                        time: time.mark(rows[row, 3]), reason: rows[row, 4].text))
            }
        }
        return marks
    }
}
