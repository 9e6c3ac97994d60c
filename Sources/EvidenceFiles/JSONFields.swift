import Encodings

/// A value of a record, as far as a report needs it.
enum FieldValue: Hashable, Sendable {
    /// A string or the text of a CSV field, UTF-8.
    case text([UInt8])
    /// A JSON number as it is written.
    case number([UInt8])
    /// `null` or an empty CSV field.
    case empty
    /// Any other value.
    case other
}

/// Finds values in one JSON text.
enum JSONFields {
    /// The values at the paths that lead somewhere. The text is read once.
    ///
    /// - Throws: where the text is no JSON, or has a key of a path twice.
    static func values(
        at paths: [ReportField: JSONPath], in json: UnsafeRawBufferPointer
    ) throws(UnreadableField) -> [ReportField: FieldValue] {
        var scanner = JSONScanner(json)
        var found: [ReportField: FieldValue] = [:]
        guard scanner.peek() == UInt8(ascii: "{") else {
            guard isJSON(json) else { throw .notJSON }
            for (field, path) in paths {
                var inside = JSONScanner(json)
                found[field] = try value(path.steps[...], &inside)
            }
            return found
        }
        var seen: Set<ReportField> = []
        _ = scanner.take("{")
        if !scanner.take("}") {
            repeat {
                guard let name = scanner.string(), scanner.take(":") else { throw .notJSON }
                for (field, path) in paths {
                    guard case .key(let key) = path.steps[0], key == name else { continue }
                    // Which of two equal keys is meant nobody can know.
                    guard seen.insert(field).inserted else {
                        throw .ambiguous(String(decoding: key, as: UTF8.self))
                    }
                    var inside = scanner
                    found[field] = try value(path.steps.dropFirst(), &inside)
                }
                guard scanner.skipValue() != nil else { throw .notJSON }
            } while scanner.take(",")
            guard scanner.take("}") else { throw .notJSON }
        }
        guard scanner.isAtEnd else { throw .notJSON }
        return found
    }

    /// Whether the bytes are one JSON value.
    static func isJSON(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var scanner = JSONScanner(bytes)
        return scanner.skipValue() != nil && scanner.isAtEnd
    }

    private static func value(
        _ steps: ArraySlice<JSONPath.Step>, _ scanner: inout JSONScanner
    ) throws(UnreadableField) -> FieldValue? {
        guard let step = steps.first else { return leaf(&scanner) }
        let rest = steps.dropFirst()
        switch scanner.peek() {
        case UInt8(ascii: "{"):
            guard case .key(let key) = step else { return nil }
            return try member(key, rest, &scanner)
        case UInt8(ascii: "["):
            guard case .index(let index) = step else { return nil }
            return try element(index, rest, &scanner)
        case UInt8(ascii: "\""):
            // A string that holds JSON.
            guard let text = scanner.string() else { throw UnreadableField.notJSON }
            var found: Result<FieldValue?, UnreadableField> = .success(nil)
            text.withUnsafeBytes { inner in
                guard isJSON(inner) else { return }
                var scanner = JSONScanner(inner)
                do throws(UnreadableField) {
                    found = .success(try value(steps, &scanner))
                } catch {
                    found = .failure(error)
                }
            }
            return try found.get()
        default: return nil
        }
    }

    private static func member(
        _ key: [UInt8], _ rest: ArraySlice<JSONPath.Step>, _ scanner: inout JSONScanner
    ) throws(UnreadableField) -> FieldValue? {
        var found: FieldValue?
        var isFound = false
        guard scanner.take("{") else { throw .notJSON }
        if scanner.take("}") { return nil }
        repeat {
            guard let name = scanner.string(), scanner.take(":") else { throw .notJSON }
            if name == key {
                // Which of two equal keys is meant nobody can know.
                guard !isFound else { throw .ambiguous(String(decoding: key, as: UTF8.self)) }
                isFound = true
                var inside = scanner
                found = try value(rest, &inside)
            }
            guard scanner.skipValue() != nil else { throw .notJSON }
        } while scanner.take(",")
        guard scanner.take("}") else { throw .notJSON }
        return found
    }

    private static func element(
        _ index: Int, _ rest: ArraySlice<JSONPath.Step>, _ scanner: inout JSONScanner
    ) throws(UnreadableField) -> FieldValue? {
        guard scanner.take("[") else { throw .notJSON }
        if scanner.take("]") { return nil }
        var number = 0
        repeat {
            if number == index { return try value(rest, &scanner) }
            guard scanner.skipValue() != nil else { throw .notJSON }
            number += 1
        } while scanner.take(",")
        return nil
    }

    private static func leaf(_ scanner: inout JSONScanner) -> FieldValue? {
        if scanner.peek() == UInt8(ascii: "\"") { return scanner.string().map(FieldValue.text) }
        guard let bytes = scanner.scalar() else { return .other }
        switch bytes.first {
        case UInt8(ascii: "n"): return .empty
        case UInt8(ascii: "t"), UInt8(ascii: "f"): return .other
        default: return .number(Array(bytes))
        }
    }
}

/// Why a field cannot be found.
enum UnreadableField: Error, Hashable, Sendable {
    /// The line is no JSON.
    case notJSON
    /// A key is there twice.
    case ambiguous(String)
}
