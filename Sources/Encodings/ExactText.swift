// Swift takes Strings with the same letters for equal, whatever their bytes: é as one code point and as
// e with an accent behind it are one key of a Dictionary. To a database with a binary collation, to SQLite
// and to every file they are two. So text that names something outside of this program (a row's key, a
// column, an app) is never compared as a String.

/// Text from outside, whose identity and order are those of its bytes in UTF-8.
package struct ExactText: Hashable, Comparable, Sendable {
    /// The text for reading and writing. Two of these may be equal where the texts differ.
    package let string: String

    /// Takes a text as it is, without normalizing it.
    @inlinable
    package init(_ string: some StringProtocol) { self.string = String(string) }

    /// The bytes.
    package var utf8: String.UTF8View { string.utf8 }
    /// Whether there is no byte.
    package var isEmpty: Bool { string.isEmpty }

    /// Whether the bytes are the same.
    package static func == (one: ExactText, other: ExactText) -> Bool {
        one.string.isExactly(other.string)
    }

    /// Whether the bytes come first, as with `memcmp`.
    package static func < (one: ExactText, other: ExactText) -> Bool {
        one.utf8.lexicographicallyPrecedes(other.utf8)
    }

    /// Feeds the bytes to a hasher.
    package func hash(into hasher: inout Hasher) {
        var text = string
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        // No UTF-8 has this byte, so the text ends here.
        hasher.combine(UInt8.max)
    }
}

extension ExactText: ExpressibleByStringInterpolation, CustomStringConvertible {
    package init(stringLiteral value: String) { self.init(value) }
    package var description: String { string }
}

extension String {
    /// Whether another text has the same bytes.
    package func isExactly(_ other: String) -> Bool { utf8.elementsEqual(other.utf8) }

    /// The beginning of at most `count` bytes, without a scalar that is cut through.
    package func prefix(bytes count: Int) -> String {
        guard utf8.count > count else { return self }
        var end = utf8.index(startIndex, offsetBy: max(count, 0))
        while end > startIndex, unicodeScalars.index(where: end) == nil {
            end = utf8.index(before: end)
        }
        return String(self[..<end])
    }
}

extension String.UnicodeScalarView {
    /// The place itself where a scalar begins there; nil inside of one.
    fileprivate func index(where place: Index) -> Index? { Index(place, within: self) }
}

extension Collection<String> {
    /// The place of the first text with the same bytes; nil without one.
    package func firstIndex(exactly text: String) -> Index? {
        firstIndex { $0.isExactly(text) }
    }

    /// Whether one of the texts has the same bytes.
    package func contains(exactly text: String) -> Bool { firstIndex(exactly: text) != nil }
}
