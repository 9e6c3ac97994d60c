// Reads the answers of APNs out of the log or export of another sender:
//
//   bytes -> gunzip, if they are gzip -> lines or rows -> fields by the map -> ReportedAnswer
//
// Lines of JSON are read on several cores: a block of whole lines is cut into shares, and what they report
// is passed on in their order. Memory stays flat however long the file is. A line of JSON stands on its
// own: one that cannot be read is passed on with the reason, and the reader goes on with the next. A CSV
// file counts whole or not at all (see `CSVParser`): after a fault the caller drops what it was given
// before.
//
// A log that grows was read before up to a place. Then its beginning is read all the same, to the end of its first
// record, since it has the names of the columns and shows the form; what follows is passed over up to that place.

import APNsProtocol
import Database
import Encodings
import FoundationEssentials
import Glibc
import TokenHygiene

/// The form of a file.
package enum ReportFormat: String, Hashable, Sendable, CaseIterable {
    /// One JSON object per line (JSON Lines).
    case jsonl
    /// Comma-separated values with a line of names (RFC 4180), or with `;`, tab or `|` between them.
    case csv
    /// Columns with tabs between them and no quotes, as `mysql --batch` prints them.
    case tsv
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
package struct ReportLine {
    /// The number of its first line, from 1.
    package fileprivate(set) var line: Int
    /// Its bytes as they are in the file; at most 1 MiB. They are valid only in the body that gets the line.
    package let bytes: UnsafeRawBufferPointer
    /// The report; nil for a line without a token, which is of another kind.
    package let report: Result<ReportedAnswer?, UnusableReport>
    /// What the report says.
    package let reading: Result<ReportReading, UnusableReport>
    /// Number of elements of arrays on the path of the token that it does not enter.
    package var unread = 0
}

/// The beginning of a content that was read before, up to the end of a record with its line break.
package struct KnownBeginning: Hashable, Sendable {
    /// Bytes of the content.
    package let length: Int
    /// Line breaks in them.
    package let lines: Int

    package init(length: Int, lines: Int) { (self.length, self.lines) = (length, lines) }
}

/// Why a file as a whole cannot be read, each with a clause.
package enum UnreadableFile: Error, Hashable, Sendable, CustomStringConvertible {
    /// The map of its fields does not fit.
    case map(String)
    /// It is no whole gzip.
    case gzip(String)
    /// It is no CSV; the clause begins with the place.
    case csv(String)
    /// It has tabs and a field that CSV and `mysql --batch` mean in two ways; the clause begins with the place.
    case doubt(String)
    /// It is no JSON Lines; with the command that makes them of any JSON.
    case json(String, command: String)

    package var description: String {
        switch self {
        case .map(let clause), .gzip(let clause), .csv(let clause), .doubt(let clause): clause
        case .json(let clause, let command): "\(clause); write it so with: \(command)"
        }
    }
}

/// Reads the reports of one file.
package struct ReportLines {
    /// Bytes that one core reads at a time.
    private static let share = 1 << 15
    /// More cores would wait for the one that writes the journal, and hold more lines.
    private static let cores = min(4, ProcessInfo.processInfo.activeProcessorCount)

    private let layout: ReportLayout
    private let paths: FieldPaths
    private let reader: ReportReader
    private var file = FileContent()
    private var start = TextStart()
    private var lines = LineSplitter()
    private var rows: CSVParser
    private var columns: CSVColumns?
    /// Number of lines of JSON so far.
    private var line = 0
    /// Whether a line of JSON came that is not empty.
    private var isBegun = false
    /// What was read before; nil once it is passed over.
    private var known: KnownBeginning?
    /// Whether the first record behind the names of columns came.
    private var hasRecord = false
    /// Bytes of the content so far, and those up to its last line break.
    private var (count, lastBreak) = (0, 0)
    /// The whole records of a file that has ended, of which the last row may have had no line break.
    private var wholeAtEnd: Int?

    /// Begins before the first byte of a file. The reader says what each report means. Lines of what is `known`
    /// are not passed on.
    package init(
        _ layout: ReportLayout, _ reader: ReportReader, behind known: KnownBeginning? = nil
    ) {
        self.known = known
        (self.layout, self.reader) = (layout, reader)
        paths = FieldPaths(layout.map)
        columns = layout.format == .jsonl ? nil : CSVColumns(numbers: layout.map)
        rows = CSVParser(hasNames: columns == nil, hasTabs: layout.format == .tsv)
    }

    /// Whether the file is called CSV and tabs separate its fields, so that those without quotes are read as
    /// `mysql --batch` writes them.
    package var hasTabs: Bool { rows.quoting == .doubtful }

    /// The bytes of the content up to the end of the last record that ends with its line break. Within the quotes of a
    /// field a line break ends none.
    package var whole: Int {
        wholeAtEnd
            ?? (layout.format == .jsonl ? lastBreak : count - start.held - rows.unfinished)
    }

    /// Takes the next bytes of the file. `content` gets the bytes of its content, expanded where the
    /// file is gzip, with `whole` before them, and `body` the lines that they complete.
    ///
    /// - Throws: `UnreadableFile`, `Refusal`; the errors of the bodies. After each nothing of the file
    ///   may count.
    package mutating func take(
        _ bytes: UnsafeRawBufferPointer, content: (UnsafeRawBufferPointer, Int) throws -> Void,
        _ body: (ReportLine) throws -> Void
    ) throws {
        try reading { file, reader in
            try file.take(bytes) { try reader.takeContent($0, content, body) }
        }
    }

    private mutating func reading(
        _ read: (inout FileContent, inout ReportLines) throws -> Void
    ) throws {
        var file = FileContent()
        swap(&file, &self.file)
        defer { self.file = file }
        try read(&file, &self)
    }

    /// Ends the file and passes its last lines to `body`.
    ///
    /// - Throws: as `take`.
    package mutating func finish(
        content: (UnsafeRawBufferPointer, Int) throws -> Void, _ body: (ReportLine) throws -> Void
    ) throws {
        try reading { file, reader in
            try file.finish { try reader.takeContent($0, content, body) }
        }
        wholeAtEnd = whole
        switch layout.format {
        case .jsonl:
            var lines = lines
            try lines.finish { try read($0, isCut: $1, body) }
        case .csv, .tsv:
            let end = UnsafeRawBufferPointer(start: nil, count: 0)
            var start = start
            try start.take(end, isLast: true) { try parse($0, body) }
            var rows = rows
            try rows.finish { try read($0, body) }
            self.rows = rows
        }
    }

    private mutating func takeContent(
        _ bytes: UnsafeRawBufferPointer,
        _ content: (UnsafeRawBufferPointer, Int) throws -> Void,
        _ body: (ReportLine) throws -> Void
    ) throws {
        try content(bytes, whole)
        let rest = try passOver(bytes)
        if let last = rest.endOfLastLine { lastBreak = count + last }
        count += rest.count
        try split(rest, body)
    }

    /// Passes over what was read before but for its first record, and returns the bytes behind it.
    private mutating func passOver(
        _ bytes: UnsafeRawBufferPointer
    ) throws -> UnsafeRawBufferPointer {
        guard let known else { return bytes }
        var bytes = bytes
        while !hasRecord, count < known.length, !bytes.isEmpty {
            // A known beginning ends with a line break.
            let line = bytes.removeLines(atLeast: 0)
            count += line.count
            var came = false
            try split(line) { _ in came = true }
            // A record that is too long is passed on before its end.
            hasRecord = came && line.last == UInt8(ascii: "\n")
        }
        let passed = max(0, min(bytes.count, known.length - count))
        count += passed
        guard count == known.length else { return UnsafeRawBufferPointer(rebasing: bytes[..<0]) }
        self.known = nil
        (line, lastBreak) = (known.lines, count)
        rows.goOn(behind: known.lines)
        return UnsafeRawBufferPointer(rebasing: bytes[passed...])
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
        case .csv, .tsv:
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
            return try body(reported(line, block) { () throws(UnusableReport) in throw refusal })
        }
        var rest = block
        while !rest.isEmpty {
            var shares: [UnsafeRawBufferPointer] = []
            while shares.count < Self.cores, !rest.isEmpty {
                shares.append(rest.removeLines(atLeast: Self.share))
            }
            let found = shares.count == 1 ? shares.map(lines) : shares.concurrentMap(lines)
            for share in found {
                for var read in share.lines {
                    if !isBegun { try Self.ensureLines(read.bytes) }
                    isBegun = true
                    read.line += line
                    try body(read)
                }
                line += share.count
            }
        }
    }

    /// What the lines of a share report, without those that are empty, and the number of all. The lines
    /// are numbered from 1.
    private func lines(
        of share: UnsafeRawBufferPointer
    ) -> (lines: [ReportLine], count: Int) {
        var (lines, count): ([ReportLine], Int) = ([], 0)
        share.eachLine { place in
            count += 1
            let text = UnsafeRawBufferPointer(rebasing: share[place.text])
            guard !text.isEmpty else { return }
            lines.append(
                reported(count, text) { () throws(UnusableReport) in try jsonFields(of: text) })
        }
        return (lines, count)
    }

    private static func ensureLines(_ first: UnsafeRawBufferPointer) throws(UnreadableFile) {
        guard JSONFields.goesOn(first) else { return }
        throw UnreadableFile.json(
            "its JSON goes over several lines, and one object on each line is read",
            command: "jq -c \(first[0] == UInt8(ascii: "[") ? "'.[]'" : ".")")
    }

    private func jsonFields(
        of text: UnsafeRawBufferPointer
    ) throws(UnusableReport) -> FieldValues {
        do throws(UnusableReport) {
            return try JSONFields.values(at: paths, in: text)
        } catch {
            throw error == .notJSON ? JSONFields.fault(of: text, layout) : error
        }
    }

    // MARK: Rows of CSV

    private mutating func parse(
        _ bytes: UnsafeRawBufferPointer, _ body: (ReportLine) throws -> Void
    ) throws {
        var rows = CSVParser(hasNames: true, hasTabs: false)
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
        try row.bytes.withUnsafeBytes { bytes in
            try body(
                reported(row.line, bytes) { () throws(UnusableReport) in
                    try columns.fields(of: row)
                })
        }
    }

    // MARK: Fields

    private func reported(
        _ line: Int, _ bytes: UnsafeRawBufferPointer,
        _ find: () throws(UnusableReport) -> FieldValues
    ) -> ReportLine {
        var unread = 0
        let report = Result { () throws(UnusableReport) in
            let found = try find()
            unread = found.unread
            return try self.report(found)
        }
        return ReportLine(
            line: line, bytes: bytes, report: report, reading: reader.reading(of: report),
            unread: unread)
    }

    private func report(_ fields: FieldValues) throws(UnusableReport) -> ReportedAnswer? {
        guard let token = fields[.token] else { return nil }
        if let platform = fields[.platform] {
            guard let word = platform.bytes else { throw .field("platform", expected: "a text") }
            if layout.map.isOtherPlatform(word) {
                var report = ReportedAnswer(token: [])
                report.namesOtherPlatform = true
                return report
            }
        }
        guard let spelling = token.bytes else { throw .field("token", expected: "a text") }
        var report = ReportedAnswer(token: spelling.array)
        report.status = try number(fields[.status])
        if !layout.map.namesAnswer { report.status = 410 }
        switch fields[.reason] {
        case nil, .empty: break
        case .text(let text): report.reason = text.string
        case .number, .other: throw .field("reason", expected: "a text")
        }
        report.timestamp = try time(fields[.time], "time")
        report.sentAt = try time(fields[.sent], "time of sending")
        return report
    }

    private func number(_ value: FieldValue?) throws(UnusableReport) -> Int? {
        switch value {
        case nil, .empty: return nil
        case .text(let text), .number(let text):
            if let number = text.withBytes(WholeNumber.read), let status = Int(exactly: number) {
                return status
            }
        case .other: break
        }
        throw .field("status", expected: "a whole number")
    }

    private func time(
        _ value: FieldValue?, _ name: String
    ) throws(UnusableReport) -> EpochMilliseconds? {
        switch value {
        case nil, .empty: return nil
        case .text(let text), .number(let text):
            if let time = text.withBytes(layout.unit.time) { return time }
        case .other: break
        }
        throw .field(name, expected: layout.unit.words)
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
    fileprivate func time(_ text: UnsafeRawBufferPointer) -> EpochMilliseconds? {
        switch self {
        case .milliseconds: return WholeNumber.read(text).map { EpochMilliseconds($0) }
        case .seconds:
            let (whole, end) = WholeNumber.leading(text)
            guard let whole, whole >= 0, whole < 1 << 50 else { return nil }
            guard end < text.count else { return EpochMilliseconds(whole * 1_000) }
            let digits = text[(end + 1)...]
            guard text[end] == UInt8(ascii: "."), !digits.isEmpty,
                digits.allSatisfy(DecimalDigits.isDigit)
            else { return nil }
            let thousandths = (0..<3).reduce(Int64(0)) { sum, place in
                let digit =
                    place < digits.count ? digits[digits.startIndex + place] : UInt8(ascii: "0")
                return sum * 10 + Int64(digit - UInt8(ascii: "0"))
            }
            return EpochMilliseconds(whole * 1_000 + thousandths)
        case .iso: return EpochMilliseconds(iso8601: String(decoding: text, as: UTF8.self))
        }
    }
}
