// GRDB's own subscripts end the process when a value has an unexpected type. A file that was edited,
// or a disk with a flipped bit, must cause an error message instead, because the other feeds of the
// journal are still usable.

import GRDB

/// A row with a value that we never wrote.
struct UnreadableRow: Error, CustomStringConvertible {
    let column: String

    var description: String {
        "column \(column) holds what was never written there; keep a copy of the state folder and "
            + "check the disk; to go on without what else is in it, move journal.sqlite out of there"
    }
}

extension Row {
    /// A value of a column that is never NULL.
    func value<T: DatabaseValueConvertible>(_ column: String) throws -> T {
        guard let value: T = try optional(column) else { throw UnreadableRow(column: column) }
        return value
    }

    /// A value of a column that may be NULL.
    func optional<T: DatabaseValueConvertible>(_ column: String) throws -> T? {
        guard let index = index(forColumn: column) else { throw UnreadableRow(column: column) }
        let found: DatabaseValue = self[index]
        if found.isNull { return nil }
        guard let value = T.fromDatabaseValue(found) else { throw UnreadableRow(column: column) }
        return value
    }

    /// A value of an enumeration stored as text.
    func word<T: RawRepresentable<String>>(_ text: String, in column: String) throws -> T {
        guard let word = T(rawValue: text) else { throw UnreadableRow(column: column) }
        return word
    }

    private func index(forColumn column: String) -> Int? {
        Array(columnNames).firstIndex(of: column)
    }
}
