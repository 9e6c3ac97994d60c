import Encodings

/// A value of a statement or of a row, the same for every engine. Equal values have the same bytes.
///
/// Tokens are always bound as `text` or `bytes`: a token bound as a number matches every row whose
/// token starts with a letter (MySQL converts the column).
package enum SQLValue: Hashable, Sendable {
    /// SQL NULL.
    case null
    /// A signed integer of 64 bits.
    case integer(Int64)
    /// An integer above `Int64.max`, of an unsigned column.
    case unsigned(UInt64)
    /// A binary floating point number.
    case real(Double)
    /// Text, including decimals and times of day.
    case text(ExactText)
    /// The bytes of text that is not UTF-8, unchanged from the row. It equals no text, is never a
    /// token, and is restored byte by byte.
    case rawText([UInt8])
    /// Bytes of a binary column.
    case bytes([UInt8])
    /// A DATETIME or TIMESTAMP unchanged from the row, without its zone.
    case wallClock(WallClock)

    /// Text, as its bytes are.
    @inlinable
    package static func text(_ text: String) -> SQLValue { .text(ExactText(text)) }

    /// The integer, where the value is one that fits; else nil.
    @inlinable
    package var integer: Int64? {
        if case .integer(let value) = self { value } else { nil }
    }

    /// The text, or the bytes read as text; nil for other values and for text that is not UTF-8. To
    /// compare it with another text from outside, compare the values.
    @inlinable
    package var text: String? {
        switch self {
        case .text(let text): text.string
        case .bytes(let bytes): String(validating: bytes, as: UTF8.self)
        default: nil
        }
    }

    /// An integer from an integer or decimal-text value, as returned by COUNT and SUM.
    @inlinable
    package var count: Int? {
        switch self {
        case .integer(let value): Int(value)
        case .text(let text): Int(text.string)
        default: nil
        }
    }
}

/// SQL with the values of its places: a statement, or a part of one.
package typealias BoundSQL = (sql: String, values: [SQLValue])

// A chunk reads thousands of values from here in another module, so these small readers may be inlined there.

/// The rows of one result, stored consecutively so that a chunk of them is one allocation.
package struct SQLRows: Sendable {
    /// Columns per row, at least 1.
    package let width: Int
    /// The names of the columns; empty where the driver does not supply them. The driver for
    /// servers does.
    package let names: [String]
    @usableFromInline var values: [SQLValue] = []

    /// Starts an empty result of rows of `width` columns.
    package init(width: Int, names: [String] = []) {
        self.width = max(width, 1)
        self.names = names
    }

    /// The number of bytes in all texts and byte strings, the main part of a row's size.
    package private(set) var bytes = 0

    /// The number of whole rows.
    @inlinable
    package var count: Int { values.count / width }

    /// The value in a row and column, both from 0. NULL where the result has no such row or column,
    /// because a server's answer must not be able to crash this process.
    @inlinable
    package subscript(row: Int, column: Int) -> SQLValue {
        guard (0..<count).contains(row), (0..<width).contains(column) else { return .null }
        return values[row * width + column]
    }

    /// Refuses a result with another width than requested, before rows are judged by wrong values.
    /// Throws `other`.
    package func require(width expected: Int) throws(SQLFailure) {
        guard width == expected || count == 0 else {
            throw SQLFailure(
                kind: .other, code: 0,
                message: "the database answered \(width) columns where \(expected) were asked for")
        }
    }

    /// Refuses results with fewer rows than are known to be there, before anything is decided by them.
    /// Throws `inconsistent`.
    package static func require(
        _ count: Int, atLeast known: Int, of things: String
    ) throws(SQLFailure) {
        guard count >= known else {
            throw SQLFailure(
                kind: .inconsistent, code: 0,
                message: "the database answered \(count) \(things), and has \(known)")
        }
    }

    /// The values of one row in column order.
    @inlinable
    package func row(_ index: Int) -> ArraySlice<SQLValue> {
        values[index * width..<(index + 1) * width]
    }

    /// Appends the next value in reading order.
    package mutating func append(_ value: SQLValue) {
        switch value {
        case .text(let text): bytes += text.utf8.count
        case .bytes(let content), .rawText(let content): bytes += content.count
        default: break
        }
        values.append(value)
    }

    /// The first value of the first row, for queries that return one.
    package var scalar: SQLValue? { values.first }
}
