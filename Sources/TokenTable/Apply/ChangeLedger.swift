import APNsProtocol
import Database
import Encodings
import TokenHygiene

/// Writes the rows of `pushsweep_change`: one entry for every row changed, with its before-image.
/// The entries serve undo and audit, and commit together with the changes they describe.
struct ChangeLedger {
    /// The part of the run that makes the changes.
    let part: LedgerPart
    /// The source of the evidence.
    let source: String
    let lookup: RowLookup

    private var connection: any SQLConnection { lookup.connection }
    private var dialect: SQLDialect { connection.dialect }

    /// One entry of the ledger, not yet written.
    struct Entry {
        let action: String
        let key: ExactText
        let before: SQLValue
        let time: EpochMilliseconds
        /// The source of this entry's evidence, where it differs from the ledger's.
        var source: String?
        /// The token of the row, for followers; a marked row may be gone or have another one later.
        var token: [UInt8]?
        /// The state of the row after the change; nil for a row that refused it.
        var state: LedgerState?
    }

    private static let columns = [
        "part", "seq", "action", "row_key", "before_image", "evidence_at", "source",
        "token", "state", "changed_at",
    ]
    /// Row counts of the multi-row inserts; a batch is split into these lengths.
    private static let lengths = StatementShape.wholeLengths
    /// The most bytes of before-images in one statement; some servers accept only 1 MiB.
    private static let mostImageBytes = 256 * 1024

    /// The entry for a changed row.
    func entry(_ change: RowChange) -> Entry {
        let values = change.row.values
        let key = lookup.name(of: change.row)
        let action: String
        let before: SQLValue
        if change.verdict == .delete {
            action = "delete"
            before = .text(RowImage.object(lookup.columns, values))
        } else {
            action = change.verdict == .advance ? "advance" : "mark"
            before = formerMark(values, change.beside)
        }
        return Entry(
            action: action, key: key, before: before, time: change.time, source: change.source,
            token: lookup.ledgerToken(of: change.row),
            state: LedgerState(after: change.verdict))
    }

    /// The mark and reason that a row had; NULL for the usual row that had neither. A column of two
    /// values is always named, so that undo knows which column the mark has set, and with it the mark beside it.
    private func formerMark(
        _ values: ArraySlice<SQLValue>, _ beside: TokenMarkChange?
    ) -> SQLValue {
        if let living = lookup.living {
            let row = RowContent([lookup.columns[living]], [values[values.startIndex + living]])
            guard let beside else { return .text(RowImage.object(row.columns, row.values)) }
            return .text(RowImage.list(row, beside: beside.former.map { RowContent($0) }))
        }
        let places = [lookup.mark, lookup.reason].compactMap { $0 }
        let former = places.map { values[values.startIndex + $0] }
        if former.allSatisfy({ $0 == .null }) { return .null }
        return .text(RowImage.object(places.map { lookup.columns[$0] }, former))
    }

    /// The entry for a mark in `pushsweep_invalid`, which evidence sets or a removal takes away with
    /// its rows.
    private func entry(_ change: TokenMarkChange) -> Entry {
        guard let mark = change.mark else { return entry(removing: change) }
        let content = change.former.map { RowContent($0) }
        return Entry(
            action: "side-mark", key: RowImage.key([.bytes(change.token.bytes)]),
            before: content.map { .text(RowImage.object($0.columns, $0.values)) } ?? .null,
            time: mark.time, token: change.token.bytes, state: lookup.tokenMarkState(.invalid))
    }

    private func entry(removing change: TokenMarkChange) -> Entry {
        Entry(
            action: "side-restore", key: RowImage.key([.bytes(change.token.bytes)]),
            before: .text(
                RowImage.pair(before: change.former.map { RowContent($0) }, after: nil)),
            time: change.former?.time ?? EpochMilliseconds(0),
            source: change.former?.reason ?? "unknown", token: change.token.bytes,
            state: lookup.tokenMarkState(.deleted))
    }

    /// Writes the entries for a set of changes, numbered from `first` on. Entries are made one by
    /// one, because a before-image in JSON is larger than its row.
    func write(_ set: ChangeSet, from first: Int) throws(SQLFailure) {
        try write(set.rows.lazy.map { entry($0) }, from: first)
        try write(set.tokenMarks.lazy.map { entry($0) }, from: first + set.rows.count)
    }

    /// Writes entries for rows that refused their change, with the reason in place of a
    /// before-image. Their numbers run downwards from -1, so that the numbers of changes are not
    /// affected and undo does not read them.
    func writeRefused(
        _ rows: [RefusedRow], after count: Int
    ) throws(SQLFailure) {
        try write(
            rows.reversed().lazy.map { refused in
                Entry(
                    action: LedgerEntry.refused,
                    key: ExactText(
                        lookup.name(of: refused.row).string
                            .prefix(bytes: PushsweepTable.longestKey)),
                    before: .text(
                        RowImage.object(
                            [LedgerEntry.refused], [.text(refused.reason.rawValue)])),
                    time: refused.time, token: lookup.ledgerToken(of: refused.row))
            }, from: -count - rows.count)
    }

    /// Writes entries, numbered from `first` on, and keeps no more of them in memory than one
    /// statement holds.
    func write(
        _ entries: some Sequence<Entry>, from first: Int
    ) throws(SQLFailure) {
        var batch: [Entry] = []
        var bytes = 0
        var number = first
        for entry in entries {
            var size = 0
            if case .text(let image) = entry.before { size = image.utf8.count }
            let isFull = batch.count == Self.lengths[0] || bytes + size > Self.mostImageBytes
            if !batch.isEmpty && isFull {
                try write(batch, from: number)
                number += batch.count
                batch.removeAll(keepingCapacity: true)
                bytes = 0
            }
            batch.append(entry)
            bytes += size
        }
        try write(batch, from: number)
    }

    /// Writes the entries of one batch, in statements of a few lengths.
    private func write(
        _ entries: [Entry], from first: Int
    ) throws(SQLFailure) {
        let time = dialect.ownTime("evidence_at")
        // What many rows have in common stands in the text, and is bound for none.
        func common(_ value: (Entry) -> SQLValue) -> String? {
            guard entries.count >= 16, let first = entries.first.map(value),
                entries.allSatisfy({ value($0) == first })
            else { return nil }
            if first == .null { return "NULL" }
            return first.text.flatMap { $0.utf8.count <= 200 ? dialect.literal($0) : nil }
        }
        func source(_ entry: Entry) -> SQLValue { .text(entry.source ?? self.source) }
        func state(_ entry: Entry) -> SQLValue { entry.state.map { .text($0.rawValue) } ?? .null }
        let action = common { .text($0.action) }
        let image = common(\.before)
        let (from, after) = (common(source), common(state))
        // The time of a change is the database's, never the host's.
        let row =
            "(\(part.number), ?, \(action ?? "?"), ?, \(image ?? "?"), ?, \(from ?? "?"), ?, \(after ?? "?"), "
            + "\(dialect.now))"
        var rest = entries[...]
        var number = first
        while !rest.isEmpty {
            let length = Self.lengths.first { $0 <= rest.count } ?? 1
            var values: [SQLValue] = []
            values.reserveCapacity(length * Self.columns.count)
            for entry in rest.prefix(length) {
                values.append(.integer(Int64(number)))
                if action == nil { values.append(.text(entry.action)) }
                values.append(.text(entry.key))
                if image == nil { values.append(entry.before) }
                values.append(time.value(entry.time))
                if from == nil { values.append(source(entry)) }
                values.append(entry.token.map(SQLValue.bytes) ?? .null)
                if after == nil { values.append(state(entry)) }
                number += 1
            }
            _ = try connection.execute(
                "INSERT INTO pushsweep_change (\(Self.columns.joined(separator: ", "))) "
                    + "VALUES \(commaList(row, length))", values)
            rest = rest.dropFirst(length)
        }
    }
}

extension RowContent {
    /// A mark of the side table as the ledger stores it, in whole milliseconds.
    init(_ mark: TokenMark) {
        self.init(
            Self.tokenMarkColumns,
            [.integer(mark.time.rawValue), mark.reason.map(SQLValue.text) ?? .null])
    }

    /// The mark of the side table in this content; nil where the table cannot hold its time.
    var tokenMark: TokenMark? {
        guard let time = self[Self.tokenMarkColumns[0]]?.integer, WallClock.has(milliseconds: time)
        else { return nil }
        return TokenMark(
            time: EpochMilliseconds(time), reason: self[Self.tokenMarkColumns[1]]?.text)
    }

    private static let tokenMarkColumns = ["invalidated_at", "reason"]
}

/// The state in which a change leaves a row, as the ledger has it for followers.
enum LedgerState: String {
    /// The row may be sent to.
    case valid
    /// The row is marked.
    case invalid
    /// The row is gone.
    case deleted

    /// The state after the change of a verdict.
    init(after verdict: Verdict) { self = verdict == .delete ? .deleted : .invalid }
}

extension RowLookup {
    /// The token in a row that was read by this lookup; nil for one that the ledger cannot hold.
    func ledgerToken(of row: MatchedRow) -> [UInt8]? {
        ledgerToken(row[token])
    }

    /// The token in the content of a row.
    func ledgerToken(of content: RowContent?) -> [UInt8]? {
        content?[layout.token.name].flatMap(ledgerToken)
    }

    private func ledgerToken(_ value: SQLValue) -> [UInt8]? {
        guard let token = layout.token.token(value), token.count <= InvalidTokenTable.longestToken
        else { return nil }
        return token.bytes
    }

    /// The state for an entry about a mark in `pushsweep_invalid`; nil where the row's own entry has
    /// it, because a column of the row says whether it is living.
    func tokenMarkState(_ state: LedgerState) -> LedgerState? {
        layout.living == nil ? state : nil
    }

    /// The state of a row with this content; nil stands for no row. A registration after the mark
    /// makes the row valid again.
    func ledgerState(of content: RowContent?) -> LedgerState {
        guard let content else { return .deleted }
        if let living = layout.living {
            return content[living.name].map(living.isDead) == true ? .invalid : .valid
        }
        guard let column = layout.mark, let value = content[column.name],
            let mark = column.mark(column.asRead(value))
        else { return .valid }
        if let registered = registration(content), registered > mark { return .valid }
        return .invalid
    }
}
