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

import APNsProtocol
import Database
import TokenHygiene

/// The content of one ledger entry: the row's state before the change and after it; nil stands for
/// no row.
struct LedgerStep {
    let before: RowContent?
    let after: RowContent?
    /// The time of the evidence.
    let time: EpochMilliseconds
    /// Whether the entry stays if the device registered after it. A row that an undo inserted is
    /// compared with all its values of that time, including the registration.
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
            // Undoing content that is not a mark would have no effect.
            let isReadable = [step.before, step.after].allSatisfy {
                $0 == nil || $0?.sideMark != nil
            }
            guard entry.action != "side-restore" || isReadable else { return nil }
            (before, after) = step
        default: return nil
        }
    }
}

/// One row, or one mark of the side table, with its entries undone in sequence.
struct UndoneRow {
    /// The state after the undo so far; nil stands for no row.
    private(set) var state: RowContent?
    private(set) var restored = 0
    private(set) var already = 0
    private(set) var kept: [UndoObstacle: Int] = [:]
    /// The evidence time of the newest entry undone.
    private(set) var time: EpochMilliseconds?

    /// Starts with the present state.
    init(_ current: RowContent?) { state = current }

    /// Undoes an entry where that is possible; newer entries have to come before older ones.
    /// `registeredAt` returns the registration of a state.
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

    /// Counts an entry that is not undone.
    mutating func keep(_ obstacle: UndoObstacle) { kept[obstacle, default: 0] += 1 }

    /// Discards all undone entries, because the resulting row is impossible.
    mutating func giveUp(_ obstacle: UndoObstacle, current: RowContent?) {
        kept[obstacle, default: 0] += restored
        restored = 0
        time = nil
        state = current
    }

    /// Whether a removed row exists again with the values of its image.
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
