import APNsProtocol
import TokenHygiene

/// What persons said no to about one token: the rules of `pushsweep_spared`, written a second time.
struct ModelNote: Hashable {
    /// When evidence was heard, in milliseconds by the database's clock.
    enum Heard: Hashable {
        case unknown
        case at(Int64)
        case asked(Int64)
    }

    var until: Int64
    var discardedAt: Int64?
    var undoneAt: Int64?

    /// Whether evidence with a time gives way.
    func spares(_ time: Int64, _ heard: Heard) -> Bool {
        guard case .at(let moment) = heard.asTime else { return time <= until }
        if let undoneAt, moment <= undoneAt { return true }
        return time <= until && discardedAt.map { moment <= $0 } ?? false
    }
}

extension ModelNote {
    /// Whether a row with a mark of a time stays at the end of a grace period.
    func sparesMark(of time: Int64) -> Bool { undoneAt != nil && time <= until }
}

extension TableModel.Effect {
    /// The time that a mark has after it; nil where it sets none.
    var mark: Int64? {
        switch self {
        case .marked(let time), .advanced(let time): time
        default: nil
        }
    }
}

extension ModelNote.Heard {
    /// What a person asks for counts as heard when he asks.
    fileprivate var asTime: Self {
        if case .asked(let moment) = self { .at(moment) } else { self }
    }
}

/// A row of the table with what the model knows of it.
struct ModelState {
    var row: ModelRow
    /// Its values as the server prints them.
    var printed: [String: String]

    /// Whether it has the mark of another state, and its reason.
    func hasMark(of other: ModelState) -> Bool {
        ["invalidated_at", "invalid_reason"].allSatisfy { printed[$0] == other.printed[$0] }
    }

    /// The state with the mark of another one, and its reason.
    func with(markOf other: ModelState) -> ModelState {
        var state = self
        for name in ["invalidated_at", "invalid_reason"] where printed[name] != nil {
            state.printed[name] = other.printed[name]
        }
        state.row.mark = other.row.mark
        return state
    }

    /// Whether the device may be sent to: there is no mark, or the device registered after it.
    var isLiving: Bool {
        guard let mark = row.mark else { return true }
        if case .at(let registered) = row.registration { return registered > mark }
        return false
    }

    /// When the device registered.
    var registered: Int64? {
        if case .at(let time) = row.registration { time } else { nil }
    }
}

/// One change of a mark beside the rows, as the ledger has it.
struct ModelMarkEntry {
    let run: String
    let token: DeviceToken
    /// The time of the evidence.
    let time: Int64
    let isOfUndo: Bool
    /// Whether the mark went or came with a row, which decides.
    let isCompanion: Bool
    let before: Int64?
    let after: Int64?
}

/// One change as the ledger has it.
struct ModelEntry {
    /// What it did with the row.
    enum Kind {
        case marks, removes, inserts
    }

    let run: String
    /// The place of the row's key, which other rows may have later.
    let place: Int
    let token: DeviceToken
    /// The time of the evidence.
    let time: Int64
    let isOfUndo: Bool
    let before: ModelState?
    let after: ModelState?

    var kind: Kind { after == nil ? .removes : before == nil ? .inserts : .marks }

    /// The state of the place after the undo of the change.
    func undone(from current: ModelState?) -> ModelState? {
        if let current, current.row.token != token { return current }
        switch (kind, current) {
        case (.removes, nil): return before
        case (.marks, let current?):
            guard let before, let after, current.hasMark(of: after) else { return current }
            if let registered = current.registered, registered > time { return current }
            return current.with(markOf: before)
        case (.inserts, let current?):
            // The number is a column too.
            let isSame = current.row.number == after?.row.number
            return isSame && current.printed == after?.printed ? nil : current
        default: return current
        }
    }

    /// What the undo of the change says of its token: that it is to be spared, that an earlier no is taken back, or
    /// nothing.
    func refusal(before: ModelState?, after: ModelState?) -> Bool? {
        guard (after ?? before)?.row.token == token else { return !isOfUndo }
        guard let after else { return before != nil ? false : nil }
        if after.isLiving || kind == .removes { return true }
        return before?.isLiving == true ? false : nil
    }
}
