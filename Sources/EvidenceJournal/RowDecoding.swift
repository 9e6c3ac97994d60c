// GRDB's own subscripts end the process where a value has another type than expected. A file that
// somebody changed or a disk that flipped a bit must end in a sentence instead, because the feeds
// beside the damaged row are still worth having.

import GRDB

/// A row that holds something we never wrote.
struct UnreadableRow: Error, CustomStringConvertible {
    let column: String

    var description: String {
        "column \(column) holds what was never written there; keep a copy of the state folder and "
            + "check the disk; to go on without what else is in it, move journal.sqlite out of there"
    }
}

extension Row {
    /// A value that is always there.
    func value<T: DatabaseValueConvertible>(_ column: String) throws -> T {
        guard let value: T = try optional(column) else { throw UnreadableRow(column: column) }
        return value
    }

    /// A value that may be missing.
    func optional<T: DatabaseValueConvertible>(_ column: String) throws -> T? {
        guard let index = index(forColumn: column) else { throw UnreadableRow(column: column) }
        let found: DatabaseValue = self[index]
        if found.isNull { return nil }
        guard let value = T.fromDatabaseValue(found) else { throw UnreadableRow(column: column) }
        return value
    }

    /// A word of a fixed set.
    func word<T: RawRepresentable<String>>(_ text: String, in column: String) throws -> T {
        guard let word = T(rawValue: text) else { throw UnreadableRow(column: column) }
        return word
    }

    private func index(forColumn column: String) -> Int? {
        Array(columnNames).firstIndex(of: column)
    }
}
