// Reads the answers of APNs out of the log or export of another sender:
//
//   bytes -> gunzip, if they are gzip -> records -> fields by the map -> ReportedAnswer
//
// Memory stays flat however long the file is. A record that cannot be read is passed on with the
// reason, and the reader goes on with the next.

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
    /// The form of the file.
    package var format: ReportFormat
    /// The fields of a report.
    package var map: FieldMap
    /// The unit of its times.
    package var unit: ReportTimeUnit

    /// Describes a file.
    package init(
        format: ReportFormat, map: FieldMap = .standard, unit: ReportTimeUnit = .milliseconds
    ) {
        self.format = format
        self.map = map
        self.unit = unit
    }

    /// The same text for the same way of reading, in every process.
    package var canonical: String {
        let fields = map.paths.map { "\($0.key.rawValue)=\($0.value.text)" }.sorted()
        return ([format.rawValue, unit.rawValue] + fields).joined(separator: ",")
    }
}

/// One record of a file and what it reports.
package struct ReportLine: Hashable, Sendable {
    /// The record as it is in the file.
    package let record: FileRecord
    /// The report; nil for a record without a token, which is another kind of line.
    package let report: Result<ReportedAnswer?, UnusableReport>
}

/// Reads the records of one file.
package struct ReportLines {
    private let layout: ReportLayout
    private var splitter: RecordSplitter
    private var gunzip: Gunzip?
    private var hasBegun = false
    /// The separator and the columns of a CSV file, once its first record is known.
    private var columns: (separator: UInt8, numbers: [ReportField: Int])?

    /// Begins before the first byte of a file.
    package init(_ layout: ReportLayout) {
        self.layout = layout
        splitter = RecordSplitter(quoting: layout.format == .csv)
    }

    /// Takes the next bytes of the file. `content` gets the bytes of its content, expanded where the
    /// file is gzip, and `body` the records that they complete.
    ///
    /// - Throws: `GunzipFailure`, `FieldMapRefusal` for a CSV file without a mapped column, and the
    ///   errors of the bodies.
    package mutating func take(
        _ bytes: UnsafeRawBufferPointer, content: (UnsafeRawBufferPointer) throws -> Void,
        _ body: (ReportLine) throws -> Void
    ) throws {
        if !hasBegun, !bytes.isEmpty {
            hasBegun = true
            if Gunzip.isGzip(bytes) { gunzip = try Gunzip() }
        }
        guard let gunzip else {
            try content(bytes)
            return try split(bytes, body)
        }
        try gunzip.expand(bytes) { piece in
            try content(piece)
            try split(piece, body)
        }
    }

    /// Ends the file and passes its last records to `body`.
    ///
    /// - Throws: as `take`.
    package mutating func finish(_ body: (ReportLine) throws -> Void) throws {
        try gunzip?.finish()
        var last: [FileRecord] = []
        splitter.finish { last.append($0) }
        for record in last { try read(record, body) }
    }

    private mutating func split(
        _ bytes: UnsafeRawBufferPointer, _ body: (ReportLine) throws -> Void
    ) throws {
        var records: [FileRecord] = []
        splitter.split(bytes) { records.append($0) }
        for record in records { try read(record, body) }
    }

    private mutating func read(
        _ record: FileRecord, _ body: (ReportLine) throws -> Void
    ) throws {
        var record = record
        // A byte order mark, as some editors and spreadsheets write it.
        if record.line == 1, record.bytes.starts(with: [0xEF, 0xBB, 0xBF]) {
            record = FileRecord(
                line: 1, bytes: Array(record.bytes.dropFirst(3)), isCut: record.isCut,
                quote: record.quote)
        }
        if layout.format == .csv, columns == nil {
            let isHeader = try readColumns(of: record)
            guard !isHeader else { return }
        }
        try body(ReportLine(record: record, report: report(of: record)))
    }

    // MARK: Fields

    /// Finds the columns by the first record; true when it is the line of names.
    private mutating func readColumns(of first: FileRecord) throws(FieldMapRefusal) -> Bool {
        let bytes = first.bytes
        let separator = CSVFields.separator(in: bytes)
        var numbers: [ReportField: Int] = [:]
        for (field, path) in layout.map.paths {
            if case .key(let key) = path.steps[0], path.steps.count == 1,
                let number = Int(String(decoding: key, as: UTF8.self)), number > 0
            {
                numbers[field] = number - 1
            }
        }
        guard numbers.isEmpty else {
            guard numbers.count == layout.map.paths.count else {
                throw FieldMapRefusal(
                    description: "it mixes columns by number, which need no line of names, with "
                        + "columns by name")
            }
            columns = (separator, numbers)
            return false
        }
        let names = CSVFields.fields(of: bytes, separator: separator) ?? []
        for (field, path) in layout.map.paths {
            guard case .key(let key) = path.steps[0], path.steps.count == 1 else { continue }
            numbers[field] = names.firstIndex(of: key)
        }
        // A column that is mapped and not there would turn every line into one about nothing.
        let wanted = layout.map == .standard ? [.token] : Array(layout.map.paths.keys)
        if let missing = wanted.first(where: { numbers[$0] == nil }) {
            // Without a line of names the first line has a token, which no message may contain.
            let known = names.prefix(20).map { name in
                String(decoding: name.prefix(12), as: UTF8.self) + (name.count > 12 ? "…" : "")
            }
            throw FieldMapRefusal(
                description: "the first line names no column "
                    + "\(layout.map.paths[missing]?.text ?? ""); it names "
                    + known.joined(separator: ", "))
        }
        columns = (separator, numbers)
        return true
    }

    private func report(of record: FileRecord) -> Result<ReportedAnswer?, UnusableReport> {
        guard !record.isCut else {
            return .failure(.line("it is longer than 1 MiB"))
        }
        if let quote = record.quote {
            return .failure(
                .line(
                    record.line == quote
                        ? "a quote in it is not closed, or has text after it"
                        : "it may be text of the field that a quote in line \(quote) opens"))
        }
        do throws(UnusableReport) {
            var fields: [ReportField: FieldValue] = [:]
            switch layout.format {
            case .jsonl: fields = try jsonFields(of: record)
            case .csv: fields = try csvFields(of: record)
            }
            return .success(try report(fields))
        } catch {
            return .failure(error)
        }
    }

    private func jsonFields(
        of record: FileRecord
    ) throws(UnusableReport) -> [ReportField: FieldValue] {
        var found: Result<[ReportField: FieldValue], UnusableReport> = .success([:])
        record.bytes.withUnsafeBytes { bytes in
            do throws(UnreadableField) {
                found = .success(try JSONFields.values(at: layout.map.paths, in: bytes))
            } catch {
                switch error {
                case .notJSON: found = .failure(.line("it is not one JSON value"))
                case .ambiguous(let key): found = .failure(.line("it has the key '\(key)' twice"))
                }
            }
        }
        return try found.get()
    }

    private func csvFields(
        of record: FileRecord
    ) throws(UnusableReport) -> [ReportField: FieldValue] {
        guard let columns,
            let values = CSVFields.fields(of: record.bytes, separator: columns.separator)
        else { throw .line("a quoted field does not end") }
        var fields: [ReportField: FieldValue] = [:]
        for (field, number) in columns.numbers where number < values.count {
            fields[field] = values[number].isEmpty ? .empty : .text(values[number])
        }
        return fields
    }

    private func report(
        _ fields: [ReportField: FieldValue]
    ) throws(UnusableReport) -> ReportedAnswer? {
        let token: [UInt8]
        switch fields[.token] {
        case nil: return nil
        case .text(let text): token = text
        case .number(let digits): token = digits
        case .empty: token = []
        case .other: throw .field("token", expected: "a text")
        }
        var report = ReportedAnswer(token: token)
        report.status = try status(fields[.status])
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

    private func status(_ value: FieldValue?) throws(UnusableReport) -> Int? {
        switch value {
        case nil, .empty: return nil
        case .text(let digits), .number(let digits):
            guard let number = Int(String(decoding: digits, as: UTF8.self)) else {
                throw .field("status", expected: "a whole number")
            }
            return number
        case .other: throw .field("status", expected: "a whole number")
        }
    }

    private func time(
        _ value: FieldValue?, _ name: String
    ) throws(UnusableReport) -> EpochMilliseconds? {
        let bytes: [UInt8]
        switch value {
        case nil, .empty: return nil
        case .text(let text), .number(let text): bytes = text
        case .other: bytes = []
        }
        guard let time = layout.unit.time(String(decoding: bytes, as: UTF8.self)) else {
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
        case .milliseconds: return Int64(text).map { EpochMilliseconds($0) }
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
            return EpochMilliseconds(dateAndTime: text)
                ?? EpochMilliseconds(dateAndTime: text + " 00:00")
        }
    }
}
