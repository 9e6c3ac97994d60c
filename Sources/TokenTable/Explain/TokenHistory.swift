// What the database has about given tokens: their rows, their marks beside the table, and the
// entries of the ledger. Everything is found by an index, because a person asks about one token
// while the ledger has a million entries.

import APNsProtocol
import Database
import Encodings
import Findings
import TokenHygiene

/// A row of the token table that carries a token, as one app and environment sees it.
package struct TokenRow: Hashable, Sendable {
    /// The row's key.
    package let key: LedgerKey
    /// The app, by the table's value, and the environment; nil for a row of no app of the settings.
    package let partition: Partition?
    /// The user in words, where it was asked for and the table has one.
    package var user: String?
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

    /// Whether only a sender that reads `pushsweep_invalid` sees marks.
    package var marksStandBeside: Bool { layout.marksStandBeside }

    /// The instant that a mark of this time would have, see `TableLayout.floor`.
    package func floor(_ time: EpochMilliseconds) -> EpochMilliseconds { layout.floor(time) }

    // MARK: Rows and marks

    /// The rows of tokens, in each of the partitions to which they belong; rows of other apps have
    /// no partition. `marks` are those beside the table. With `user` the rows name their user.
    ///
    /// - Throws: `configuration` where a column cannot hold a partition's value; any failure of a
    ///   query.
    package func rows(
        of tokens: [DeviceToken], in partitions: [Partition],
        marks: [DeviceToken: [MarkBeside]], user: PartitionColumn? = nil
    ) throws(StoreFailure) -> [DeviceToken: [TokenRow]] {
        let sorted = Set(tokens).sorted()
        let evidence = sorted.map { TokenEvidence(token: $0, time: EpochMilliseconds(0)) }
        var found: [DeviceToken: [TokenRow]] = [:]
        var known: Set<ExactText> = []
        for partition in partitions.map(Optional.some) + [nil] {
            let lookup = try RowLookup(
                layout, connection, partition, wholeRows: false,
                also: [user?.name].compactMap { $0 })
            let place = user.flatMap { lookup.columns.firstIndex(exactly: $0.name) }
            let rows = try table.retries.retrying(
                "looking up tokens in \(layout.table)",
                do: lookup.rows(for: evidence[...], locking: false).rows)
            for row in rows {
                let name = lookup.name(of: row)
                if partition == nil, known.contains(name) { continue }
                known.insert(name)
                let token = sorted[row.evidence]
                let mark = marks[token]?.first { $0.partition == partition }?.time
                var named = tokenRow(row, lookup, token, partition, markedBeside: mark)
                named.user = place.flatMap { row[$0].text ?? row[$0].integer.map(String.init) }
                found[token, default: []].append(named)
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
            reason: lookup.reason.flatMap { row[$0].text },
            isDead: row.isDead, judged: row.judged(markedAt: mark),
            judgedByEvidence: row.judged(markedAt: layout.mark == nil ? mark : nil))
    }

    /// The marks beside the table on tokens, of all apps.
    ///
    /// - Throws: any failure of the query.
    package func marks(
        on tokens: [DeviceToken]
    ) throws(StoreFailure) -> [DeviceToken: [MarkBeside]] {
        let tokens = Set(tokens).sorted()
        return try table.retries.retrying(
            "reading the marks in pushsweep_invalid",
            do: InvalidTokenTable.marks(on: tokens, of: nil, connection, locking: false))
    }
}

// The entries of the ledger about one token. The ledger's key begins with the part of a run, and it names rows
// by their keys, so without another index an entry is found only by reading all entries. An index
// over row keys would have up to 2,048 characters, and would not find a row that was deleted, whose
// key nobody knows any more. So the ledger has an index over the token, which every entry repeats
// for followers. An entry about a row that is gone is found like any other.
//
// The price is one index entry for each changed row. Evidence is applied in the order of tokens, so
// the index entries of a batch are written in their order too; docs/internals/decisions.md has the figures.

/// What an entry of the ledger says about a row before or after its change.
package struct RowState: Hashable, Sendable {
    /// Whether the row, or the mark beside the table, existed.
    package let exists: Bool
    /// The time of the mark.
    package var mark: EpochMilliseconds?
    /// The reason of the mark.
    package var reason: String?
    /// What the column of two values said.
    package var isDead: Bool?
    /// The registration, where the entry has the whole row.
    package var registeredAt: EpochMilliseconds?
}

extension TokenHistory {
    /// The most entries of the ledger that are read for a token.
    package static let mostChanges = 500

    /// The entries of the ledger about a token, the latest first, at most `mostChanges`, and whether
    /// there are more. Their origins come from the parts; whether a person released one, from the batches, where
    /// `readsBatches`.
    ///
    /// - Throws: any failure of a query.
    package func changes(
        of token: DeviceToken, readsBatches: Bool
    ) throws(StoreFailure) -> (entries: [LedgerEntry], isCut: Bool) {
        try table.retries.retrying("reading the changes of a token") { () throws(SQLFailure) in
            let found = try LedgerReader(connection: connection)
                .entries(about: token, limit: Self.mostChanges + 1)
            var entries = Array(found.prefix(Self.mostChanges))
            let origins = try self.origins(
                of: Set(entries.map(\.part.number)), readsBatches: readsBatches)
            for index in entries.indices {
                guard let origin = origins[entries[index].part.number] else { continue }
                entries[index].origin = origin.origin
                entries[index].isForeign = origin.ownership.isForeign(entries[index])
            }
            return (entries, found.count > Self.mostChanges)
        }
    }

    /// The origins of parts, by number.
    private func origins(
        of parts: Set<Int64>, readsBatches: Bool
    ) throws(SQLFailure) -> [Int64: (origin: LedgerEntry.Origin, ownership: EntryOwnership)] {
        var found: [Int64: (origin: LedgerEntry.Origin, ownership: EntryOwnership)] = [:]
        let (batch, join) =
            readsBatches
            ? (
                "b.name, h.terms IS NOT NULL",
                " LEFT JOIN pushsweep_batch AS b ON b.number = p.batch LEFT JOIN pushsweep_hold AS h "
                    + "ON h.batch = p.batch"
            )
            : ("NULL, NULL", "")
        for some in parts.sorted().runs(of: StatementShape.longest) {
            let values = StatementShape.padded(some.map(SQLValue.integer))
            let rows = try connection.query(
                "SELECT p.number, p.app, p.environment, p.source, p.table_name, p.key_columns, \(batch) "
                    + "FROM pushsweep_part AS p\(join) WHERE p.number IN (\(placeholders(values.count)))",
                values)
            for row in 0..<rows.count {
                let origin = LedgerEntry.Origin(
                    partition: rows.partition(row, 1), source: rows.string(row, 3),
                    batch: rows[row, 6].text, isReleased: rows[row, 7].count == 1)
                let ownership = EntryOwnership(
                    layout, table: rows[row, 4].text, columns: rows[row, 5].text,
                    source: origin.source)
                if let number = rows[row, 0].integer { found[number] = (origin, ownership) }
            }
        }
        return found
    }

    /// What the row was before and after a change; nil where the entry does not say.
    package func states(of entry: LedgerEntry) -> (before: RowState?, after: RowState?) {
        guard !entry.isForeign, let images = ChangeImages(entry, image: entry.image, layout)
        else { return (nil, nil) }
        return (state(images.before), state(images.after))
    }

    /// What a content says; nil stands for no row.
    private func state(_ content: RowContent?) -> RowState {
        guard let content else { return RowState(exists: false) }
        var state = RowState(exists: true)
        if let beside = content.tokenMark, layout.mark == nil {
            (state.mark, state.reason) = (beside.time, beside.reason)
        }
        if let column = layout.mark, let value = content[column.name] {
            state.mark = column.mark(column.asRead(value))
        }
        if let name = layout.reason { state.reason = content[name]?.text }
        if let living = layout.living { state.isDead = content[living.name].map(living.isDead) }
        let registered = RowLookup.registration(content, layout)
        state.registeredAt = registered?.rawValue == .max ? nil : registered
        return state
    }

    // MARK: Runs

    /// The records of runs, by their names.
    ///
    /// - Throws: any failure of a query.
    package func runs(_ names: Set<String>) throws(StoreFailure) -> [String: RunRecord] {
        try table.retries.retrying("reading the records of runs") { () throws(SQLFailure) in
            var found: [String: RunRecord] = [:]
            for run in names.sorted().runs(of: StatementShape.longest) {
                let values = StatementShape.padded(run.map(SQLValue.text))
                let isNamed = "WHERE id IN (\(placeholders(values.count)))"
                for record in try RunRecord.read(connection, (isNamed, values)) {
                    found[record.id] = record
                }
            }
            return found
        }
    }
}
