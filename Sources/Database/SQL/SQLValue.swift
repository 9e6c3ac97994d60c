/// What goes into a statement and what comes out of a row, the same for every engine.
///
/// Tokens are always bound as `text` or `bytes`: a token bound as a number matches every row whose
/// token starts with a letter (MySQL converts the column).
package enum SQLValue: Hashable, Sendable {
    /// SQL NULL.
    case null
    /// A whole number.
    case integer(Int64)
    /// A whole number above `Int64.max`, of an unsigned column.
    case unsigned(UInt64)
    /// A binary floating point number.
    case real(Double)
    /// Text, decimals and times of day among it.
    case text(String)
    /// Text whose bytes are no UTF-8, as they stand in the row. It equals no text, is no token, and goes
    /// back into a row byte by byte.
    case rawText([UInt8])
    /// Bytes of a binary column.
    case bytes([UInt8])
    /// A DATETIME or TIMESTAMP as it stands in the row, without its zone.
    case wallClock(WallClock)

    /// The whole number, where this is one that fits.
    package var integer: Int64? {
        if case .integer(let value) = self { value } else { nil }
    }

    /// The text, or the bytes read as text; nil for anything else, text that is no UTF-8 among it.
    package var text: String? {
        switch self {
        case .text(let text): text
        case .bytes(let bytes): String(validating: bytes, as: UTF8.self)
        default: nil
        }
    }

    /// A whole number from a whole-number or decimal-text value, as COUNT and SUM give.
    package var count: Int? {
        switch self {
        case .integer(let value): Int(value)
        case .text(let text): Int(text)
        default: nil
        }
    }
}

/// The rows of one result, laid end to end so that a chunk of them is one allocation.
package struct SQLRows: Sendable {
    /// Columns per row, at least 1.
    package let width: Int
    /// The names of the columns, where the driver tells: that for servers does.
    package let names: [String]
    private var values: [SQLValue] = []

    /// Starts an empty result of rows of `width` columns.
    package init(width: Int, names: [String] = []) {
        self.width = max(width, 1)
        self.names = names
    }

    /// The bytes of all texts and byte strings, which is what makes rows large.
    package private(set) var bytes = 0

    /// The number of whole rows.
    package var count: Int { values.count / width }

    /// The value in a row and column, both from 0; NULL where the result has no such row or column,
    /// since what a server answers must not decide whether this process lives.
    package subscript(row: Int, column: Int) -> SQLValue {
        guard (0..<count).contains(row), (0..<width).contains(column) else { return .null }
        return values[row * width + column]
    }

    /// Refuses a result that is narrower or wider than what was asked for, before rows are judged by
    /// values that are not theirs.
    package func require(width expected: Int) throws(SQLFailure) {
        guard width == expected || count == 0 else {
            throw SQLFailure(
                kind: .other, code: 0,
                message: "the database answered \(width) columns where \(expected) were asked for")
        }
    }

    /// The values of one row in column order.
    package func row(_ index: Int) -> ArraySlice<SQLValue> {
        values[index * width..<(index + 1) * width]
    }

    /// Adds the next value in reading order.
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
