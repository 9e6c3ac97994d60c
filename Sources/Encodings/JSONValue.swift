import FoundationEssentials

/// Any value of JSON as a tree, for texts whose form is not known: those of other programs, and documents of our own
/// that are changed as a whole.
///
/// The library decodes it: strict by RFC 8259, nested at most 512 deep. Of a key that stands twice one value is
/// kept, as with every reader of such a text, so nothing that decides about a row is read by this.
package enum JSONValue: Hashable, Sendable, Codable {
    case null
    case bool(Bool)
    /// A number that is written as an integer and fits.
    case integer(Int64)
    /// Any other number, rounded; a text with one that no `Double` has is refused.
    case number(Double)
    case text(String)
    case list([JSONValue])
    case object([String: JSONValue])

    package init(from decoder: any Decoder) throws {
        let value = try decoder.singleValueContainer()
        if value.decodeNil() {
            self = .null
        } else if let text = try? value.decode(String.self) {
            self = .text(text)
        } else if let object = try? value.decode([String: JSONValue].self) {
            self = .object(object)
        } else if let list = try? value.decode([JSONValue].self) {
            self = .list(list)
        } else if let bool = try? value.decode(Bool.self) {
            self = .bool(bool)
        } else if let integer = try? value.decode(Int64.self) {
            self = .integer(integer)
        } else {
            self = .number(try value.decode(Double.self))
        }
    }

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
}

extension JSONValue {
    /// The object or the list that is the whole text; nil for any other text.
    package init?(document bytes: [UInt8]) {
        guard let value = try? JSONDecoder().decode(JSONValue.self, from: Data(bytes)) else {
            return nil
        }
        switch value {
        case .list, .object: self = value
        default: return nil
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
