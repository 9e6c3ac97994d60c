// Undo works row by row, not entry by entry: all chosen entries of a row, newest first, are undone in
// sequence from the row's present content. An entry has a state before and a state after the change. It is
// undone only from exactly its state after, and its state before then has to be the state after of the
// next older entry. So several runs on one row are undone in the right order, an entry in between that was
// not chosen stops the older ones, and the row is read and written once.
//
//   now: marked T2            entries: run 2 T1 -> T2, run 1 none -> T1
//   T2 is the state after run 2: back to T1; T1 is the state after run 1: back to none
//
// A state is the absence of the row, or the values of some columns: all columns for a row that was
// removed, mark and reason for a row that was marked.
//
// An entry is about a token, and its row is known by its key. The application may have put another token into the
// row since, or given the key to another row, whose mark may look just like the one that the entry left. So an
// entry is undone only where the row has the entry's token.

import APNsProtocol
import Database
import TokenHygiene

/// What the content of a row says besides its values.
struct ContentReading {
    /// The registration time of a state; nil without one.
    let registeredAt: (RowContent?) -> EpochMilliseconds?
    /// The token of a row; nil where its value is none.
    let token: (RowContent) -> DeviceToken?
}

/// One row, or one mark of the side table, with its entries undone in sequence.
struct UndoneRow {
    /// The state after the undo so far; nil stands for no row.
    private(set) var state: RowContent?
    /// Entries undone, those that do not count too.
    private var undone = 0
    /// Why an entry that does not count stays.
    private var keptCompanion: UndoObstacle?
    /// Entries undone that count, as do those of the next two: each device once.
    private(set) var restored = 0
    private(set) var already = 0
    private(set) var kept: [UndoObstacle: Int] = [:]
    /// Whether an entry is undone that accompanies the change of a row, which counts as the device.
    var takesCompanionBack: Bool { undone > restored }
    /// The part of the oldest entry undone that counts.
    private(set) var oldest: LedgerPart?
    /// The evidence time of the newest entry undone.
    private(set) var time: EpochMilliseconds?

    /// Starts with the present state.
    init(_ current: RowContent?) { state = current }

    /// Undoes an entry where that is possible; newer entries have to come before older ones.
    mutating func undo(_ change: ChangeImages, _ reading: ContentReading) {
        if let state, reading.token(state) != change.token { return keep(.foreign, change) }
        if ChangeImages.agree(state, change.after) {
            if change.isUndated { return keep(.undated, change) }
            if change.yieldsToRegistration, let registered = reading.registeredAt(state),
                registered > change.time
            {
                return keep(.registered, change)
            }
            if let state, let before = change.before {
                self.state = state.replacing(by: before)
            } else {
                state = change.before
            }
            undone += 1
            restored += change.isCompanion ? 0 : 1
            time = time ?? change.time
            oldest = change.part
        } else if ChangeImages.agree(state, change.before) || isBack(change) {
            already += change.isCompanion ? 0 : 1
        } else {
            keep(state == nil ? .gone : change.after == nil ? .present : .changed, change)
        }
    }

    /// Counts an entry that is not undone, unless it only accompanies another. An older one that counts
    /// stays for the reason of the newer one.
    private mutating func keep(_ obstacle: UndoObstacle, _ change: ChangeImages) {
        guard change.isCompanion else { return keep(keptCompanion ?? obstacle) }
        keptCompanion = keptCompanion ?? obstacle
    }

    /// Counts an entry that is not undone.
    mutating func keep(_ obstacle: UndoObstacle) { kept[obstacle, default: 0] += 1 }

    /// Discards all undone entries, because the resulting row is impossible.
    mutating func keepAll(_ obstacle: UndoObstacle, current: RowContent?) {
        if restored > 0 { kept[obstacle, default: 0] += restored }
        (undone, restored) = (0, 0)
        (time, oldest) = (nil, nil)
        state = current
    }

    /// Whether a removed row exists again with the values of its image.
    private func isBack(_ change: ChangeImages) -> Bool {
        guard change.after == nil, let state, let before = change.before else { return false }
        return before.agrees(with: state)
    }
}

// The order in which the entries of a row are undone. The ledger's times give one order. It is
// right unless a clock was set back, another database with another clock took over, or several
// entries have the same time. The entries themselves are more reliable: each has a state before and
// a state after, so they form a chain. Where the order of the times undoes all entries, it is used.
// Else the chain is followed from the row's present state, and the order that undoes more entries
// is used. In both orders an entry is undone only from exactly its state after, so a wrong order
// may leave entries in place but never produces a wrong row.

extension UndoneRow {
    /// Undoes entries, which come in the order of their times, newest first.
    mutating func undo(_ changes: [ChangeImages], _ reading: ContentReading) {
        var inOrder = self
        for change in changes { inOrder.undo(change, reading) }
        guard changes.count > 1, inOrder.undone < changes.count else {
            self = inOrder
            return
        }
        var chained = self
        var rest = changes
        while !rest.isEmpty {
            let next = rest.firstIndex { ChangeImages.agree(chained.state, $0.after) } ?? 0
            chained.undo(rest.remove(at: next), reading)
        }
        self = chained.undone > inOrder.undone ? chained : inOrder
    }
}
