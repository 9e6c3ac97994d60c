/// Any value of JSON as a tree, for texts whose form is not known: those of other programs, and documents of our own
/// that are changed as a whole.
///
/// It is read by the strict grammar (RFC 8259). Of a key that stands twice the last value is kept, as with every
/// reader of such a text, so nothing that decides about a row is read by this.
package enum JSONValue: Hashable, Sendable, Encodable {
    case null
    case bool(Bool)
    /// A number that is written as an integer and fits.
    case integer(Int64)
    /// Any other number, rounded; a text with one that no `Double` has is refused.
    case number(Double)
    case text(String)
    case list([JSONValue])
    case object([String: JSONValue])

    /// The deepest nesting that is read.
    package static let deepest = 64

    /// The object or the list that is the whole text; nil for any other text.
    package init?(document bytes: [UInt8]) {
        let value = bytes.withUnsafeBytes { bytes -> JSONValue? in
            var scanner = JSONScanner(bytes)
            guard let value = Self.value(&scanner, depth: 1), scanner.isAtEnd else { return nil }
            return value
        }
        switch value {
        case .list?, .object?: self = value ?? .null
        default: return nil
        }
    }

    private static func value(_ scanner: inout JSONScanner, depth: Int) -> JSONValue? {
        guard depth <= deepest else { return nil }
        switch scanner.peek() {
        case UInt8(ascii: "{"): return object(&scanner, depth: depth)
        case UInt8(ascii: "["): return list(&scanner, depth: depth)
        case UInt8(ascii: "\""): return text(&scanner).map(JSONValue.text)
        default: return scanner.scalar().flatMap { scalar(String(decoding: $0, as: UTF8.self)) }
        }
    }

    private static func text(_ scanner: inout JSONScanner) -> String? {
        scanner.string().flatMap { String(validating: $0, as: UTF8.self) }
    }

    private static func object(_ scanner: inout JSONScanner, depth: Int) -> JSONValue? {
        guard scanner.take("{") else { return nil }
        if scanner.take("}") { return .object([:]) }
        var members: [String: JSONValue] = [:]
        repeat {
            guard let key = text(&scanner), scanner.take(":"),
                let value = value(&scanner, depth: depth + 1)
            else { return nil }
            members[key] = value
        } while scanner.take(",")
        return scanner.take("}") ? .object(members) : nil
    }

    private static func list(_ scanner: inout JSONScanner, depth: Int) -> JSONValue? {
        guard scanner.take("[") else { return nil }
        if scanner.take("]") { return .list([]) }
        var values: [JSONValue] = []
        repeat {
            guard let value = value(&scanner, depth: depth + 1) else { return nil }
            values.append(value)
        } while scanner.take(",")
        return scanner.take("]") ? .list(values) : nil
    }

    private static func scalar(_ word: String) -> JSONValue? {
        switch word {
        case "true": return .bool(true)
        case "false": return .bool(false)
        case "null": return .null
        default:
            if let integer = Int64(word) { return .integer(integer) }
            return Double(word).flatMap { $0.isFinite ? .number($0) : nil }
        }
    }

    /// Writes the value as it was read; a number with a fraction of zero becomes an integer.
    package func encode(to encoder: any Encoder) throws {
        var value = encoder.singleValueContainer()
        switch self {
        case .null: try value.encodeNil()
        case .bool(let bool): try value.encode(bool)
        case .integer(let integer): try value.encode(integer)
        case .number(let number): try value.encode(number)
        case .text(let text): try value.encode(text)
        case .list(let list): try value.encode(list)
        case .object(let object): try value.encode(object)
        }
    }

    /// The value under some keys, one in the other; nil where there is none.
    package subscript(path: [String]) -> JSONValue? {
        path.reduce(self) { value, key in
            if case .object(let members)? = value { members[key] } else { nil }
        }
    }

    /// The text; nil for any other value.
    package var text: String? {
        if case .text(let text) = self { text } else { nil }
    }

    /// The keys of an object; none for any other value.
    package var keys: [String] {
        if case .object(let members) = self { Array(members.keys) } else { [] }
    }
}
