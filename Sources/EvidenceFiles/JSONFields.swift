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

    /// The text as it is written; nil for a value that has none.
    var bytes: [UInt8]? {
        switch self {
        case .text(let text), .number(let text): text
        case .empty: []
        case .other: nil
        }
    }
}

/// Finds values in one JSON text.
enum JSONFields {
    /// The values at the paths that lead somewhere, and the number of elements of arrays on the path of
    /// the token that it does not enter. The text is read once.
    ///
    /// - Throws: where the text is no JSON, or has a key of a path twice.
    static func values(
        at paths: [ReportField: JSONPath], in json: UnsafeRawBufferPointer
    ) throws(UnreadableField) -> (fields: [ReportField: FieldValue], unread: Int) {
        var scanner = JSONScanner(json)
        var found: [ReportField: FieldValue] = [:]
        var unread = 0
        func enter(
            _ field: ReportField, _ steps: ArraySlice<JSONPath.Step>, _ inside: JSONScanner
        ) throws(UnreadableField) {
            var (inside, beside) = (inside, 0)
            found[field] = try value(steps, &inside, &beside)
            if field == .token { unread = beside }
        }
        guard scanner.peek() == UInt8(ascii: "{") else {
            guard isJSON(json) else { throw .notJSON }
            for (field, path) in paths { try enter(field, path.steps[...], JSONScanner(json)) }
            return (found, unread)
        }
        var seen: Set<ReportField> = []
        var named: Set<ReportField> = []
        _ = scanner.take("{")
        if !scanner.take("}") {
            repeat {
                guard let name = scanner.string(), scanner.take(":") else { throw .notJSON }
                for (field, path) in paths {
                    // Which of two equal keys is meant nobody can know.
                    let twice = UnreadableField.ambiguous(String(decoding: name, as: UTF8.self))
                    if path.steps.count > 1, path.wholeName == name {
                        guard named.insert(field).inserted else { throw twice }
                        try enter(field, [], scanner)
                    }
                    guard path.steps[0] == .key(name) else { continue }
                    guard seen.insert(field).inserted else { throw twice }
                    if !named.contains(field) {
                        try enter(field, path.steps.dropFirst(), scanner)
                    }
                }
                guard scanner.skipValue() != nil else { throw .notJSON }
            } while scanner.take(",")
            guard scanner.take("}") else { throw .notJSON }
        }
        guard scanner.isAtEnd else { throw .notJSON }
        return (found, unread)
    }

    /// The value at steps inside of a text that may hold JSON, nil where they lead nowhere; and the number
    /// of elements of arrays on the way that they do not enter.
    ///
    /// - Throws: where the text has a key of the steps twice.
    static func value(
        at steps: [JSONPath.Step], inText text: [UInt8]
    ) throws(UnreadableField) -> (value: FieldValue?, beside: Int) {
        var found: Result<(FieldValue?, Int), UnreadableField> = .success((nil, 0))
        text.withUnsafeBytes { inner in
            guard isJSON(inner) else { return }
            var (scanner, beside) = (JSONScanner(inner), 0)
            do throws(UnreadableField) {
                let value = try value(steps[...], &scanner, &beside)
                found = .success((value, beside))
            } catch {
                found = .failure(error)
            }
        }
        return try found.get()
    }

    /// Why a line is not one JSON value, as a clause with the command that mends it; `layout` is the one by
    /// which its file is read.
    static func fault(of line: UnsafeRawBufferPointer, _ layout: ReportLayout) -> String {
        var scanner = JSONScanner(line)
        if scanner.skipValue() != nil,
            [UInt8(ascii: "{"), UInt8(ascii: "[")].contains(scanner.peek())
        {
            return "several JSON values stand in it; write each on a line of its own, with: jq -c ."
        }
        if let start = line.firstIndex(of: UInt8(ascii: "{")), start > 0,
            isJSON(UnsafeRawBufferPointer(rebasing: line[start...]))
        {
            return "text stands before its JSON object; cut it off with: "
                + "sed 's/^[^{]*//' FILE | pushsweep import - "
                + layout.options.map(\.shellWord).joined(separator: " ")
        }
        return "it is not one JSON value"
    }

    /// Whether a line is the beginning of an object or array that goes on in the next: it opens more than
    /// it closes, and ends where more has to follow. Another open line may be one that was cut off.
    static func goesOn(_ line: UnsafeRawBufferPointer) -> Bool {
        let (opening, closing, ends) = (Array("{[".utf8), Array("}]".utf8), Array("{[,".utf8))
        guard let first = line.first, let last = line.last, opening.contains(first),
            ends.contains(last)
        else { return false }
        var (open, isText, isEscaped) = (0, false, false)
        for byte in line {
            if isText {
                if byte == UInt8(ascii: "\""), !isEscaped { isText = false }
                isEscaped = byte == UInt8(ascii: "\\") && !isEscaped
            } else if byte == UInt8(ascii: "\"") {
                (isText, isEscaped) = (true, false)
            } else if opening.contains(byte) {
                open += 1
            } else if closing.contains(byte) {
                open -= 1
            }
        }
        return open > 0 && !isText
    }

    /// Whether the bytes are one JSON value.
    static func isJSON(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var scanner = JSONScanner(bytes)
        return scanner.skipValue() != nil && scanner.isAtEnd
    }

    private static func value(
        _ steps: ArraySlice<JSONPath.Step>, _ scanner: inout JSONScanner, _ beside: inout Int
    ) throws(UnreadableField) -> FieldValue? {
        guard let step = steps.first else { return leaf(&scanner) }
        let rest = steps.dropFirst()
        switch scanner.peek() {
        case UInt8(ascii: "{"):
            guard case .key(let key) = step else { return nil }
            return try member(key, rest, &scanner, &beside)
        case UInt8(ascii: "["):
            // A key leads into no element, whatever their number is.
            let index = if case .index(let index) = step { index } else { Int?.none }
            return try element(index, rest, &scanner, &beside)
        case UInt8(ascii: "\""):
            // A string that holds JSON.
            guard let text = scanner.string() else { throw UnreadableField.notJSON }
            let found = try value(at: Array(steps), inText: text)
            beside += found.beside
            return found.value
        default: return nil
        }
    }

    private static func member(
        _ key: [UInt8], _ rest: ArraySlice<JSONPath.Step>, _ scanner: inout JSONScanner,
        _ beside: inout Int
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
                found = try value(rest, &inside, &beside)
            }
            guard scanner.skipValue() != nil else { throw .notJSON }
        } while scanner.take(",")
        guard scanner.take("}") else { throw .notJSON }
        return found
    }

    private static func element(
        _ index: Int?, _ rest: ArraySlice<JSONPath.Step>, _ scanner: inout JSONScanner,
        _ beside: inout Int
    ) throws(UnreadableField) -> FieldValue? {
        var found: FieldValue?
        guard scanner.take("[") else { throw .notJSON }
        if scanner.take("]") { return nil }
        var number = 0
        repeat {
            if number == index {
                var inside = scanner
                found = try value(rest, &inside, &beside)
            }
            guard scanner.skipValue() != nil else { throw .notJSON }
            number += 1
        } while scanner.take(",")
        let isEntered = index.map { $0 < number } ?? false
        beside += isEntered ? number - 1 : number
        return found
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
