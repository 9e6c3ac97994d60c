import APNsProtocol
import Database
import TokenHygiene

// An undo says no to the evidence behind the changes that it takes back. The tokens whose rows it leaves living are
// noted (see `SparedTokens`), also those that were so already, and rows that it brings back marked. The undo of an undo
// makes rows dead again, and forgets that no.

extension UndoTransaction {
    /// What an undo leaves of one token.
    private struct Left {
        var isSpared: Bool
        /// Whether the row was living before, or there, and is not any more.
        var isRemoved: Bool
    }

    /// Notes the tokens of some targets after their changes, in the same transaction. A token whose row is gone, or has
    /// another token or key now, is noted as well: it may stand in another row.
    ///
    /// - Returns: when, by the database's clock; nil where there is nothing to note.
    func noteSpared(_ undone: [Undone]) throws(SQLFailure) -> EpochMilliseconds? {
        var (notes, cleared) = ([SparingNotes.Note](), [DeviceToken: EpochMilliseconds]())
        for item in undone {
            let own = item.target.token ?? token(of: item.row.state ?? item.current)
            for (token, entries) in Dictionary(grouping: item.target.entries, by: \.token) {
                guard let token, let until = entries.map(\.evidence).max() else { continue }
                let isOfUndo = entries.first?.isOfUndo == true
                let left =
                    token == own
                    ? left(item) : Left(isSpared: !isOfUndo, isRemoved: isOfUndo)
                if left.isSpared {
                    notes.append(
                        SparingNotes.Note(
                            token: token, partition: item.target.partition,
                            until: layout.end(of: until)))
                } else if left.isRemoved {
                    cleared[token] = max(cleared[token] ?? until, layout.end(of: until))
                }
            }
        }
        let writer = SparingNotes(connection: lookup.connection, run: work.run)
        // A device of a column of two values has two targets, and its row decides.
        for note in notes { cleared[note.token] = nil }
        if !cleared.isEmpty { try writer.clearUndo(of: cleared) }
        guard !notes.isEmpty else { return nil }
        let time = lookup.dialect.ownTime("undone_at")
        let now = try lookup.connection.query("SELECT \(lookup.dialect.now)").scalar
        guard let now = now.flatMap(time.mark) else {
            throw SQLFailure(
                kind: .other, code: 0, message: "the database told a time that is no time")
        }
        try writer.add(notes, .undid, at: now)
        return now
    }

    /// Counts the rows that are living again in the batches that had made them invalid, so that the guard does not take
    /// them for removed.
    func takeBack(_ undone: [Undone]) throws(SQLFailure) {
        var living: [LedgerPart: Int64] = [:]
        for item in undone where item.isChanged && !isDead(item.row.state, item) {
            guard let part = item.row.oldest, isDead(item.current, item) else { continue }
            living[part, default: 0] += 1
        }
        for (part, count) in living.sorted(by: { $0.key.number < $1.key.number }) {
            _ = try lookup.connection.execute(
                "UPDATE pushsweep_part SET taken_back = taken_back + ? WHERE number = ? AND batch IS NOT NULL",
                [.integer(count), part.value])
        }
    }

    /// Whether a target is dead in a state: gone, or marked. Of a column of two values the row decides.
    private func isDead(_ state: RowContent?, _ item: Undone) -> Bool {
        guard item.target.isTokenMark else {
            return state.map { lookup.ledgerState(of: $0) == .invalid } ?? true
        }
        return layout.living == nil && item.isInForce(state)
    }

    private func left(_ item: Undone) -> Left {
        let (before, after) = (item.current, item.row.state)
        guard !item.target.isTokenMark else {
            // Of a column of two values the row decides, and of a mark that went or came with its row.
            guard layout.living == nil, !item.isCompanion else {
                return Left(isSpared: false, isRemoved: false)
            }
            let isDead = item.isInForce(after)
            return Left(isSpared: !isDead, isRemoved: isDead && !item.isInForce(before))
        }
        guard let after else { return Left(isSpared: false, isRemoved: before != nil) }
        let isBack = item.target.entries.contains { $0.action == "delete" }
        let isLiving = lookup.ledgerState(of: after) == .valid
        return Left(
            isSpared: isLiving || isBack,
            isRemoved: !isLiving && before.map { lookup.ledgerState(of: $0) == .valid } == true)
    }

    private func token(of content: RowContent?) -> DeviceToken? {
        content?[layout.token.name].flatMap(layout.token.token)
    }
}
