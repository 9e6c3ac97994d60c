// Reads the answers of APNs out of the log or export of another sender:
//
//   bytes -> gunzip, if they are gzip -> lines or rows -> fields by the map -> ReportedAnswer
//
// Memory stays flat however long the file is. A line of JSON stands on its own: one that cannot be
// read is passed on with the reason, and the reader goes on with the next. A CSV file counts whole or
// not at all (see `CSVParser`): after a fault the caller drops what it was given before.

import APNsProtocol
import Database
import Encodings
import TokenHygiene

/// The form of a file.
package enum ReportFormat: String, Hashable, Sendable, CaseIterable {
    /// One JSON object per line (JSON Lines).
    case jsonl
    /// Comma-separated values with a line of names (RFC 4180), or with `;`, tab or `|` between them.
    case csv
}

/// The unit of times in a file.
package enum ReportTimeUnit: String, Hashable, Sendable, CaseIterable {
    /// Milliseconds since 1970, as in the answers of APNs.
    case milliseconds = "ms"
    /// Seconds since 1970, with or without a fraction.
    case seconds = "s"
    /// ISO 8601 text: a date with or without a time; in UTC where it names no zone.
    case iso
}

/// How to read a file.
package struct ReportLayout: Hashable, Sendable {
    package var format: ReportFormat
    package var map: FieldMap
    /// The unit of its times.
    package var unit: ReportTimeUnit

    package init(
        format: ReportFormat, map: FieldMap = .standard, unit: ReportTimeUnit = .milliseconds
    ) {
        self.format = format
        self.map = map
        self.unit = unit
    }

    /// The same text for the same way of reading, in every process.
    package var canonical: String {
        [format.rawValue, unit.rawValue, map.text].joined(separator: ",")
    }
}

/// One line or row of a file and what it reports.
package struct ReportLine: Hashable, Sendable {
    /// The number of its first line, from 1.
    package let line: Int
    /// Its bytes as they are in the file; at most 1 MiB.
    package let bytes: [UInt8]
    /// The report; nil for a line without a token, which is of another kind.
    package let report: Result<ReportedAnswer?, UnusableReport>
    /// Number of elements of arrays on the path of the token that it does not enter.
    package var unread = 0
}

/// Why a file as a whole cannot be read, each with a clause.
package enum UnreadableFile: Error, Hashable, Sendable, CustomStringConvertible {
    /// The map of its fields does not fit.
    case map(String)
    /// It is no whole gzip.
    case gzip(String)
    /// It is no CSV; the clause begins with the place.
    case csv(String)
    /// It is no JSON Lines.
    case json(String)

    package var description: String {
        switch self {
        case .map(let clause), .gzip(let clause), .csv(let clause), .json(let clause): clause
        }
    }
}

/// Reads the reports of one file.
package struct ReportLines {
    private let layout: ReportLayout
    private var gunzip: Gunzip?
    /// The first bytes, as long as they do not show whether they are gzip; nil after that.
    private var first: [UInt8]? = []
    private var start = TextStart()
    private var lines = LineSplitter()
    private var rows: CSVParser
    private var columns: CSVColumns?
    /// Number of lines of JSON so far.
    private var line = 0
    /// Whether a line of JSON came that is not empty.
    private var isBegun = false

    /// Begins before the first byte of a file.
    package init(_ layout: ReportLayout) {
        self.layout = layout
        columns = layout.format == .csv ? CSVColumns(numbers: layout.map) : nil
        rows = CSVParser(hasNames: columns == nil)
    }

    /// Takes the next bytes of the file. `content` gets the bytes of its content, expanded where the
    /// file is gzip, and `body` the lines that they complete.
    ///
    /// - Throws: `UnreadableFile`, `ForeignText`; the errors of the bodies. After each nothing of the file
    ///   may count.
    package mutating func take(
        _ bytes: UnsafeRawBufferPointer, content: (UnsafeRawBufferPointer) throws -> Void,
        _ body: (ReportLine) throws -> Void
    ) throws {
        guard var begin = first else { return try expand(bytes, content, body) }
        begin.append(contentsOf: bytes)
        first = begin
        guard begin.count > 1 else { return }
        first = nil
        if Gunzip.isGzip(begin) { gunzip = try Gunzip() }
        try begin.withUnsafeBytes { try expand($0, content, body) }
    }

    /// Ends the file and passes its last lines to `body`.
    ///
    /// - Throws: as `take`.
    package mutating func finish(
        content: (UnsafeRawBufferPointer) throws -> Void, _ body: (ReportLine) throws -> Void
    ) throws {
        if let begin = first {
            first = nil
            try begin.withUnsafeBytes { try expand($0, content, body) }
        }
        try gunzip?.finish()
        switch layout.format {
        case .jsonl:
            var lines = lines
            try lines.finish { try read($0, isCut: $1, body) }
        case .csv:
            let end = UnsafeRawBufferPointer(start: nil, count: 0)
            var start = start
            try start.take(end, isLast: true) { try parse($0, body) }
            var rows = rows
            try rows.finish { try read($0, body) }
        }
    }

    private mutating func expand(
        _ bytes: UnsafeRawBufferPointer, _ content: (UnsafeRawBufferPointer) throws -> Void,
        _ body: (ReportLine) throws -> Void
    ) throws {
        guard let gunzip else {
            try content(bytes)
            return try split(bytes, body)
        }
        try gunzip.expand(bytes) { piece in
            try content(piece)
            try split(piece, body)
        }
    }

    private mutating func split(
        _ bytes: UnsafeRawBufferPointer, _ body: (ReportLine) throws -> Void
    ) throws {
        switch layout.format {
        case .jsonl:
            var lines = LineSplitter()
            swap(&lines, &self.lines)
            defer { self.lines = lines }
            try lines.take(bytes) { try read($0, isCut: $1, body) }
        case .csv:
            var start = start
            defer { self.start = start }
            try start.take(bytes) { try parse($0, body) }
        }
    }

    // MARK: Lines of JSON

    private mutating func read(
        _ block: UnsafeRawBufferPointer, isCut: Bool, _ body: (ReportLine) throws -> Void
    ) throws {
        guard !isCut else {
            line += 1
            let refusal = UnusableReport.line("it is longer than 1 MiB")
            return try body(
                ReportLine(line: line, bytes: Array(block), report: .failure(refusal)))
        }
        try block.eachLine { place in
            line += 1
            let text = UnsafeRawBufferPointer(rebasing: block[place.text])
            guard !text.isEmpty else { return }
            defer { isBegun = true }
            if !isBegun, JSONFields.goesOn(text) {
                throw UnreadableFile.json(
                    "its JSON goes over several lines, and one object on each line is "
                        + "read; write it so with: jq -c \(text[0] == UInt8(ascii: "[") ? "'.[]'" : ".")"
                )
            }
            try body(
                reported(line, Array(text)) { () throws(UnusableReport) in try jsonFields(of: text)
                })
        }
    }

    private func jsonFields(
        of text: UnsafeRawBufferPointer
    ) throws(UnusableReport) -> (fields: [ReportField: FieldValue], unread: Int) {
        do throws(UnreadableField) {
            return try JSONFields.values(at: layout.map.paths, in: text)
        } catch {
            switch error {
            case .notJSON: throw .line(JSONFields.fault(of: text, layout))
            case .ambiguous(let key): throw .line("it has the key '\(key)' twice")
            }
        }
    }

    // MARK: Rows of CSV

    private mutating func parse(
        _ bytes: UnsafeRawBufferPointer, _ body: (ReportLine) throws -> Void
    ) throws {
        var rows = CSVParser(hasNames: true)
        swap(&rows, &self.rows)
        defer { self.rows = rows }
        try rows.take(bytes) { try read($0, body) }
    }

    private mutating func read(_ row: CSVRow, _ body: (ReportLine) throws -> Void) throws {
        guard let columns else {
            columns = try CSVColumns(names: row, layout.map)
            return
        }
        try columns.check(row)
        try body(
            reported(row.line, row.bytes) { () throws(UnusableReport) in
                try columns.fields(of: row)
            })
    }

    // MARK: Fields

    private func reported(
        _ line: Int, _ bytes: [UInt8],
        _ find: () throws(UnusableReport) -> (fields: [ReportField: FieldValue], unread: Int)
    ) -> ReportLine {
        var unread = 0
        do throws(UnusableReport) {
            let found = try find()
            unread = found.unread
            let report = try report(found.fields)
            return ReportLine(line: line, bytes: bytes, report: .success(report), unread: unread)
        } catch {
            return ReportLine(line: line, bytes: bytes, report: .failure(error), unread: unread)
        }
    }

    private func report(
        _ fields: [ReportField: FieldValue]
    ) throws(UnusableReport) -> ReportedAnswer? {
        guard let token = fields[.token] else { return nil }
        guard let spelling = token.bytes else { throw .field("token", expected: "a text") }
        var report = ReportedAnswer(token: spelling)
        report.status = try number(fields[.status])
        if !layout.map.namesAnswer { report.status = 410 }
        switch fields[.reason] {
        case nil, .empty: break
        case .text(let text): report.reason = String(decoding: text, as: UTF8.self)
        case .number, .other: throw .field("reason", expected: "a text")
        }
        report.timestamp = try time(fields[.time], "time")
        report.sentAt = try time(fields[.sent], "time of sending")
        return report
    }

    private func number(_ value: FieldValue?) throws(UnusableReport) -> Int? {
        guard let value, value != .empty else { return nil }
        guard let number = WholeNumber.read(String(decoding: value.bytes ?? [], as: UTF8.self)),
            let status = Int(exactly: number)
        else { throw .field("status", expected: "a whole number") }
        return status
    }

    private func time(
        _ value: FieldValue?, _ name: String
    ) throws(UnusableReport) -> EpochMilliseconds? {
        guard let value, value != .empty else { return nil }
        guard let time = layout.unit.time(String(decoding: value.bytes ?? [], as: UTF8.self)) else {
            throw .field(name, expected: layout.unit.words)
        }
        return time
    }
}

extension ReportTimeUnit {
    fileprivate var words: String {
        switch self {
        case .milliseconds: "a whole number of milliseconds (see --time-unit)"
        case .seconds: "a number of seconds (see --time-unit)"
        case .iso: "an ISO 8601 date or time (see --time-unit)"
        }
    }

    /// The time that a text names in this unit; nil for any other text.
    fileprivate func time(_ text: String) -> EpochMilliseconds? {
        switch self {
        case .milliseconds: return WholeNumber.read(text).map { EpochMilliseconds($0) }
        case .seconds:
            let parts = text.split(separator: ".", omittingEmptySubsequences: false)
            guard (1...2).contains(parts.count), let whole = Int64(parts[0]), whole >= 0,
                whole < 1 << 50
            else { return nil }
            guard parts.count == 2 else { return EpochMilliseconds(whole * 1_000) }
            guard !parts[1].isEmpty, parts[1].utf8.allSatisfy(DecimalDigits.isDigit) else {
                return nil
            }
            let digits = (parts[1] + "000").prefix(3)
            return Int64(digits).map { EpochMilliseconds(whole * 1_000 + $0) }
        case .iso:
            return EpochMilliseconds(iso8601: text)
        }
    }
}
