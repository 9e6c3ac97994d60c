// Finds the fields of a report in one JSON text, which is read once and in place: a log has millions of
// lines, and most of what stands in them is stepped over.

import Encodings
import TokenHygiene

/// A value of a record, as far as a report needs it.
enum FieldValue {
    /// A string or the text of a CSV field, UTF-8.
    case text(TextBytes)
    /// A JSON number as it is written.
    case number(TextBytes)
    /// `null` or an empty CSV field.
    case empty
    /// Any other value.
    case other

    /// The text as it is written; nil for a value that has none.
    var bytes: TextBytes? {
        switch self {
        case .text(let text), .number(let text): text
        case .empty: .apart([])
        case .other: nil
        }
    }

    /// The value without the bytes that it stands in.
    fileprivate var kept: FieldValue {
        switch self {
        case .text(let text): .text(.apart(text.array))
        case .number(let text): .number(.apart(text.array))
        case .empty, .other: self
        }
    }
}

/// The values of one record by field.
struct FieldValues {
    private var values = InlineArray<6, FieldValue?>(repeating: nil)
    /// Number of elements of arrays on the path of the token that it does not enter.
    var unread = 0

    /// The value of a field; nil where its path leads nowhere.
    subscript(field: ReportField) -> FieldValue? {
        get { values[field.place] }
        set { values[field.place] = newValue }
    }
}

extension ReportField {
    /// The place of the field among all.
    fileprivate var place: Int {
        switch self {
        case .token: 0
        case .time: 1
        case .sent: 2
        case .status: 3
        case .reason: 4
        case .platform: 5
        }
    }
}

/// The paths of a map as each line is searched for them. What is compared with each key of each line
/// stands together, in values that no reference count belongs to.
struct FieldPaths {
    /// A key that is looked for.
    fileprivate struct Name {
        /// Its path.
        let path: Int
        /// Whether it is the path as one key, and not its first step.
        let isWhole: Bool
        /// Its bytes in `keys`.
        let start, count: Int
    }

    fileprivate let paths: [(field: ReportField, path: JSONPath)]
    /// In the order of the paths, each path as one key first.
    fileprivate let names: [Name]
    private let keys: [UInt8]
    /// The lengths of the names, a bit for each; those from 63 on share one.
    private let lengths: UInt64

    init(_ map: FieldMap) {
        paths = map.paths.map { ($0.key, $0.value) }
        var (names, keys, lengths) = ([Name](), [UInt8](), UInt64(0))
        func add(_ key: [UInt8], isWhole: Bool, _ path: Int) {
            names.append(
                Name(path: path, isWhole: isWhole, start: keys.count, count: key.count))
            keys += key
            lengths |= Self.bit(key.count)
        }
        for (number, path) in map.paths.values.enumerated() {
            if path.steps.count > 1 { add(path.wholeName, isWhole: true, number) }
            if case .key(let key) = path.steps[0] { add(key, isWhole: false, number) }
        }
        (self.names, self.keys, self.lengths) = (names, keys, lengths)
    }

    private static func bit(_ length: Int) -> UInt64 { 1 << UInt64(min(length, 63)) }

    /// Passes the names that a key is to a body, in their order.
    fileprivate func forEach(
        _ key: TextBytes, _ body: (Name) throws(UnusableReport) -> Void
    ) throws(UnusableReport) {
        let length = key.count
        guard lengths & Self.bit(length) != 0 else { return }
        for name in names
        where name.count == length && key == keys[name.start..<(name.start + length)] {
            try body(name)
        }
    }
}

/// Finds values in one JSON text.
enum JSONFields {
    /// The values at the paths that lead somewhere. They stand in the text.
    ///
    /// - Throws: where the text is no JSON, or has a key of a path twice.
    static func values(
        at paths: FieldPaths, in json: UnsafeRawBufferPointer
    ) throws(UnusableReport) -> FieldValues {
        var scanner = JSONScanner(json)
        var found = FieldValues()
        guard scanner.take("{") else {
            guard isJSON(json) else { throw .notJSON }
            for (field, path) in paths.paths {
                try enter(field, path.steps[...], of: path, JSONScanner(json), &found)
            }
            return found
        }
        // The paths whose first key was there, and those that were there as one key; a bit each.
        var (seen, named) = (UInt(0), UInt(0))
        if !scanner.take("}") {
            repeat {
                guard let key = scanner.text(), scanner.take(":") else { throw .notJSON }
                try paths.forEach(key) { name throws(UnusableReport) in
                    let bit = UInt(1) << UInt(name.path)
                    // Which of two equal keys is meant nobody can know.
                    guard (name.isWhole ? named : seen) & bit == 0 else {
                        throw .ambiguous(key.string)
                    }
                    let (field, path) = paths.paths[name.path]
                    if name.isWhole {
                        named |= bit
                        try enter(field, [], of: path, scanner, &found)
                    } else {
                        seen |= bit
                        guard named & bit == 0 else { return }
                        try enter(field, path.steps.dropFirst(), of: path, scanner, &found)
                    }
                }
                guard scanner.skipValue() != nil else { throw .notJSON }
            } while scanner.take(",")
            guard scanner.take("}") else { throw .notJSON }
        }
        guard scanner.isAtEnd else { throw .notJSON }
        return found
    }

    private static func enter(
        _ field: ReportField, _ steps: ArraySlice<JSONPath.Step>, of path: JSONPath,
        _ scanner: JSONScanner, _ found: inout FieldValues
    ) throws(UnusableReport) {
        var (inside, beside) = (scanner, 0)
        found[field] = try value(steps, of: path, &inside, &beside)
        if field == .token { found.unread = beside }
    }

    /// The value at the last steps of a path inside of a text that may hold JSON, nil where they lead
    /// nowhere; and the number of elements of arrays on the way that they do not enter.
    ///
    /// - Throws: where the text has a key of the steps twice, or holds a JSON object that was cut off or that
    ///   other text stands beside.
    static func value(
        at steps: ArraySlice<JSONPath.Step>, of path: JSONPath, inText text: TextBytes
    ) throws(UnusableReport) -> (value: FieldValue?, beside: Int) {
        var found: Result<(FieldValue?, Int), UnusableReport> = .success((nil, 0))
        text.withBytes { inner in
            do throws(UnusableReport) {
                guard isJSON(inner) else { return try refuseObject(in: inner, steps, of: path) }
                var (scanner, beside) = (JSONScanner(inner), 0)
                let value = try value(steps, of: path, &scanner, &beside)
                found = .success((value?.kept, beside))
            } catch {
                found = .failure(error)
            }
        }
        return try found.get()
    }

    // A text that is not JSON is of another kind and says nothing, unless it holds an object that a field is
    // looked for in. What such an object says was given, and a stranger may have written the text around it:
    // so it counts neither as evidence nor as nothing.

    /// The most objects in a text that are looked at.
    private static let mostTried = 16

    /// Refuses a text that is not JSON, where it begins an object that it does not end, or has an object
    /// into which the steps lead beside other text.
    private static func refuseObject(
        in text: UnsafeRawBufferPointer, _ steps: ArraySlice<JSONPath.Step>, of path: JSONPath
    ) throws(UnusableReport) {
        let spelled = steps.startIndex == 0 ? "." : path.jq(steps.startIndex)
        guard case .key(let key) = steps.first else {
            guard isCutArray(text) else { return }
            throw .nested(path: spelled, isCut: true)
        }
        var isAtStart = true
        for start in objects(in: text) {
            var scanner = JSONScanner(UnsafeRawBufferPointer(rebasing: text[start...]))
            if let object = scanner.skipValue() {
                var (inside, beside) = (
                    JSONScanner(UnsafeRawBufferPointer(rebasing: object)), 0
                )
                guard try value(steps, of: path, &inside, &beside) == nil else {
                    throw .nested(path: spelled, isCut: false)
                }
            } else if isAtStart && text[..<start].allSatisfy({ $0 <= UInt8(ascii: " ") })
                || text[start...].contains(sequence: key)
            {
                throw .nested(path: spelled, isCut: true)
            }
            isAtStart = false
        }
    }

    /// Whether a text begins an array of objects or arrays and does not end it.
    private static func isCutArray(_ text: UnsafeRawBufferPointer) -> Bool {
        let first = text.lazy.filter { $0 > UInt8(ascii: " ") }.prefix(2)
        var scanner = JSONScanner(text)
        return first.elementsEqual(Array("[{".utf8)) && scanner.skipValue() == nil
            || first.elementsEqual(Array("[[".utf8)) && scanner.skipValue() == nil
    }

    /// Where objects with a member, or with their end missing, seem to begin in a text; the first few.
    private static func objects(in text: UnsafeRawBufferPointer) -> [Int] {
        var starts: [Int] = []
        for place in text.indices
        where text[place] == UInt8(ascii: "{") && starts.count < mostTried {
            let next = text[(place + 1)...].first { $0 > UInt8(ascii: " ") }
            if next == nil || next == UInt8(ascii: "\"") { starts.append(place) }
        }
        return starts
    }

    /// Why a line is not one JSON value, with the command that mends it; `layout` is the one by which its
    /// file is read.
    static func fault(of line: UnsafeRawBufferPointer, _ layout: ReportLayout) -> UnusableReport {
        var scanner = JSONScanner(line)
        if scanner.skipValue() != nil,
            [UInt8(ascii: "{"), UInt8(ascii: "[")].contains(scanner.peek())
        {
            return .form(
                "several JSON values stand in it",
                cure: "write each on a line of its own, with: jq -c .")
        }
        if let start = line.firstIndex(of: UInt8(ascii: "{")), start > 0,
            isJSON(UnsafeRawBufferPointer(rebasing: line[start...]))
        {
            return .form(
                "text stands before its JSON object",
                cure: "cut it off with: sed 's/^[^{]*//' FILE | pushsweep import - "
                    + layout.options.map(\.shellWord).joined(separator: " "))
        }
        if let start = objects(in: line).first, start > 0,
            isJSON(UnsafeRawBufferPointer(rebasing: line[start...]))
        {
            // Braces of another kind stand before it.
            return .form(
                "text stands before its JSON object",
                cure: #"cut it off with: grep -o '{".*' FILE | pushsweep import - "#
                    + layout.options.map(\.shellWord).joined(separator: " "))
        }
        let isObject = line.first == UInt8(ascii: "{")
        return .form(
            isObject
                ? "it begins a JSON object and is not one JSON value" : "it is not one JSON value",
            cure: nil)
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
        _ steps: ArraySlice<JSONPath.Step>, of path: JSONPath, _ scanner: inout JSONScanner,
        _ beside: inout Int
    ) throws(UnusableReport) -> FieldValue? {
        guard let step = steps.first else { return leaf(&scanner) }
        let rest = steps.dropFirst()
        switch scanner.peek() {
        case UInt8(ascii: "{"):
            guard case .key(let key) = step else { return nil }
            return try member(key, rest, of: path, &scanner, &beside)
        case UInt8(ascii: "["):
            // A key leads into no element, whatever their number is.
            let index = if case .index(let index) = step { index } else { Int?.none }
            return try element(index, rest, of: path, &scanner, &beside)
        case UInt8(ascii: "\""):
            // A string that holds JSON.
            guard let text = scanner.text() else { throw UnusableReport.notJSON }
            let found = try value(at: steps, of: path, inText: text)
            beside += found.beside
            return found.value
        default: return nil
        }
    }

    private static func member(
        _ key: [UInt8], _ rest: ArraySlice<JSONPath.Step>, of path: JSONPath,
        _ scanner: inout JSONScanner, _ beside: inout Int
    ) throws(UnusableReport) -> FieldValue? {
        var found: FieldValue?
        var isFound = false
        guard scanner.take("{") else { throw .notJSON }
        if scanner.take("}") { return nil }
        repeat {
            guard let name = scanner.text(), scanner.take(":") else { throw .notJSON }
            if name == key[...] {
                // Which of two equal keys is meant nobody can know.
                guard !isFound else { throw .ambiguous(String(decoding: key, as: UTF8.self)) }
                isFound = true
                var inside = scanner
                found = try value(rest, of: path, &inside, &beside)
            }
            guard scanner.skipValue() != nil else { throw .notJSON }
        } while scanner.take(",")
        guard scanner.take("}") else { throw .notJSON }
        return found
    }

    private static func element(
        _ index: Int?, _ rest: ArraySlice<JSONPath.Step>, of path: JSONPath,
        _ scanner: inout JSONScanner, _ beside: inout Int
    ) throws(UnusableReport) -> FieldValue? {
        var found: FieldValue?
        guard scanner.take("[") else { throw .notJSON }
        if scanner.take("]") { return nil }
        var number = 0
        repeat {
            if number == index {
                var inside = scanner
                found = try value(rest, of: path, &inside, &beside)
            }
            guard scanner.skipValue() != nil else { throw .notJSON }
            number += 1
        } while scanner.take(",")
        let isEntered = index.map { $0 < number } ?? false
        beside += isEntered ? number - 1 : number
        return found
    }

    private static func leaf(_ scanner: inout JSONScanner) -> FieldValue? {
        if scanner.peek() == UInt8(ascii: "\"") { return scanner.text().map(FieldValue.text) }
        guard let bytes = scanner.scalar() else { return .other }
        switch bytes.first {
        case UInt8(ascii: "n"): return .empty
        case UInt8(ascii: "t"), UInt8(ascii: "f"): return .other
        default: return .number(.inPlace(UnsafeRawBufferPointer(rebasing: bytes)))
        }
    }
}

extension UnusableReport {
    /// The fault itself is looked for where somebody reads it: `JSONFields.fault`.
    static let notJSON = UnusableReport.line("it is not JSON")

    static func ambiguous(_ key: String) -> UnusableReport {
        .line("it has the key '\(key)' twice")
    }
}

extension Slice<UnsafeRawBufferPointer> {
    /// Whether some bytes stand in these.
    fileprivate func contains(sequence: [UInt8]) -> Bool {
        indices.contains { self[$0...].starts(with: sequence) }
    }
}
