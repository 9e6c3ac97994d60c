// Names the fields of a report in lines of any form, as `--map` gives them:
//
//   token=.device,time=.timestamp,status=.status,reason=.reason
//
// A path of JSON has keys and indexes, `.delivery.attempts[0].code`. A string that holds JSON is
// entered like an object, since logs often carry the body of an answer as text
// (`.providerResponse.timestamp`). Columns of CSV have a name from the first line, or a number from 1;
// with a number the file has no line of names.

/// The parts of a report that a field can hold.
package enum ReportField: String, Hashable, Sendable, CaseIterable {
    /// The device token.
    case token
    /// The time that APNs named in its 410.
    case time
    /// The time at which the notification was sent.
    case sent
    /// The status of the answer.
    case status
    /// The reason of the answer.
    case reason
}

/// Why a mapping cannot be used, as a clause.
package struct FieldMapRefusal: Error, Hashable, Sendable, CustomStringConvertible {
    /// The clause.
    package let description: String
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

    /// The steps in order, at least one.
    package let steps: [Step]
    /// The path as it was written.
    package let text: String

    /// Parses `.key.key[0]`, with or without the first point.
    ///
    /// - Throws: where a step is empty or an index is no number.
    package init(_ text: String) throws(FieldMapRefusal) {
        var steps: [Step] = []
        let keys = text.hasPrefix(".") ? text.dropFirst() : text[...]
        for part in keys.split(separator: ".", omittingEmptySubsequences: false) {
            let pieces = part.split(separator: "[", omittingEmptySubsequences: false)
            let name = pieces.first ?? ""
            guard !name.isEmpty || (steps.isEmpty && pieces.count > 1) else {
                throw FieldMapRefusal(description: "the path '\(text)' has an empty key")
            }
            if !name.isEmpty { steps.append(.key(Array(name.utf8))) }
            for piece in pieces.dropFirst() {
                guard piece.last == "]", let number = Int(piece.dropLast()), number >= 0 else {
                    throw FieldMapRefusal(
                        description: "the path '\(text)' has an index that is no number")
                }
                steps.append(.index(number))
            }
        }
        self.steps = steps
        self.text = text
    }
}

/// The fields of a report and where they are.
package struct FieldMap: Hashable, Sendable {
    /// The paths by field; a token is always there.
    package let paths: [ReportField: JSONPath]

    /// The fields as our own table names its columns.
    package static let standard: FieldMap = {
        let names: [(ReportField, String)] = [
            (.token, ".device_token"), (.time, ".timestamp_ms"), (.sent, ".sent_at"),
            (.status, ".status"), (.reason, ".reason"),
        ]
        return FieldMap(
            paths: Dictionary(
                uniqueKeysWithValues: names.compactMap { field, text in
                    (try? JSONPath(text)).map { (field, $0) }
                }))
    }()

    private init(paths: [ReportField: JSONPath]) { self.paths = paths }

    /// Parses the value of `--map`.
    ///
    /// - Throws: for unknown fields, repeated fields, and a mapping without a token.
    package init(_ text: String) throws(FieldMapRefusal) {
        var paths: [ReportField: JSONPath] = [:]
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            let halves = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = halves[0].trimmed
            guard halves.count == 2, let field = ReportField(rawValue: name) else {
                throw FieldMapRefusal(
                    description: "'\(part)' is not FIELD=PATH with a field of "
                        + ReportField.allCases.map(\.rawValue).joined(separator: ", "))
            }
            guard paths[field] == nil else {
                throw FieldMapRefusal(description: "the field \(name) is given twice")
            }
            paths[field] = try JSONPath(halves[1].trimmed)
        }
        guard paths[.token] != nil else {
            throw FieldMapRefusal(description: "it has no token=PATH")
        }
        self.paths = paths
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
