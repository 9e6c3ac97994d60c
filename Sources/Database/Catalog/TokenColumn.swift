import APNsProtocol

// A token is looked up by equality on its column, so that an index serves, and what comes back is
// read again and compared byte by byte: collations merge upper and lower case and ignore spaces at
// the end, and no collation decides here which row is meant.
//
// Hex text whose collation tells case apart is searched in all-lower and all-upper spelling, the two
// that programs write. A row spelled in any other way (groups, angle brackets) is not found; such
// rows are counted by the sample that `check` takes.

/// The token column of the user's table.
package struct TokenColumn: Hashable, Sendable {
    /// The column's name.
    package let name: String
    /// How tokens are spelled in it.
    package let encoding: TokenEncoding
    /// Whether the column has a binary type, so that even hex text is bound as bytes.
    package let isBinary: Bool
    /// Whether equality tells upper from lower case.
    package let tellsCaseApart: Bool

    /// Whether hex text may stand there as text or as bytes, which never equal each other: a column of
    /// SQLite that is not declared to hold text keeps whichever was bound.
    var mixesTextAndBytes = false

    /// How many values a token is searched by.
    package var spellings: Int {
        encoding == .hex ? (tellsCaseApart ? 2 : 1) * (mixesTextAndBytes ? 2 : 1) : 1
    }

    /// Appends the values to search a token by.
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

    /// Whether no search finds a value because it is hex text kept as bytes where text is searched.
    package func isMisplaced(_ value: SQLValue) -> Bool {
        guard encoding == .hex, !isBinary, !mixesTextAndBytes, case .bytes = value else {
            return false
        }
        return token(value) != nil
    }

    /// The token a stored value stands for; nil for NULL, placeholders and anything that is none.
    package func token(_ value: SQLValue) -> DeviceToken? {
        switch (encoding, value) {
        case (.binary, .bytes(let bytes)): DeviceToken(bytes)
        case (.hex, .text(let text)): try? DeviceToken(spelling: text)
        case (.hex, .bytes(let bytes)): try? DeviceToken(spelling: bytes)
        default: nil
        }
    }
}
