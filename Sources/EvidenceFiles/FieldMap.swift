// Names the fields of a report in lines of any form, as `--map` gives them:
//
//   token=.device,time=.timestamp,status=.status,reason=.reason,platform=.os=ios|ipados
//
// The platform alone has more than a path: behind a second sign of equality the words of Apple's platforms.
//
// A path of JSON has keys and indexes, `.delivery.attempts[0].code`. A string that holds JSON is
// entered like an object, since logs often carry the body of an answer as text
// (`.providerResponse.timestamp`). A name with dots comes first: where a column, or a key of the
// outermost object, is called `delivery.token`, the path `delivery.token` means it. Inside of a path
// such a key is written `.log["delivery.token"]`. Columns of CSV have a name from the first line, or a
// number from 1; with a number the file has no line of names.

import Encodings

/// The parts of a report that a field can hold.
package enum ReportField: String, Hashable, Sendable, CaseIterable {
    case token
    /// The time that APNs named in its 410.
    case time
    /// The time at which the notification was sent.
    case sent
    /// The status of the answer.
    case status
    /// The reason of the answer.
    case reason
    /// The platform of the token.
    case platform
}

/// A way to a value inside JSON.
package struct JSONPath: Hashable, Sendable {
    /// One step of the way.
    package enum Step: Hashable, Sendable {
        /// Into the member with this key, UTF-8.
        case key([UInt8])
        /// To the element with this number, from 0.
        case index(Int)
    }

    /// Each step costs stack. JSON is read to a depth of 32, and strings in it may hold more.
    private static let mostSteps = 100

    /// The steps in order, at least one.
    let steps: [Step]
    /// The path as it was written.
    let text: String

    /// Parses `.key.key[0]["key.with.dots"]`, with or without the first point.
    ///
    /// - Throws: where a step is empty or an index is no number.
    package init(_ text: String) throws(UnreadableFile) {
        let rest = Array(text.utf8)[...]
        self.text = text
        steps = try Self.steps(rest.first == UInt8(ascii: ".") ? rest.dropFirst() : rest, of: text)
        guard !steps.isEmpty else { throw Self.refusal(text, "an empty key") }
        guard steps.count <= Self.mostSteps else {
            throw Self.refusal(text, "more than \(Self.mostSteps) steps")
        }
    }

    /// The path to one key of the outermost object, UTF-8.
    init(key: [UInt8]) {
        (steps, text) = ([.key(key)], String(decoding: key, as: UTF8.self))
    }

    /// The path as the name of one column or key.
    var wholeName: [UInt8] {
        if steps.count == 1, case .key(let key) = steps[0] { return key }
        return Array(text.hasPrefix(".") ? text.utf8.dropFirst() : text.utf8[...])
    }

    /// The steps that follow a name with which this path begins; nil where it does not.
    func steps(after name: [UInt8]) -> [Step]? {
        let whole = wholeName
        guard !name.isEmpty, whole.count > name.count, whole.starts(with: name) else { return nil }
        let rest = whole[name.count...]
        switch rest.first {
        case UInt8(ascii: "."): return try? Self.steps(rest.dropFirst(), of: text)
        case UInt8(ascii: "["): return try? Self.steps(rest, of: text)
        default: return nil
        }
    }

    private static func steps(
        _ path: ArraySlice<UInt8>, of text: String
    ) throws(UnreadableFile) -> [Step] {
        var steps: [Step] = []
        var rest = path
        while !rest.isEmpty {
            if rest.starts(with: Array("[\"".utf8)) {
                rest.removeFirst(2)
                guard let quote = rest.firstIndex(of: UInt8(ascii: "\"")), quote > rest.startIndex,
                    rest[(quote + 1)...].first == UInt8(ascii: "]")
                else { throw refusal(text, "a key in quotes that is empty or does not end") }
                steps.append(.key(Array(rest[..<quote])))
                rest = rest[(quote + 2)...]
            } else if rest.first == UInt8(ascii: "[") {
                let end = rest.firstIndex(of: UInt8(ascii: "]")) ?? rest.startIndex
                let digits = rest[rest.startIndex..<end].dropFirst()
                guard let number = Int(String(decoding: digits, as: UTF8.self)), number >= 0 else {
                    throw refusal(text, "an index that is no number")
                }
                steps.append(.index(number))
                rest = rest[(end + 1)...]
            } else {
                let end = rest.firstIndex { $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "[") }
                let key = rest[..<(end ?? rest.endIndex)]
                guard !key.isEmpty else { throw refusal(text, "an empty key") }
                steps.append(.key(Array(key)))
                rest = rest[key.endIndex...]
            }
            guard rest.first == UInt8(ascii: ".") else { continue }
            rest.removeFirst()
            guard !rest.isEmpty else { throw refusal(text, "an empty key") }
        }
        return steps
    }

    /// The first steps as jq writes them.
    func jq(_ count: Int) -> String {
        steps.prefix(count).reduce(into: "") { text, step in
            switch step {
            case .index(let index): text += (text.isEmpty ? "." : "") + "[\(index)]"
            case .key(let key):
                let isPlain =
                    key.allSatisfy { byte in
                        DecimalDigits.isDigit(byte) || byte == UInt8(ascii: "_")
                            || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
                    } && key.first.map(DecimalDigits.isDigit) == false
                var quoted: [UInt8] = []
                JSONText.append(String(decoding: key, as: UTF8.self), to: &quoted)
                text +=
                    isPlain
                    ? "." + String(decoding: key, as: UTF8.self)
                    : (text.isEmpty ? "." : "") + "[\(String(decoding: quoted, as: UTF8.self))]"
            }
        }
    }

    private static func refusal(_ text: String, _ mistake: String) -> UnreadableFile {
        UnreadableFile.map("the path '\(text)' has \(mistake)")
    }
}

/// The fields of a report and where they are.
package struct FieldMap: Hashable, Sendable {
    /// The paths by field; a token is always there.
    package let paths: [ReportField: JSONPath]
    /// The words of Apple's platforms, UTF-8; none where no platform is mapped.
    let applePlatforms: [[UInt8]]

    /// The fields as our own table names its columns.
    package static let standard = fixed([
        .token: ".device_token", .time: ".timestamp_ms", .sent: ".sent_at", .status: ".status",
        .reason: ".reason",
    ])

    private init(paths: [ReportField: JSONPath], applePlatforms: [[UInt8]]) {
        (self.paths, self.applePlatforms) = (paths, applePlatforms)
    }

    /// A map of paths that this program writes itself, each of them whole.
    static func fixed(
        _ paths: [ReportField: String], applePlatforms: [String] = []
    ) -> FieldMap {
        FieldMap(
            paths: paths.compactMapValues { try? JSONPath($0) },
            applePlatforms: applePlatforms.map { Array($0.utf8) })
    }

    /// Parses the value of `--map`.
    ///
    /// - Throws: for unknown fields, repeated fields, and a mapping without a token.
    package init(_ text: String) throws(UnreadableFile) {
        var (paths, platforms) = ([ReportField: JSONPath](), [[UInt8]]())
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            let halves = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = halves[0].trimmed
            guard halves.count == 2, let field = ReportField(rawValue: name) else {
                throw UnreadableFile.map(
                    "'\(part)' is not FIELD=PATH with a field of "
                        + ReportField.allCases.map(\.rawValue).joined(separator: ", "))
            }
            guard paths[field] == nil else {
                throw UnreadableFile.map("the field \(name) is given twice")
            }
            var path = halves[1].trimmed
            if field == .platform { platforms = try Self.platforms(cutOff: &path) }
            paths[field] = try JSONPath(path)
        }
        guard paths[.token] != nil else {
            throw UnreadableFile.map("it has no token=PATH")
        }
        (self.paths, applePlatforms) = (paths, platforms)
    }

    /// Cuts the words of Apple's platforms off the end of `PATH=WORD|WORD`.
    private static func platforms(cutOff path: inout String) throws(UnreadableFile) -> [[UInt8]] {
        let bytes = Array(path.utf8)
        let words =
            bytes.lastIndex(of: UInt8(ascii: "=")).map { place in
                bytes[(place + 1)...].split(
                    separator: UInt8(ascii: "|"), omittingEmptySubsequences: false)
            } ?? []
        guard let first = words.first, words.allSatisfy({ !$0.isEmpty }) else {
            throw UnreadableFile.map(
                "'platform=\(path)' does not say which values are Apple's; write them behind the path, as "
                    + "in platform=.platform=ios or platform=.os=ios|ipados")
        }
        path = String(decoding: bytes[..<(first.startIndex - 1)], as: UTF8.self)
        return words.map(Array.init)
    }

    /// Whether a value of the platform's field is the word of another platform than Apple's.
    func isOtherPlatform(_ word: TextBytes) -> Bool {
        word.count > 0 && !applePlatforms.contains { word == $0[...] }
    }

    /// The value of `--map` that gives this map, the same text for the same map.
    package var text: String {
        paths.map { field, path in
            let words = applePlatforms.map { String(decoding: $0, as: UTF8.self) }
            let values = field == .platform ? "=" + words.joined(separator: "|") : ""
            return "\(field.rawValue)=\(path.text)\(values)"
        }.sorted().joined(separator: ",")
    }

    /// Whether a line can tell which answer it is about. Without both fields every line is a 410.
    package var namesAnswer: Bool { paths[.status] != nil || paths[.reason] != nil }
}

extension Substring {
    fileprivate var trimmed: String {
        var text = self
        while text.first == " " { text.removeFirst() }
        while text.last == " " { text.removeLast() }
        return String(text)
    }
}
