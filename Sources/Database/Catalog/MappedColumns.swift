import APNsProtocol
import Findings

// A token is looked up by equality on its column, so that an index can be used. The rows found are
// then compared byte by byte: collations ignore the difference of upper and lower case and spaces
// at the end, and must not decide which row is meant.
//
// Hex text with a case-sensitive collation is searched in all-lower and all-upper spelling, the two
// that programs write. A row with any other spelling (groups, angle brackets) is not found; `check`
// refuses a table with such rows, and says how to rewrite them.

/// The token column of the user's table.
package struct TokenColumn: Hashable, Sendable {
    /// The name as the database spells it.
    package let name: String
    /// The encoding of the column's tokens.
    package let encoding: TokenEncoding
    /// Whether the column has a binary type, so that even hex text is bound as bytes.
    package let isBinary: Bool
    /// Whether equality is case-sensitive.
    package let tellsCaseApart: Bool

    /// Whether hex text may be stored as text or as bytes, which are never equal: a column of
    /// SQLite that is not declared to hold text keeps the bound type.
    package var mixesTextAndBytes = false

    /// Whether a search finds a value with more spaces at its end: text of a server, unless its collation
    /// is NO PAD, as MySQL's default is.
    package var ignoresSpaces = false

    /// The number of values by which a token is searched, 1 to 4.
    package var spellings: Int {
        encoding == .hex ? (tellsCaseApart ? 2 : 1) * (mixesTextAndBytes ? 2 : 1) : 1
    }

    /// Appends the values by which a token is searched.
    package func appendSearchValues(for token: DeviceToken, to values: inout [SQLValue]) {
        switch encoding {
        case .binary: values.append(.bytes(token.bytes))
        case .hex:
            let hex = token.hex
            append(hex, to: &values)
            if tellsCaseApart { append(hex.uppercased(), to: &values) }
        }
    }

    private func append(_ hex: String, to values: inout [SQLValue]) {
        if isBinary || mixesTextAndBytes { values.append(.bytes(Array(hex.utf8))) }
        if !isBinary { values.append(.text(hex)) }
    }

    /// Whether a value cannot be found because it is hex text stored as bytes, where text is
    /// searched.
    package func isMisplaced(_ value: SQLValue) -> Bool {
        guard encoding == .hex, !isBinary, !mixesTextAndBytes, case .bytes = value else {
            return false
        }
        return token(value) != nil
    }

    /// Whether a value is a token that no search finds although it can be read: hex in groups, in
    /// angle brackets or, where equality is case-sensitive, in both cases.
    package func isScattered(_ value: SQLValue) -> Bool {
        guard encoding == .hex, let token = token(value), let text = value.hexText(ignoresSpaces)
        else {
            return false
        }
        if text == token.hex || text == token.hex.uppercased() { return false }
        return tellsCaseApart || text.lowercased() != token.hex
    }

    /// The token in a stored value; nil for NULL, placeholders and any other value that is not a
    /// token.
    package func token(_ value: SQLValue) -> DeviceToken? {
        switch (encoding, value) {
        case (.binary, .bytes(let bytes)): DeviceToken(bytes)
        case (.hex, .text(let text)): try? DeviceToken(spelling: text.string)
        case (.hex, .bytes(let bytes)): try? DeviceToken(spelling: bytes)
        default: nil
        }
    }
}

extension String {
    /// By bytes: a space with an accent behind it is another Character than a space.
    fileprivate var withoutSpacesAtEnd: String {
        let spaces = utf8.reversed().prefix { $0 == UInt8(ascii: " ") }.count
        return String(decoding: utf8.dropLast(spaces), as: UTF8.self)
    }
}

extension SQLValue {
    /// Text, without the spaces at its end where a comparison ignores them.
    fileprivate func hexText(_ ignoresSpaces: Bool) -> String? {
        switch self {
        case .text(let text):
            ignoresSpaces ? text.string.withoutSpacesAtEnd : text.string
        case .bytes(let bytes): String(decoding: bytes, as: UTF8.self)
        default: nil
        }
    }
}

/// A column with the app or the environment of a row.
package struct PartitionColumn: Hashable, Sendable {
    /// The name as the database spells it.
    package let name: String
    /// Whether it has an integer type.
    package let isInteger: Bool
    /// Whether equality in SQL is equality of characters; if not, rows are compared again after
    /// reading.
    package let isExact: Bool
    /// The column's value for a word of the settings, where they differ.
    package let values: [String: String]

    /// The column's value for an app or environment of the settings. Throws `configuration` for a
    /// word where the column holds numbers.
    package func value(for word: String) throws(StoreFailure) -> SQLValue {
        let text = values[word] ?? word
        guard isInteger else { return .text(text) }
        // Compared with a word, a number column converts the word to 0 and matches every 0.
        guard let number = Int64(text) else {
            throw StoreFailure(
                .configuration,
                "choosing the rows of `\(word)`: column \(name) holds whole numbers, and "
                    + "`\(text.prefix(40))` is none; give the number this column uses "
                    + "(apps.value, or values under environment)")
        }
        return .integer(number)
    }
}
