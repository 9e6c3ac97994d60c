import APNsProtocol
import Database
import TokenHygiene

/// An entry of a pending chunk as it stands in the ledger.
struct SettledEntry {
    let written: ChangeLedger.Entry
    /// The states before and after the change; nil where they cannot be read.
    let images: ChangeImages?

    /// Whether it is about a mark in the side table.
    var isTokenMark: Bool { written.action.hasPrefix("side-") }
    /// Whether it is about the removal of a row.
    var isRemoval: Bool { written.action == "delete" }
    /// Whether its states have every column of the row.
    var isAboutWholeRow: Bool { isRemoval || written.action == "insert" }

    private static let range = "WHERE run = ? AND feed = ? AND part = ? AND seq >= ? AND seq < ?"

    private static func values(
        _ chunk: PendingChunk, _ checkpoint: FeedCheckpoint
    ) -> [SQLValue] {
        [
            .text(chunk.run), .text(checkpoint.feed), .integer(Int64(checkpoint.part.index)),
            .integer(Int64(chunk.first)), .integer(Int64(chunk.first + chunk.count)),
        ]
    }

    /// Reads the entries of a chunk, in their order.
    static func read(
        _ chunk: PendingChunk, in checkpoint: FeedCheckpoint, _ layout: TableLayout
    ) throws(SQLFailure) -> [SettledEntry] {
        let ledger = checkpoint.connection.ledger
        let time = ledger.dialect.ownTime("evidence_at")
        let rows = try ledger.query(
            "SELECT action, row_key, before_image, evidence_at, source, token, state "
                + "FROM pushsweep_change \(range) ORDER BY seq", values(chunk, checkpoint))
        return (0..<rows.count).map { row in
            var token: [UInt8]?
            if case .bytes(let bytes) = rows[row, 5] { token = bytes }
            let written = ChangeLedger.Entry(
                action: rows[row, 0].text ?? "", key: rows[row, 1].text ?? "",
                before: rows[row, 2], time: time.mark(rows[row, 3]) ?? EpochMilliseconds(0),
                source: rows[row, 4].text, token: token,
                state: rows[row, 6].text.flatMap(LedgerState.init))
            let words = LedgerWords(
                action: written.action, time: written.time, source: written.source ?? "")
            return SettledEntry(
                written: written,
                images: ChangeImages(words, image: written.before.text, layout))
        }
    }

    /// Removes the entries of a chunk.
    static func drop(
        _ chunk: PendingChunk, in checkpoint: FeedCheckpoint
    ) throws(SQLFailure) {
        _ = try checkpoint.connection.ledger.execute(
            "DELETE FROM pushsweep_change \(range)", values(chunk, checkpoint))
    }
}

/// The transaction that settles one pending chunk; see `Settlement`.
struct SettlementTransaction {
    /// Reads the rows of the entries.
    let lookup: RowLookup
    let isolation: RowIsolation
    let lease: Lease?
    let pending: PendingCheckpoint
    let chunk: PendingChunk

    private var layout: TableLayout { lookup.layout }
    private var connection: any SQLConnection { lookup.connection }

    /// What the entries of the chunk turned out to be.
    struct Findings {
        var done: [ChangeLedger.Entry] = []
        var open: [RowChange] = []
        /// Void entries, and whether their rows exist.
        var void: [(entry: SettledEntry, exists: Bool)] = []
        var tokenMarks: [TokenMarkChange] = []
        /// Rows that refused the change, and rows that cannot be judged: without a time of
        /// registration a device that came back looks like a change that was not made.
        var refused: [RefusedRow] = []
    }

    /// Looks at the rows of the entries, with locks.
    func examine(_ entries: [SettledEntry]) throws(SQLFailure) -> Findings {
        let named = entries.filter { !$0.isTokenMark }
        let keys = named.compactMap { RowImageReader.key($0.written.key) }
            .filter { $0.count == layout.key.count }
        // A row that is not looked for would count as removed.
        guard keys.count == named.count else {
            throw SQLFailure(
                kind: .configuration, code: 0,
                message:
                    "entries of the chunk name rows by other keys than those of \(layout.table)")
        }
        let rows = try lookup.rows(keys: keys, locking: true).rows
        var findings = Findings()
        for entry in entries where !entry.isTokenMark {
            sort(entry, rows[entry.written.key], into: &findings)
        }
        return findings
    }

    /// Decides about the entries of marks in the side table, once it is known which rows refuse.
    func examineTokenMarks(_ entries: [SettledEntry], _ findings: inout Findings) {
        let kept = keptTokens(findings)
        let gone = Set(
            findings.void.compactMap(\.entry.written.token)
                + findings.refused.compactMap { lookup.ledgerToken(of: $0.row) })
        for entry in entries where entry.isTokenMark {
            // A mark beside a column of two values goes with its rows, if it has any.
            let isLeft =
                entry.written.token.map { gone.contains($0) && !kept.contains($0) } ?? false
            guard layout.living == nil || !isLeft, let change = tokenMark(entry) else {
                findings.void.append((entry, true))
                continue
            }
            findings.done.append(entry.written)
            findings.tokenMarks.append(change)
        }
    }

    /// The tokens whose rows are changed as their entries say.
    private func keptTokens(_ findings: Findings) -> Set<[UInt8]> {
        Set(
            findings.done.compactMap(\.token)
                + findings.open.compactMap { lookup.ledgerToken(of: $0.row) })
    }

    private func tokenMark(_ entry: SettledEntry) -> TokenMarkChange? {
        guard let images = entry.images, let token = entry.written.token.flatMap(DeviceToken.init)
        else { return nil }
        return TokenMarkChange(
            token: token, former: images.before?.tokenMark, mark: images.after?.tokenMark)
    }

    /// Decides about the entry of one row.
    private func sort(
        _ entry: SettledEntry, _ values: ArraySlice<SQLValue>?, into findings: inout Findings
    ) {
        let current = values.map { RowContent(lookup.columns, $0) }
        if let images = entry.images, ChangeImages.agree(current, images.after) {
            findings.done.append(entry.written)
            return
        }
        guard let row = values.flatMap({ lookup.match($0, evidence: 0) }) else {
            if entry.isRemoval && values == nil {
                findings.done.append(entry.written)
            } else {
                findings.void.append((entry, current != nil))
            }
            return
        }
        guard isOpen(entry, row) else {
            // The image of a mark is not needed to see it. A later mark may stand on this one, and then an
            // undo needs both entries.
            let isMarked = row.mark.map { $0 > entry.written.time } ?? false
            let isOurs = entry.images == nil && row.mark == entry.written.time
            if !entry.isRemoval && (isOurs || isMarked && isOfMark(entry)) {
                findings.done.append(entry.written)
            } else {
                findings.void.append((entry, true))
            }
            return
        }
        guard row.registeredAt != nil else {
            if isOfExpiry {
                findings.void.append((entry, true))
            } else {
                findings.refused.append(
                    RefusedRow(
                        row: row, reason: .registration, time: entry.written.time,
                        isAdvance: entry.written.action == "advance"))
            }
            return
        }
        let verdict: Verdict = entry.isRemoval ? .delete : row.mark == nil ? .mark : .advance
        findings.open.append(
            RowChange(
                verdict: verdict, row: row, time: entry.written.time,
                source: entry.written.source))
    }

    /// Whether an entry says that evidence has marked a row.
    private func isOfMark(_ entry: SettledEntry) -> Bool {
        chunk.next != nil && ["mark", "advance"].contains(entry.written.action)
    }

    /// Whether the entries are those of a removal after a grace period, which the next run repeats.
    private var isOfExpiry: Bool { pending.source == FeedCheckpoint.expirySource }

    /// Whether a row can still be changed as its entry says.
    private func isOpen(_ entry: SettledEntry, _ row: MatchedRow) -> Bool {
        // An undo does what is left of it by itself.
        guard chunk.next != nil, row.obstacle == nil,
            entry.written.token == nil || lookup.ledgerToken(of: row) == entry.written.token
        else { return false }
        let time = entry.written.time
        if let registered = row.registeredAt, registered > time { return false }
        if entry.isRemoval {
            let hasMark = isOfExpiry && layout.mark != nil
            return lookup.isExact(row.values) && (!hasMark || row.mark == time)
        }
        return row.mark.map { $0 < time } ?? true
    }

    // MARK: Writing

    /// Makes the open changes. Rows that refuse lose their entries.
    func redo(_ findings: inout Findings) throws(SQLFailure) {
        let source = EvidenceSource(rawValue: pending.source)
        let writer =
            source.map { ChangeWriter(lookup, isolation, marksFrom: $0) }
            ?? ChangeWriter(repeatingMarks: lookup, isolation)
        let refused = try writer.write(findings.open)
        for (place, reason) in refused.sorted(by: { $0.key < $1.key }) {
            let change = findings.open[place]
            findings.refused.append(
                RefusedRow(
                    row: change.row, reason: reason, time: change.time,
                    isAdvance: change.verdict == .advance))
        }
        findings.open = findings.open.enumerated().filter { refused[$0.offset] == nil }
            .map(\.element)
    }

    /// Writes the entries again, commits, and moves the checkpoint.
    func commit(_ findings: Findings) throws(SQLFailure) {
        let checkpoint = pending.checkpoint
        try SettledEntry.drop(chunk, in: checkpoint)
        let ledger = ChangeLedger(
            run: chunk.run, feed: checkpoint.feed, part: checkpoint.part.index,
            source: pending.source, lookup: lookup)
        let entries = findings.done + findings.open.map(ledger.entry)
        try ledger.write(entries, from: chunk.first)
        if let known = chunk.progress {
            try ledger.writeRefused(findings.refused, after: known.rowsRefused)
        }
        let next = chunk.progress.map { adjusted($0, by: findings, entries.count) }
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
            if let next { try checkpoint.update(next, run: chunk.run, layout) }
        }
    }

    /// The announced progress without the void entries. A token counts by the rows that are left.
    private func adjusted(
        _ progress: FeedProgress, by findings: Findings, _ count: Int
    ) -> FeedProgress {
        var progress = progress
        progress.rowsChanged = chunk.first + count
        progress.rowsRefused += findings.refused.count
        // The progress of an expiry counts nothing else.
        guard !isOfExpiry else { return progress }
        let kept = keptTokens(findings)
        var counted: Set<[UInt8]> = []
        // A token with a row that was to be marked counted as applied, one with advances only as invalid.
        for row in findings.refused.filter({ !$0.isAdvance }) + findings.refused.filter(\.isAdvance)
        {
            if !row.isAdvance { progress.rowsInvalidated -= 1 }
            guard let token = lookup.ledgerToken(of: row.row), !kept.contains(token),
                counted.insert(token).inserted
            else { continue }
            if row.isAdvance {
                progress.counts.already -= 1
            } else {
                progress.counts.applied -= 1
            }
            progress.counts.refused += 1
        }
        // An advance was counted as already invalid, and stays so.
        for (entry, exists) in findings.void
        where entry.isRemoval || entry.written.action == "mark" {
            progress.rowsInvalidated -= 1
            guard let token = entry.written.token, !kept.contains(token),
                counted.insert(token).inserted
            else { continue }
            progress.counts.applied -= 1
            if exists { progress.counts.newer += 1 } else { progress.counts.unknown += 1 }
        }
        return progress
    }
}
