// What rows and marks were before their first change after a time. The changes come in the order of
// their commits. The first one of a row counts: its before-image is the state that is looked for. A
// mark has an image of the mark alone, so the rest of the row comes from the table, or from the image
// of a later removal.
//
//   first change       state             completed by
//   mark, restore      the former mark   the row as it is now, or the image of its removal
//   delete             the whole row
//   insert (an undo)   no row
//   mark beside        the former mark, or none
//
// The states are in a temporary file of SQLite, which has no name and disappears with its
// connection, so memory does not grow with the ledger.

import APNsProtocol
import Database
import TokenHygiene

/// The state of a row or of a mark before its first change after a time.
enum PastState: Hashable {
    /// A row with these values in place of its present ones.
    case changed(RowContent)
    /// A row, or a mark beside the table, with these values.
    case whole(RowContent)
    /// No row, or no mark.
    case absent
}

/// The states of all rows and marks that changed after a time.
final class PastStates {
    private let scratch: SQLiteConnection

    init() throws(SQLFailure) {
        scratch = SQLiteConnection(
            path: "", creates: true, StoreSettings(location: .sqlite(path: "")))
        try scratch.connect()
        try scratch.run(
            "CREATE TABLE state (target TEXT PRIMARY KEY, kind INTEGER, part TEXT, whole TEXT) "
                + "WITHOUT ROWID")
        try scratch.run("BEGIN")
    }

    /// The name of a row, by its key as the ledger spells it.
    static func row(_ key: String) -> String { "r\(separator)\(key)" }

    /// The name of a mark beside the table.
    static func mark(_ partition: Partition, _ key: String) -> String {
        ["s", partition.app, partition.environment, key].joined(separator: separator)
    }

    private static let separator = "\u{1F}"

    /// Enters the state before a change; changes come in the order in which they were made.
    func enter(_ state: PastState, of target: String) throws(SQLFailure) {
        let values: [SQLValue] =
            switch state {
            case .changed(let content): [.integer(0), Self.image(content), .null]
            case .whole(let content): [.integer(1), .null, Self.image(content)]
            case .absent: [.integer(2), .null, .null]
            }
        _ = try scratch.execute(
            "INSERT INTO state VALUES (?, ?, ?, ?) ON CONFLICT (target) DO UPDATE SET "
                + "kind = excluded.kind, whole = excluded.whole "
                + "WHERE state.kind = 0 AND excluded.kind = 1", [.text(target)] + values)
    }

    private static func image(_ content: RowContent) -> SQLValue {
        .text(RowImage.object(content.columns, content.values))
    }

    /// One row or mark with its state.
    struct Target {
        /// Its name.
        let name: String
        /// The key as the ledger spells it.
        let key: String
        /// The partition of a mark beside the table; nil for a row.
        let partition: Partition?
        let state: PastState
    }

    /// The next rows and marks after a name, at most `limit`; empty at the end. Rows come before
    /// marks.
    func targets(after name: String, limit: Int) throws(SQLFailure) -> [Target] {
        let rows = try scratch.query(
            "SELECT target, kind, part, whole FROM state WHERE target > ? ORDER BY target LIMIT ?",
            [.text(name), .integer(Int64(limit))])
        return (0..<rows.count).compactMap { row in
            guard let name = rows[row, 0].text, let state = Self.state(rows.row(row)) else {
                return nil
            }
            let words = name.split(
                separator: Self.separator, maxSplits: 3, omittingEmptySubsequences: false
            ).map(String.init)
            guard words[0] == "s" else {
                return Target(
                    name: name, key: String(name.dropFirst(2)), partition: nil, state: state)
            }
            guard words.count == 4 else { return nil }
            return Target(
                name: name, key: words[3],
                partition: Partition(app: words[1], environment: words[2]),
                state: state)
        }
    }

    /// The state of a row or mark; nil where it did not change.
    func state(of target: String) throws(SQLFailure) -> PastState? {
        let rows = try scratch.query(
            "SELECT target, kind, part, whole FROM state WHERE target = ?", [.text(target)])
        return rows.count > 0 ? Self.state(rows.row(0)) : nil
    }

    private static func state(_ row: ArraySlice<SQLValue>) -> PastState? {
        let values = Array(row)
        let part = values[2].text.flatMap(RowImageReader.content)
        let whole = values[3].text.flatMap(RowImageReader.content)
        switch values[1].integer {
        case 0: return part.map(PastState.changed)
        case 1: return whole.map { .whole(completed($0, by: part)) }
        default: return .absent
        }
    }

    private static func completed(_ whole: RowContent, by part: RowContent?) -> RowContent {
        part.map { whole.replacing(by: $0) } ?? whole
    }
}
