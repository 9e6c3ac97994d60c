// Reads one JSON object (RFC 8259) of few and simple members: the answers of APNs, and the two
// halves of a provider token.
//
// Where a wrong time means wrong removals, "roughly JSON" is not good enough: a general decoder
// turns 1.7e12 into an integer, takes the last of two timestamps without a word, or stops the
// process on 2^63. So the rules are ours and strict: one object, nothing after it; a key that is
// asked for is there at most once; an integer is digits, without fraction, exponent or quotes.
// Values of other kinds are stepped over.

/// The value of a member, as far as a reader needs it.
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

    /// Reads the one object that the bytes are; nil where they are anything else.
    package init?(_ bytes: UnsafeRawBufferPointer) {
        var scanner = JSONScanner(bytes)
        guard let members = Self.members(&scanner), scanner.isAtEnd else { return nil }
        self.members = members
    }

    /// Whether a key is there several times, so that no reader can know which one is meant.
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

    /// The number, if this value is one in digits and fits.
    private static func integer(_ text: Slice<UnsafeRawBufferPointer>) -> Int64? {
        let isNegative = text.first == UInt8(ascii: "-")
        var value: Int64 = 0
        for byte in text.dropFirst(isNegative ? 1 : 0) {
            guard DecimalDigits.isDigit(byte) else { return nil }
            let (tens, overflow) = value.multipliedReportingOverflow(by: 10)
            let (sum, carried) = tens.addingReportingOverflow(Int64(byte - UInt8(ascii: "0")))
            guard !overflow, !carried else { return nil }
            value = sum
        }
        return isNegative ? -value : value
    }
}
