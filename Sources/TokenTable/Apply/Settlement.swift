// A checkpoint with a pending chunk (see ApartConnection) says: these entries are in the ledger, and
// their rows are changed, or not, or some of them. The rows tell which. Each entry has the row's state
// before and after the change, so it is one of three:
//
//   done   the row has the state after; the entry stays
//   open   the row can still be changed as the entry says; it is changed, with a new before-image
//   void   the device registered since, or another program changed or removed the row; the entry goes
//
// The entries that stay and those of the changes made now are written again without a gap, the rows
// are committed, and the checkpoint moves to where the chunk would have taken it. This is a chunk like
// any other, so a second failure leaves a pending chunk again. The rows are read with locks: a run that
// was suspended with uncommitted changes is waited for, and none of its changes come later.
//
// What an undo has left open is not made up for here: its entry goes, and the undo does it again.

import APNsProtocol
import Database
import TokenHygiene

/// Finishes the pending chunks of feeds whose rows commit apart from the ledger.
struct Settlement {
    private let layout: TableLayout
    private let lookup: RowLookup
    private let isolation: RowIsolation
    private let lease: Lease?

    private var connection: any SQLConnection { lookup.connection }

    /// Prepares for one table. `isolation` is shared with the loop that tries the transactions.
    init(
        _ table: TokenTable, lease: Lease?, _ isolation: RowIsolation
    ) throws(StoreFailure) {
        layout = try table.layout()
        lookup = try RowLookup(layout, table.connection, nil, wholeRows: true)
        self.isolation = isolation
        self.lease = lease
    }

    /// An entry as it stands in the ledger, with the row that it is about.
    private struct Entry {
        let written: ChangeLedger.Entry
        let images: ChangeImages?
        let image: String?

        var isTokenMark: Bool { written.action.hasPrefix("side-") }
        var isRemoval: Bool { written.action == "delete" }
    }

    /// What the entries of a chunk turned out to be.
    private struct Findings {
        var done: [ChangeLedger.Entry] = []
        var open: [RowChange] = []
        /// Void entries, and whether their rows exist.
        var void: [(entry: Entry, exists: Bool)] = []
        var tokenMarks: [TokenMarkChange] = []
        /// The number of open rows that refused the change.
        var refused = 0
    }

    /// Settles the pending chunk of a checkpoint, in transactions of its own; false where none is
    /// pending.
    func settle(_ checkpoint: FeedCheckpoint) throws(SQLFailure) -> Bool {
        guard try checkpoint.hasPending() else { return false }
        try connection.begin()
        guard let pending = try checkpoint.pending() else {
            connection.rollBack()
            return false
        }
        guard let chunk = pending.chunk else {
            throw SQLFailure(
                kind: .configuration, code: 0,
                message: "column pending of pushsweep_feed cannot be read for feed "
                    + checkpoint.feed)
        }
        try checkpoint.withdraw()
        let entries = try entries(of: chunk, in: checkpoint)
        var findings = try examine(entries, of: pending)
        try redo(&findings, for: pending)
        try commit(findings, chunk, pending)
        return true
    }

    // MARK: Reading

    private func entries(
        of chunk: PendingChunk, in checkpoint: FeedCheckpoint
    ) throws(SQLFailure) -> [Entry] {
        let time = connection.dialect.ownTime("evidence_at")
        let rows = try connection.ledger.query(
            "SELECT action, row_key, before_image, evidence_at, source, token, state "
                + "FROM pushsweep_change \(Self.range) ORDER BY seq", values(chunk, checkpoint))
        return (0..<rows.count).map { row in
            var token: [UInt8]?
            if case .bytes(let bytes) = rows[row, 5] { token = bytes }
            let written = ChangeLedger.Entry(
                action: rows[row, 0].text ?? "", key: rows[row, 1].text ?? "", before: rows[row, 2],
                time: time.mark(rows[row, 3]) ?? EpochMilliseconds(0), source: rows[row, 4].text,
                token: token, state: rows[row, 6].text.flatMap(LedgerState.init))
            let entry = UndoEntry(
                group: 0, sequence: 0, action: written.action, time: written.time, changed: nil,
                source: written.source ?? "", hasImage: rows[row, 2] != .null)
            let image = rows[row, 2].text
            return Entry(
                written: written, images: ChangeImages(entry, image: image, layout), image: image)
        }
    }

    private static let range = "WHERE run = ? AND feed = ? AND part = ? AND seq >= ? AND seq < ?"

    private func values(_ chunk: PendingChunk, _ checkpoint: FeedCheckpoint) -> [SQLValue] {
        [
            .text(chunk.run), .text(checkpoint.feed), .integer(Int64(checkpoint.part.index)),
            .integer(Int64(chunk.first)), .integer(Int64(chunk.first + chunk.count)),
        ]
    }

    private func examine(
        _ entries: [Entry], of pending: PendingCheckpoint
    ) throws(SQLFailure) -> Findings {
        let keys = entries.filter { !$0.isTokenMark }
            .compactMap { RowImageReader.key($0.written.key) }
            .filter { $0.count == layout.key.count }
        let rows = try lookup.rows(keys: keys, locking: true).rows
        var findings = Findings()
        for entry in entries where !entry.isTokenMark {
            sort(entry, rows[entry.written.key], of: pending, into: &findings)
        }
        let kept = Set(
            findings.done.compactMap(\.token)
                + findings.open.compactMap { lookup.ledgerToken(of: $0.row) })
        for entry in entries where entry.isTokenMark {
            // A mark beside a column of two values goes with its rows.
            let isKept = layout.living == nil || entry.written.token.map(kept.contains) ?? true
            guard isKept, let change = tokenMark(entry) else {
                findings.void.append((entry, true))
                continue
            }
            findings.done.append(entry.written)
            findings.tokenMarks.append(change)
        }
        return findings
    }

    private func tokenMark(_ entry: Entry) -> TokenMarkChange? {
        guard let images = entry.images, let token = entry.written.token.flatMap(DeviceToken.init)
        else { return nil }
        return TokenMarkChange(
            token: token, former: images.before?.tokenMark, mark: images.after?.tokenMark)
    }

    /// Decides about the entry of one row.
    private func sort(
        _ entry: Entry, _ values: ArraySlice<SQLValue>?, of pending: PendingCheckpoint,
        into findings: inout Findings
    ) {
        let current = values.map { RowContent(lookup.columns, $0) }
        // What cannot be read stays: a row may be changed as it says.
        guard let images = entry.images, !UndoneRow.agree(current, images.after) else {
            findings.done.append(entry.written)
            return
        }
        guard let row = values.flatMap({ lookup.match($0, evidence: 0) }),
            isOpen(entry, row, in: pending)
        else {
            findings.void.append((entry, current != nil))
            return
        }
        let verdict: Verdict = entry.isRemoval ? .delete : row.mark == nil ? .mark : .advance
        findings.open.append(
            RowChange(
                verdict: verdict, row: row, time: entry.written.time,
                source: entry.written.source))
    }

    /// Whether a row can still be changed as its entry says.
    private func isOpen(_ entry: Entry, _ row: MatchedRow, in pending: PendingCheckpoint) -> Bool {
        // An undo does what is left of it by itself.
        guard pending.chunk?.next != nil, row.obstacle == nil,
            entry.written.token == nil || lookup.ledgerToken(of: row) == entry.written.token
        else { return false }
        let time = entry.written.time
        if let registered = row.registeredAt, registered > time { return false }
        if entry.isRemoval {
            let hasMark = pending.source == Expiry.source && layout.mark != nil
            return lookup.isExact(row.values) && (!hasMark || row.mark == time)
        }
        return row.mark.map { $0 < time } ?? true
    }

    // MARK: Writing

    /// Makes the open changes. Rows that refuse become void.
    private func redo(
        _ findings: inout Findings, for pending: PendingCheckpoint
    ) throws(SQLFailure) {
        let source = EvidenceSource(rawValue: pending.source)
        let writer =
            source.map { ChangeWriter(lookup, isolation, marksFrom: $0) }
            ?? ChangeWriter(repeatingMarks: lookup, isolation)
        let refused = try writer.write(findings.open)
        findings.refused = refused.count
        findings.open = findings.open.enumerated().filter { refused[$0.offset] == nil }
            .map(\.element)
    }

    private func commit(
        _ findings: Findings, _ chunk: PendingChunk, _ pending: PendingCheckpoint
    ) throws(SQLFailure) {
        let checkpoint = pending.checkpoint
        _ = try connection.ledger.execute(
            "DELETE FROM pushsweep_change \(Self.range)", values(chunk, checkpoint))
        let ledger = ChangeLedger(
            run: chunk.run, feed: checkpoint.feed, part: checkpoint.part.index,
            source: pending.source, lookup: lookup)
        let entries = findings.done + findings.open.map(ledger.entry)
        try ledger.write(entries, from: chunk.first)
        let next = chunk.progress.map { adjusted($0, by: findings, chunk, entries.count) }
        let written = LedgerRange(
            run: chunk.run, feed: checkpoint.feed, part: checkpoint.part.index,
            partition: pending.partition, source: pending.source, first: chunk.first,
            count: entries.count)
        let transaction = ChangeTransaction(
            lookup: lookup, writer: ChangeWriter(repeatingMarks: lookup, isolation),
            isolation: isolation, lease: lease)
        try transaction.commit(.init(entries: 0, written: [written], next: next)) {
            findings.open.map { lookup.name(of: $0.row) }
        } moving: { () throws(SQLFailure) in
            try InvalidTokenTable(partition: pending.partition, connection: connection)
                .write(findings.tokenMarks)
            if let next {
                try checkpoint.update(next, run: chunk.run, layout)
            } else {
                try moveUndo(chunk.run, past: chunk.first + entries.count)
            }
        }
    }

    /// The announced progress without the void entries. A token counts by the rows that are left.
    private func adjusted(
        _ progress: FeedProgress, by findings: Findings, _ chunk: PendingChunk, _ count: Int
    ) -> FeedProgress {
        var progress = progress
        let kept = Set(
            findings.done.compactMap(\.token)
                + findings.open.compactMap { lookup.ledgerToken(of: $0.row) })
        var counted: Set<[UInt8]> = []
        for (entry, exists) in findings.void where !entry.isTokenMark {
            progress.rowsInvalidated -= 1
            guard let token = entry.written.token, !kept.contains(token),
                counted.insert(token).inserted
            else { continue }
            progress.counts.applied -= 1
            if exists { progress.counts.newer += 1 } else { progress.counts.unknown += 1 }
        }
        progress.rowsInvalidated -= findings.refused
        progress.counts.applied -= findings.refused
        progress.counts.refused += findings.refused
        progress.rowsChanged = chunk.first + count
        return progress
    }

    /// Lets the next entries of an undo follow those that stay.
    private func moveUndo(_ run: String, past number: Int) throws(SQLFailure) {
        let checkpoint = UndoCheckpoint(run: run, connection: connection)
        guard var progress = try checkpoint.read(locking: true) else { return }
        progress.rowsChanged = max(progress.rowsChanged, number)
        try checkpoint.update(progress, ended: nil)
    }
}

extension TokenTable {
    /// Finishes what failed runs left half done in tables whose rows commit apart from the ledger.
    /// To be called at the start of a run that changes rows.
    ///
    /// - Throws: any failure of the database; what is settled stays so.
    package func settlePending(lease: Lease?) throws(StoreFailure) {
        guard connection.commitsApart else { return }
        let table = try layout().table.description
        let open = try retries.retrying("looking for pending chunks") { () throws(SQLFailure) in
            try connection.ledger.query(
                "SELECT feed, part FROM pushsweep_feed WHERE pending IS NOT NULL "
                    + "AND table_name = ? ORDER BY feed, part", [.text(table)])
        }
        for row in 0..<open.count {
            guard let feed = open[row, 0].text, let part = open[row, 1].count else { continue }
            let checkpoint = FeedCheckpoint(
                feed: feed, part: TokenRange(index: part, count: part + 1), connection: connection)
            let isolation = RowIsolation(connection)
            let settlement = try Settlement(self, lease: lease, isolation)
            var loop = session.chunkLoop(isolation)
            _ = try loop.commit(
                after: false, doing: "settling the pending chunk of feed \(feed)",
                checkpointOf: "feed \(feed)"
            ) { (_) throws(SQLFailure) in
                _ = try settlement.settle(checkpoint)
                return .committed(true, entries: 0, bytes: 0)
            } checkpoint: { () throws(SQLFailure) in
                try !checkpoint.hasPending()
            }
        }
    }
}
