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
//
// Columns with tabs between them have a form of their own, that of `mysql --batch`: a quote is text like any
// other, a tab, a line break, a zero byte and a backslash inside of a field are `\t`, `\n`, `\0` and `\\`,
// and NULL is no value. Read by the rules of CSV two such quotes make one row of all rows between them. A file
// that is called CSV and has tabs may be either. Its fields without quotes are read by the rules of `mysql`,
// and one that has quotes around it is the same row in both. Any other field that begins with a quote is a
// mistake: which rows it belongs to nobody can know.

/// One row, with its fields as they stand in the file.
struct CSVRow {
    /// The number of its first line, from 1.
    let line: Int
    /// Its bytes without the line break.
    let bytes: [UInt8]
    /// Where its separators are.
    let separators: [Int]
    let quoting: CSVParser.Quoting

    /// Number of fields.
    var count: Int { separators.count + 1 }

    /// The value of a field, from 0, without its quotes.
    ///
    /// - Precondition: the row has the field.
    func field(_ number: Int) -> [UInt8] {
        let start = number == 0 ? 0 : separators[number - 1] + 1
        let end = number < separators.count ? separators[number] : bytes.count
        let field = bytes[start..<end]
        guard field.first == UInt8(ascii: "\""), quoting != .none else {
            return quoting == .csv ? Array(field) : Self.unescaped(field)
        }
        var value: [UInt8] = []
        var wasQuote = false
        for byte in field.dropFirst().dropLast() {
            // Each quote inside is written twice.
            wasQuote = byte == UInt8(ascii: "\"") && !wasQuote
            if !wasQuote { value.append(byte) }
        }
        return value
    }

    /// Whether a field has no value, as `mysql` and programs that load its files write it.
    func isNull(_ number: Int) -> Bool {
        guard quoting != .csv else { return false }
        let start = number == 0 ? 0 : separators[number - 1] + 1
        let end = number < separators.count ? separators[number] : bytes.count
        return ["NULL", "\\N"].contains { bytes[start..<end].elementsEqual($0.utf8) }
    }

    /// The bytes that stand behind a backslash for others. Any other byte there stands for itself.
    private static let escapes: [UInt8: UInt8] = [
        UInt8(ascii: "t"): 0x09, UInt8(ascii: "n"): 0x0A, UInt8(ascii: "0"): 0,
        UInt8(ascii: "\\"): UInt8(ascii: "\\"),
    ]

    private static func unescaped(_ field: ArraySlice<UInt8>) -> [UInt8] {
        guard field.contains(UInt8(ascii: "\\")) else { return Array(field) }
        var (value, rest) = ([UInt8](), field)
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "\\"), let meant = rest.first.flatMap({ escapes[$0] })
            else {
                value.append(byte)
                continue
            }
            value.append(meant)
            rest.removeFirst()
        }
        return value
    }

    /// The place of a backslash behind which no byte stands that `mysql --batch` writes there; nil where
    /// there is none.
    fileprivate var foreignBackslash: Int? {
        var place = bytes.startIndex
        while let found = bytes[place...].firstIndex(of: UInt8(ascii: "\\")) {
            guard let next = bytes[(found + 1)...].first,
                Self.escapes[next] != nil || next == UInt8(ascii: "N")
            else { return found }
            place = found + 2
        }
        return nil
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

    /// What quotes and backslashes mean.
    enum Quoting {
        /// Quotes as in RFC 4180, and no escapes.
        case csv
        /// Escapes of `mysql --batch`, and no quotes.
        case none
        /// Called CSV, with tabs: one of the two.
        case doubtful
    }

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
    private(set) var quoting: Quoting
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

    /// Begins before the first byte of a file. `hasTabs` states that it has the form of `mysql --batch`.
    init(hasNames: Bool, hasTabs: Bool) {
        (self.hasNames, quoting) = (hasNames, hasTabs ? .none : .csv)
        separator = hasTabs ? UInt8(ascii: "\t") : nil
    }

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
        guard place != .quoted else { throw unclosed }
        try end(body)
    }

    /// Bytes of a row whose end has not come.
    var unfinished: Int { pending.count }

    /// Counts lines on from others that were passed over, where a row has ended.
    mutating func goOn(behind lines: Int) { line = lines + 1 }

    private var unclosed: UnreadableFile {
        quoting == .doubtful ? doubt : fault(at: quote, "this quote is not closed")
    }

    private var doubt: UnreadableFile {
        .doubt(
            fault(
                at: quote,
                "this field begins with a quote and its end is not the next one, which CSV and mysql --batch "
                    + "mean in two ways, with other rows"
            ).description)
    }

    private mutating func advance(_ byte: UInt8, _ body: (CSVRow) throws -> Void) throws {
        switch (place, byte) {
        case (.quoted, UInt8(ascii: "\"")): place = .afterQuote
        case (.quoted, UInt8(ascii: "\t")) where quoting == .doubtful,
            (.quoted, UInt8(ascii: "\n")) where quoting == .doubtful:
            throw doubt
        case (.quoted, _): break
        case (.fieldStart, UInt8(ascii: "\"")) where quoting != .none:
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
        case (.afterQuote, _) where quoting == .doubtful: throw doubt
        case (.afterQuote, _):
            throw fault("text after the quote that ends a field; a quote inside is written twice")
        // Before the separator is known, the row is only gathered.
        case (.plain, UInt8(ascii: "\"")) where separator != nil && quoting == .csv,
            (.afterReturn, UInt8(ascii: "\"")) where separator != nil && quoting == .csv:
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
        let row = CSVRow(line: line, bytes: pending, separators: separators, quoting: quoting)
        pending.removeAll(keepingCapacity: true)
        separators.removeAll(keepingCapacity: true)
        place = .fieldStart
        guard !row.bytes.isEmpty else {
            line += 1
            return
        }
        guard separator != nil else {
            separator = try separator(of: row)
            if separator == UInt8(ascii: "\t") { quoting = .doubtful }
            for byte in row.bytes { try advance(byte, body) }
            guard place != .quoted else { throw unclosed }
            return try end(body)
        }
        if quoting == .none, let place = row.foreignBackslash {
            throw row.fault(
                at: place,
                "a backslash that mysql --batch does not write: it writes \\t, \\n, \\0 and \\\\; leave "
                    + "--raw out, and write tabs and line breaks inside of fields so")
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
        CSVRow(line: line, bytes: pending, separators: [], quoting: quoting)
            .fault(at: offset, cause)
    }
}
