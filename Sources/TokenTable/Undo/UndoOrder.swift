// In which order the entries of a row are taken back. The ledger's times give one, and it is right unless
// a clock stepped back, a second database took over with another clock, or several entries have the same
// time. The entries know better: each tells what it found and what it left, so they form a chain. Where
// the order of the times takes everything back it stands. Else the chain is followed from what the row
// holds now, and what takes more back counts. Either way an entry is taken back only from exactly the
// state that it left, so a wrong order may leave something as it is and never makes a wrong row.

import APNsProtocol
import Database
import TokenHygiene

extension UndoneRow {
    /// Takes entries back; they come in the order of their times, newest first. `registeredAt` tells the
    /// registration of a state.
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
