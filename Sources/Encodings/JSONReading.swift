// Reads one JSON object (RFC 8259) with few and simple members: an answer of APNs, or one of the
// two parts of a provider token.
//
// A wrong time means wrong removals. A general decoder reads 1.7e12 as an integer, uses the last of
// two timestamps without an error, or stops the process on 2^63. So this reader is strict: one
// object, with no bytes after it; a used key occurs at most once; an integer has only digits,
// without fraction, exponent or quotes. Values of other kinds are skipped.

/// The value of a member, in the kinds that readers use.
package enum JSONScalar: Hashable, Sendable {
    /// A string.
    case text(String)
    /// A number written as an integer that fits.
    case integer(Int64)
    /// Any other value.
    case other
}

/// The members of one object in their order.
package struct JSONObject: Sendable {
    private let members: [(key: String, value: JSONScalar)]

    /// Reads the object of the bytes; nil for bytes that are not exactly one object.
    package init?(_ bytes: UnsafeRawBufferPointer) {
        var scanner = JSONScanner(bytes)
        guard let members = Self.members(&scanner), scanner.isAtEnd else { return nil }
        self.members = members
    }

    /// Whether a key occurs several times, so that its value is undefined.
    package func isAmbiguous(_ key: String) -> Bool { members.count { $0.key == key } > 1 }

    /// The value of a key; nil where it is absent.
    package subscript(key: String) -> JSONScalar? { members.first { $0.key == key }?.value }

    private static func members(
        _ scanner: inout JSONScanner
    ) -> [(key: String, value: JSONScalar)]? {
        var members: [(key: String, value: JSONScalar)] = []
        guard scanner.take("{") else { return nil }
        if scanner.take("}") { return [] }
        repeat {
            guard let key = scanner.string(), scanner.take(":"), let value = value(&scanner) else {
                return nil
            }
            members.append((String(decoding: key, as: UTF8.self), value))
        } while scanner.take(",")
        return scanner.take("}") ? members : nil
    }

    private static func value(_ scanner: inout JSONScanner) -> JSONScalar? {
        if scanner.peek() == UInt8(ascii: "\"") {
            return scanner.string().map { .text(String(decoding: $0, as: UTF8.self)) }
        }
        return scanner.skipValue().map { integer($0).map(JSONScalar.integer) ?? .other }
    }

    /// The number, if the value has only digits and fits.
    private static func integer(_ text: Slice<UnsafeRawBufferPointer>) -> Int64? {
        let digits = text.dropFirst(text.first == UInt8(ascii: "-") ? 1 : 0)
        guard digits.allSatisfy(DecimalDigits.isDigit) else { return nil }
        return Int64(String(decoding: text, as: UTF8.self))
    }
}
