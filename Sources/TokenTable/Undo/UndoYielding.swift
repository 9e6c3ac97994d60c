import APNsProtocol
import Database
import Encodings
import TokenHygiene

// What an undo leaves as it is, because something came after the changes: a token that stands in another row now, or
// later evidence.

extension UndoTransaction {
    /// A target with its present state and its state after the undo.
    struct Undone {
        let target: UndoTarget
        let current: RowContent?
        /// The row as read; nil without a row.
        let values: ArraySlice<SQLValue>?
        var row: UndoneRow
        /// Of a mark beside the rows: the earliest registration among the rows of its token; nil where it has none.
        var registered: EpochMilliseconds?
        /// Whether the table refuses it until another row is there, or is gone.
        var isWaiting = false

        /// Whether it is a mark beside the rows that only accompanied a change of them.
        var isCompanion: Bool {
            target.isTokenMark && target.entries.allSatisfy(\.isCompanion)
        }

        /// Whether a state of a mark beside the rows takes its token off the wire.
        func isInForce(_ state: RowContent?) -> Bool {
            guard let mark = state?.tokenMark else { return false }
            return registered.map { $0 <= mark.time } ?? true
        }

        /// Whether the row comes or goes.
        var isWhole: Bool { !target.isTokenMark && (current == nil) != (row.state == nil) }

        var isChanged: Bool {
            switch (current, row.state) {
            case (nil, nil): false
            case (let current?, let state?): !current.agrees(with: state)
            default: true
            }
        }

        /// Leaves the row as it is, because the table refuses its change.
        mutating func refuse(_ refusal: RowRefusal) {
            isWaiting = isWhole && [.dangling, .referenced].contains(refusal)
            let obstacle: UndoObstacle =
                switch refusal {
                case .taken where current == nil: .taken
                default: .refused
                }
            row.keepAll(obstacle, current: current)
        }

        /// The change of a mark in `pushsweep_invalid`; nil for content that is no mark.
        var tokenMarkChange: TokenMarkChange? {
            guard let token = target.token, row.state == nil || row.state?.tokenMark != nil else {
                return nil
            }
            return TokenMarkChange(
                token: token, former: current?.tokenMark, mark: row.state?.tokenMark)
        }
    }

    /// Keeps rows removed whose token is now in another row, where it may be in one only.
    func yieldToTakenTokens(_ undone: inout [Undone]) throws(SQLFailure) {
        guard work.tokensAreUnique else { return }
        var returning: [Partition: [(index: Int, token: DeviceToken)]] = [:]
        for (index, item) in undone.enumerated()
        where !item.target.isTokenMark && item.current == nil {
            guard let token = item.row.state?[layout.token.name].flatMap(layout.token.token) else {
                continue
            }
            returning[item.target.partition, default: []].append((index, token))
        }
        for (partition, items) in returning {
            let taken = Set(try rows(with: items.map(\.token), in: partition).map(\.0))
            for item in items where taken.contains(item.token) {
                undone[item.index].row.keepAll(.taken, current: nil)
            }
        }
    }

    /// Leaves rows dead by a column of two values where later evidence than that of the undone change has moved the time
    /// beside them. The row itself does not show which mark it carries. Where the undo takes that evidence back too,
    /// nothing stands against it.
    func yieldToLaterMarks(_ undone: inout [Undone]) throws(SQLFailure) {
        guard layout.living != nil else { return }
        var returning: [Partition: [(index: Int, token: DeviceToken, time: EpochMilliseconds)]] =
            [:]
        for (index, item) in undone.enumerated() where !item.target.isTokenMark && item.isChanged {
            guard item.row.state != nil, let time = item.row.time,
                let token = item.current?[layout.token.name].flatMap(layout.token.token)
            else { continue }
            returning[item.target.partition, default: []].append((index, token, time))
        }
        for (partition, items) in returning {
            let tokens = Set(items.map(\.token)).sorted()
            let marks = try invalidTokens(of: partition).marks(on: tokens, locking: !isDry)
            for item in items {
                guard let mark = marks[item.token], mark.time > item.time,
                    try !plan.takesBack(mark.time, beside: item.token, in: partition)
                else { continue }
                undone[item.index].row.keepAll(.changed, current: undone[item.index].current)
            }
        }
    }
}

extension UndoTransaction {
    /// Leaves a mark beside the rows away that went with them, where no row of its token came back with this undo, or
    /// another row would be taken off the wire by it: the device may have come back in a new one.
    func keepMarksFromLivingRows(_ undone: inout [Undone]) throws(SQLFailure) {
        guard layout.living == nil else { return }
        var returning: [Partition: [DeviceToken: Int]] = [:]
        for (index, item) in undone.enumerated()
        where item.isCompanion && item.current == nil && item.row.state?.tokenMark != nil {
            guard let token = item.target.token else { continue }
            returning[item.target.partition, default: [:]][token] = index
        }
        for (partition, indexes) in returning {
            let found = try rows(with: Array(indexes.keys), in: partition)
            let names = try LedgerReader(connection: lookup.connection)
                .inserted(by: work.run, of: Array(indexes.keys))
            let own = names.union(
                undone.filter { $0.current == nil && $0.row.state != nil }.map(\.target.key))
            for (token, index) in indexes {
                let item = undone[index]
                let rows = found.filter { $0.0 == token }.map(\.1)
                let isOwn = rows.contains { own.contains(lookup.name(of: $0)) }
                let isOther = rows.contains { row in
                    !own.contains(lookup.name(of: row))
                        && item.row.state?.tokenMark.map { mark in
                            row.registeredAt.map { $0 <= mark.time } ?? true
                        } == true
                }
                if !isOwn || isOther { undone[index].row.keepAll(.changed, current: nil) }
            }
        }
    }
}

extension UndoTarget {
    /// The token of a mark in the side table.
    var token: DeviceToken? {
        guard isTokenMark, case .bytes(let bytes)? = RowImageReader.key(key)?.first else {
            return nil
        }
        return DeviceToken(bytes)
    }
}
