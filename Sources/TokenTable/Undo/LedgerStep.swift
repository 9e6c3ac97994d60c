// Undo is reckoned row by row, not entry by entry: all chosen entries of a row, newest first, are
// played backwards over what the row holds now. An entry tells a state before and a state after; it is
// taken back only from exactly the state it left, and what it found is then the state that the next
// older entry has to have left. So several runs on one row come undone in the right order, an entry
// in between that was not chosen stops what is older, and the row is read and written once.
//
//   now: marked T2            entries: run 2 T1 -> T2, run 1 none -> T1
//   T2 is what run 2 left:    take back to T1; T1 is what run 1 left: take back to none
//
// A state is no row, or the values of some columns: of all for a row that was removed, of mark and
// reason for a row that was marked.

import APNsProtocol
import Database
import TokenHygiene

/// What one entry of the ledger says: what a row held before the change, and after it; nil stands
/// for no row.
struct LedgerStep {
    let before: RowContent?
    let after: RowContent?
    /// The time of the evidence.
    let time: EpochMilliseconds
    /// Whether a device that registered after it is left alone. A row that an undo inserted is
    /// compared with all it held then, its registration too.
    let yieldsToRegistration: Bool

    /// Reads an entry; nil where the layout has no such columns or the entry cannot be read.
    init?(_ entry: PlannedEntry, image: String?, _ layout: TableLayout) {
        time = entry.time
        yieldsToRegistration = entry.action != "insert"
        switch entry.action {
        case "mark", "advance":
            guard let mark = layout.mark else { return nil }
            let columns = [mark.name, layout.reason].compactMap { $0 }
            after = RowContent(columns, [mark.value(entry.time), .text(entry.source)])
            guard let image else {
                before = RowContent(columns, columns.map { _ in SQLValue.null })
                return
            }
            guard let content = RowImageReader.content(image) else { return nil }
            before = content
        case "delete":
            guard let image, let content = RowImageReader.content(image) else { return nil }
            before = content
            after = nil
        case "side-mark":
            after = RowContent(SideMarkState(time: entry.time, reason: entry.source))
            guard let image else {
                before = nil
                return
            }
            guard let content = RowImageReader.content(image), content.sideMark != nil else {
                return nil
            }
            before = content
        case "insert", "restore", "side-restore":
            guard let image, let step = RowImageReader.step(image) else { return nil }
            // What is no mark could be taken back in name only.
            let isReadable = [step.before, step.after].allSatisfy {
                $0 == nil || $0?.sideMark != nil
            }
            guard entry.action != "side-restore" || isReadable else { return nil }
            (before, after) = step
        default: return nil
        }
    }
}

/// One row, or one mark of the side table, played backwards.
struct UndoneRow {
    /// What it would hold.
    private(set) var state: RowContent?
    private(set) var restored = 0
    private(set) var already = 0
    private(set) var kept: [UndoObstacle: Int] = [:]
    /// The evidence of the newest entry taken back.
    private(set) var time: EpochMilliseconds?

    /// Starts with what it holds now.
    init(_ current: RowContent?) { state = current }

    /// Takes an entry back, where that is possible; older ones have to follow newer ones.
    /// `registeredAt` tells the registration of a state.
    mutating func takeBack(
        _ step: LedgerStep, registeredAt: (RowContent?) -> EpochMilliseconds?
    ) {
        if Self.agree(state, step.after) {
            if step.yieldsToRegistration, let registered = registeredAt(state),
                registered > step.time
            {
                return keep(.registered)
            }
            if let state, let before = step.before {
                self.state = state.replacing(by: before)
            } else {
                state = step.before
            }
            restored += 1
            time = time ?? step.time
        } else if Self.agree(state, step.before) || isBack(step) {
            already += 1
        } else {
            keep(state == nil ? .gone : step.after == nil ? .present : .changed)
        }
    }

    /// Notes that an entry stays as it is.
    mutating func keep(_ obstacle: UndoObstacle) { kept[obstacle, default: 0] += 1 }

    /// Gives all up that was taken back: the row that would have come of it cannot stand.
    mutating func giveUp(_ obstacle: UndoObstacle, current: RowContent?) {
        kept[obstacle, default: 0] += restored
        restored = 0
        time = nil
        state = current
    }

    /// Whether a removed row is there again as it was, by all that was read of it.
    private func isBack(_ step: LedgerStep) -> Bool {
        guard step.after == nil, let state, let before = step.before else { return false }
        return before.agrees(with: state)
    }

    static func agree(_ state: RowContent?, _ side: RowContent?) -> Bool {
        switch (state, side) {
        case (nil, nil): true
        case (let state?, let side?): state.agrees(with: side)
        default: false
        }
    }
}
