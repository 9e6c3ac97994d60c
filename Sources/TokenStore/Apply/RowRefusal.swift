/// Why one row was not changed although the evidence says that its token is dead. The row stays as it is.
package enum RowRefusal: String, Hashable, Sendable, CaseIterable {
    /// A trigger signalled an error.
    case trigger
    /// Rows of another table refer to the row, and their foreign key restricts its removal.
    case referenced
    /// The changed row would refer to a row of another table that is not there.
    case dangling
    /// A CHECK of the table does not hold for the changed row.
    case check
    /// A unique key has the new value in another row.
    case taken
    /// A value does not fit its column, or a column takes no NULL.
    case value
    /// The database does not find the row by the key that it gave for it.
    case unmatched
    /// The row's time of registration cannot be read, so nobody can tell whether the device came back.
    case registration
    /// A value of the row cannot be kept byte by byte, so a removed row could not be brought back.
    case inexact
    /// The row's key is longer than the column of the ledger that would have to name it.
    case key

    /// The middle of a sentence about the row.
    package var words: String {
        switch self {
        case .trigger: "a trigger refuses the change"
        case .referenced: "rows of another table refer to it"
        case .dangling: "it would refer to a row that is not there"
        case .check: "a check of the table refuses the change"
        case .taken: "a unique key has the new value in another row"
        case .value: "a value does not fit its column"
        case .unmatched: "the database does not find it by its own key"
        case .registration: "its time of registration cannot be read"
        case .inexact:
            "one of its values cannot be kept byte by byte, so it could not be brought back"
        case .key: "its key is too long for the ledger"
        }
    }

    /// Reads what the database says about one changed row; nil for a failure that says nothing about
    /// the row.
    init?(_ failure: SQLFailure) {
        switch failure.code {
        case 1_062: self = .taken
        case _ where failure.kind != .refused: return nil
        case 1_217, 1_451: self = .referenced
        case 1_216, 1_452: self = .dangling
        case 3_819, 4_025: self = .check
        case 1_048, 1_264, 1_265, 1_292, 1_300, 1_364, 1_366, 1_406, 1_411, 1_690: self = .value
        case 19: self = Self.sqlite(failure.message)
        // Whatever else was refused carries the number that a trigger gave its SIGNAL.
        default: self = .trigger
        }
    }

    /// SQLITE_CONSTRAINT of any kind. The words are those of SQLite's source, and a trigger's RAISE may
    /// have any.
    private static func sqlite(_ message: String) -> RowRefusal {
        if message.hasPrefix("FOREIGN KEY") { return .referenced }
        if message.hasPrefix("CHECK") { return .check }
        if message.hasPrefix("UNIQUE") { return .taken }
        if message.hasPrefix("NOT NULL") || message.contains("cannot store") { return .value }
        return .trigger
    }
}
