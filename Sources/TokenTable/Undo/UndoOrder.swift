// The order in which the entries of a row are undone. The ledger's times give one order. It is
// right unless a clock was set back, another database with another clock took over, or several
// entries have the same time. The entries themselves are more reliable: each has a state before and
// a state after, so they form a chain. Where the order of the times undoes all entries, it is used.
// Else the chain is followed from the row's present state, and the order that undoes more entries
// is used. In both orders an entry is undone only from exactly its state after, so a wrong order
// may leave entries in place but never produces a wrong row.

import APNsProtocol
import Database
import TokenHygiene

extension UndoneRow {
    /// Undoes entries, which come in the order of their times, newest first. `registeredAt` returns
    /// the registration of a state.
    mutating func takeBack(
        _ steps: [LedgerStep], registeredAt: (RowContent?) -> EpochMilliseconds?
    ) {
        var inOrder = self
        for step in steps { inOrder.takeBack(step, registeredAt: registeredAt) }
        guard steps.count > 1, inOrder.restored < steps.count else {
            self = inOrder
            return
        }
        var chained = self
        var rest = steps
        while !rest.isEmpty {
            let next = rest.firstIndex { Self.agree(chained.state, $0.after) } ?? 0
            chained.takeBack(rest.remove(at: next), registeredAt: registeredAt)
        }
        self = chained.restored > inOrder.restored ? chained : inOrder
    }
}
