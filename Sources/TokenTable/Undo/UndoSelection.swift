import APNsProtocol
import Database
import TokenHygiene

/// Which changes are to be taken back.
package enum UndoSelection: Hashable, Sendable {
    /// Those of one run, by its UUID.
    case run(String)
    /// Those of every run that began at this time or later.
    case since(EpochMilliseconds)
    /// Those made to rows and marks of one token, by any run.
    case token(DeviceToken)

    /// The same in words, by which a run that goes on with an unfinished undo finds it. Stays in the
    /// database.
    var name: String {
        switch self {
        case .run(let run): "run \(run)"
        case .since(let time): "since \(time.rawValue)"
        case .token(let token): "token \(token.hex)"
        }
    }
}

/// Why a change was not taken back.
package enum UndoObstacle: String, Hashable, Sendable, CaseIterable {
    /// The row carries another mark or other values than the change left.
    case changed
    /// The device registered again after the signal.
    case registered
    /// The row is not there any more.
    case gone
    /// A row with the key of the removed one is there.
    case present
    /// The token of the removed row stands in another row, and may stand in one only.
    case taken
    /// The table did not take the removed row back: a foreign key, a check, a column that is new.
    case refused
    /// The change was made to another table than the settings name now, or in other columns.
    case foreign
    /// The ledger's entry cannot be read.
    case unreadable

    /// The middle of a sentence about so many entries.
    package var words: String {
        switch self {
        case .changed: "changed since by somebody else"
        case .registered: "registered again"
        case .gone: "not there any more"
        case .present: "there again under the same key"
        case .taken: "with a token that stands in another row"
        case .refused: "refused by the table"
        case .foreign: "in another table or column, or under another key, than the settings name"
        case .unreadable: "unreadable in the ledger"
        }
    }
}

/// How far an undo is, as its run's record in the database has it: the marker that moves in the
/// transaction of every chunk. Every entry read ends in exactly one count.
package struct UndoProgress: Codable, Hashable, Sendable {
    /// What is undone, in words.
    package internal(set) var selection: String
    /// The last row done.
    package internal(set) var position: String?
    /// Entries of the ledger taken back.
    package internal(set) var restored = 0
    /// Entries whose row was already as before.
    package internal(set) var already = 0
    /// Entries not taken back, by `UndoObstacle`.
    package internal(set) var kept: [String: Int] = [:]
    /// Rows and marks changed: the entries that this undo wrote itself.
    package internal(set) var rowsChanged = 0
    /// Rows inserted again.
    package internal(set) var inserted = 0
    /// Rows removed again, by the undo of an undo.
    package internal(set) var removed = 0
    /// Whether everything had its turn.
    package internal(set) var isDone = false

    /// Entries done.
    package var entries: Int { restored + already + kept.values.reduce(0, +) }

    mutating func keep(_ obstacle: UndoObstacle, _ count: Int = 1) {
        guard count > 0 else { return }
        kept[obstacle.rawValue, default: 0] += count
    }
}
