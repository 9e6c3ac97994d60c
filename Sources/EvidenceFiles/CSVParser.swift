// A strict parser of CSV (RFC 4180). What a stranger wrote stands in the fields of an export. Where its
// structure is in doubt, such text can look like a row of its own, and the row like a dead token. So the
// parser repairs nothing and looks for no place to go on: the first mistake ends the file.
//
//   line breaks   CRLF or LF; empty lines are passed over. A CR alone is text, but a mistake in the first row,
//                 where it shows a file that ends lines so, and behind a quoted field
//   quotes        around a whole field, two for one inside; a backslash is text like any other
//   width         every row has the fields of the first; or each one empty field more at its end
//   separator     the one of , ; tab | that the line of names has most of outside of quotes
//
// Without a line of names the first row may have a stranger's text, so only one of the four may occur.

/// One row, with its fields as they stand in the file.
struct CSVRow {
    /// The number of its first line, from 1.
    let line: Int
    /// Its bytes without the line break.
    let bytes: [UInt8]
    /// Where its separators are.
    let separators: [Int]

    /// Number of fields.
    var count: Int { separators.count + 1 }

    /// The value of a field, from 0, without its quotes.
    ///
    /// - Precondition: the row has the field.
    func field(_ number: Int) -> [UInt8] {
        let start = number == 0 ? 0 : separators[number - 1] + 1
        let end = number < separators.count ? separators[number] : bytes.count
        let field = bytes[start..<end]
        guard field.first == UInt8(ascii: "\"") else { return Array(field) }
        var value: [UInt8] = []
        var wasQuote = false
        for byte in field.dropFirst().dropLast() {
            // Each quote inside is written twice.
            wasQuote = byte == UInt8(ascii: "\"") && !wasQuote
            if !wasQuote { value.append(byte) }
        }
        return value
    }

    /// The place of a byte of the row, for people.
    func fault(at offset: Int, _ cause: String) -> UnreadableFile {
        let before = bytes[..<offset]
        let breaks = before.count { $0 == UInt8(ascii: "\n") }
        let start = before.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
        // Bytes that continue a character of UTF-8 do not count.
        let characters = before[start...].count { $0 & 0xC0 != 0x80 }
        return .csv("line \(line + breaks), column \(characters + 1): \(cause)")
    }
}

/// Splits bytes into rows.
struct CSVParser {
    /// The most bytes of a row: 1 MiB.
    static let longest = 1 << 20
    /// The separators that files use, in the order in which a tie is told.
    private static let candidates: [UInt8] = [
        UInt8(ascii: ","), UInt8(ascii: ";"), UInt8(ascii: "\t"), UInt8(ascii: "|"),
    ]

    /// Where the next byte is.
    private enum Place: Equatable {
        /// At the beginning of a field, where alone a quote opens one.
        case fieldStart
        /// Inside of a field without quotes.
        case plain
        /// Between the quotes of a field.
        case quoted
        /// After a quote inside of a quoted field: its end, or the first of two.
        case afterQuote
        /// After a CR outside of quotes, usually before the LF; `true` where a quoted field has ended.
        case afterReturn(Bool)
    }

    /// Whether the first row has the names of the columns.
    private let hasNames: Bool
    /// The separator; nil while the first row is gathered that shows it.
    private var separator: UInt8?
    private var place = Place.fieldStart
    private var line = 1
    private var pending: [UInt8] = []
    private var separators: [Int] = []
    /// Where the last quoted field begins.
    private var quote = 0
    /// Number of fields of the first row.
    private var width: Int?
    /// Whether each row has one empty field more; nil before the first row with values.
    private var hasExtra: Bool?

    init(hasNames: Bool) { self.hasNames = hasNames }

    /// Takes the next bytes and passes the rows that they complete to a body.
    ///
    /// - Throws: `UnreadableFile` for the first mistake, after which nothing may be taken any more; the errors of
    ///   the body.
    mutating func take(
        _ bytes: UnsafeRawBufferPointer, _ body: (CSVRow) throws -> Void
    ) throws {
        for byte in bytes { try advance(byte, body) }
    }

    /// Ends the file, whose last row may lack a line break.
    ///
    /// - Throws: as `take`.
    mutating func finish(_ body: (CSVRow) throws -> Void) throws {
        guard place != .quoted else { throw fault(at: quote, "this quote is not closed") }
        try end(body)
    }

    private mutating func advance(_ byte: UInt8, _ body: (CSVRow) throws -> Void) throws {
        switch (place, byte) {
        case (.quoted, UInt8(ascii: "\"")): place = .afterQuote
        case (.quoted, _): break
        case (.fieldStart, UInt8(ascii: "\"")):
            (place, quote) = (.quoted, pending.count)
        case (.afterQuote, UInt8(ascii: "\"")): place = .quoted
        case (_, UInt8(ascii: "\n")): return try end(body)
        case (.afterReturn(let isEnd), _) where isEnd || width == nil:
            throw fault(
                "a line break inside of a row, CR without LF; end lines with LF, as tr '\\r' '\\n' "
                    + "makes it, or put the field into quotes")
        case (_, _) where isSeparator(byte):
            separators.append(pending.count)
            place = .fieldStart
        case (.afterQuote, UInt8(ascii: "\r")): place = .afterReturn(true)
        case (_, UInt8(ascii: "\r")): place = .afterReturn(false)
        case (.afterQuote, _):
            throw fault("text after the quote that ends a field; a quote inside is written twice")
        // Before the separator is known, the row is only gathered.
        case (.plain, UInt8(ascii: "\"")) where separator != nil,
            (.afterReturn, UInt8(ascii: "\"")) where separator != nil:
            throw fault("a quote inside of a field without quotes; put the field into quotes")
        default: place = .plain
        }
        pending.append(byte)
        guard pending.count <= Self.longest else {
            throw fault(at: 0, "the row that begins here is longer than 1 MiB")
        }
    }

    private func isSeparator(_ byte: UInt8) -> Bool {
        separator.map { $0 == byte } ?? Self.candidates.contains(byte)
    }

    /// Ends the pending row.
    private mutating func end(_ body: (CSVRow) throws -> Void) throws {
        if pending.last == UInt8(ascii: "\r") { pending.removeLast() }
        let row = CSVRow(line: line, bytes: pending, separators: separators)
        pending.removeAll(keepingCapacity: true)
        separators.removeAll(keepingCapacity: true)
        place = .fieldStart
        guard !row.bytes.isEmpty else {
            line += 1
            return
        }
        guard separator != nil else {
            separator = try separator(of: row)
            for byte in row.bytes { try advance(byte, body) }
            guard place != .quoted else { throw fault(at: quote, "this quote is not closed") }
            return try end(body)
        }
        line += 1 + row.bytes.count { $0 == UInt8(ascii: "\n") }
        try checkWidth(of: row)
        try body(row)
    }

    /// The separator of a file by its first row, whose separators are all candidates.
    private func separator(of row: CSVRow) throws(UnreadableFile) -> UInt8 {
        let counts = Self.candidates.map { candidate in
            row.separators.count { row.bytes[$0] == candidate }
        }
        let most = counts.max() ?? 0
        guard most > 0 else { return Self.candidates[0] }
        let places = counts.indices.filter { hasNames ? counts[$0] == most : counts[$0] > 0 }
        guard places.count == 1 else {
            throw row.fault(
                at: 0,
                "which of , ; tab | separates the fields is in doubt; put fields that contain "
                    + "another into quotes, or give the file a line of names")
        }
        return Self.candidates[places[0]]
    }

    private mutating func checkWidth(of row: CSVRow) throws(UnreadableFile) {
        guard let width else {
            width = row.count
            if !hasNames { hasExtra = false }
            return
        }
        let isExtra = row.count == width + 1 && row.field(width).isEmpty
        if hasExtra == nil { hasExtra = isExtra }
        guard row.count == (hasExtra == true ? width + 1 : width), hasExtra != true || isExtra
        else {
            throw row.fault(
                at: 0,
                "this row has \(row.count) fields, and \(width) are expected; correct the row, or "
                    + "the quotes before it")
        }
    }

    private func fault(_ cause: String) -> UnreadableFile { fault(at: pending.count, cause) }

    private func fault(at offset: Int, _ cause: String) -> UnreadableFile {
        CSVRow(line: line, bytes: pending, separators: []).fault(at: offset, cause)
    }
}
