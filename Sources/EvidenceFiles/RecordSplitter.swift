// Splits a stream of bytes into the records of a log: lines, or the records of a CSV file, whose quoted
// fields may hold line breaks (RFC 4180). A record longer than the limit is cut, so that one broken
// line does not take all memory, and the records after it are found again.
//
// A wrong quote makes the lines after it look like one field. The mistake shows by text after the
// quote that ends the field, or by a field without an end. But the lines may really be the text of a
// field, and an attacker may have written that text as a report. So each line from the mistake
// on is a record of its own and in doubt: up to the line where the mistake shows, or where no end
// shows, up to the end of the file. Records in doubt are never evidence.

/// One record of a file.
package struct FileRecord: Hashable, Sendable {
    /// The number of its first line, from 1.
    package let line: Int
    /// Its bytes without the line break; at most `RecordSplitter.longest`.
    package let bytes: [UInt8]
    /// Whether it was longer and is cut.
    package let isCut: Bool
    /// The line of a quote that may make this line the text of a field; nil where none does.
    package let quote: Int?
}

/// Splits bytes into records.
package struct RecordSplitter {
    /// The most bytes of a record: 1 MiB.
    package static let longest = 1 << 20

    /// Where the next byte is in a line or a CSV record.
    private enum Place {
        /// At the beginning of a field, where alone a quote opens one.
        case fieldStart
        /// Inside of a field without quotes.
        case plain
        /// Between the quotes of a field.
        case quoted
        /// After a quote inside of a quoted field: its end, or the first of two.
        case afterQuote
        /// In a line of which a quote before it may make the text of a field.
        case doubtful
    }

    private let hasQuotes: Bool
    /// The characters between fields: those that files use, until the first record tells which.
    private var separators = CSVFields.separators
    private var isFirst = true
    private var pending: [UInt8] = []
    private var isCut = false
    private var place = Place.fieldStart
    private var line = 1
    private var linesInside = 0
    /// The line of the quote that puts lines in doubt, and whether they stay so to the end.
    private var doubt: (quote: Int, isEndless: Bool)?

    /// Splits at line breaks. `quoting` leaves those inside of double quotes alone.
    package init(quoting: Bool) { hasQuotes = quoting }

    /// Takes the next bytes and passes the records that they complete to a body. Empty lines are
    /// passed over.
    package mutating func split(
        _ bytes: UnsafeRawBufferPointer, _ body: (FileRecord) throws -> Void
    ) rethrows {
        var start = bytes.startIndex
        for position in bytes.indices {
            let byte = bytes[position]
            if hasQuotes, doubt == nil {
                let isMistake = !advance(over: byte)
                let length = pending.count + position - start + 1
                if isMistake || linesInside > 0 && length >= Self.longest {
                    append(bytes[start..<position])
                    start = position
                    try emitDoubtfulLines(isEndless: !isMistake, body)
                }
            }
            if byte == UInt8(ascii: "\n"), place != .quoted {
                append(bytes[start..<position])
                start = position + 1
                try emit(body)
            }
        }
        append(bytes[start...])
    }

    /// Passes the last records to a body, which may lack a line break.
    package mutating func finish(_ body: (FileRecord) throws -> Void) rethrows {
        if place == .quoted, linesInside > 0 { try emitDoubtfulLines(isEndless: true, body) }
        try emit(body)
    }

    /// Moves over one byte of a CSV file; false where a quote of an earlier line cannot be right.
    private mutating func advance(over byte: UInt8) -> Bool {
        let isQuote = byte == UInt8(ascii: "\"")
        switch place {
        case .quoted:
            if isQuote {
                place = .afterQuote
            } else if byte == UInt8(ascii: "\n") {
                linesInside += 1
            }
        case .afterQuote where isQuote: place = .quoted
        case .fieldStart where isQuote: place = .quoted
        case .afterQuote where separators.contains(byte): place = .fieldStart
        case .afterQuote where byte == UInt8(ascii: "\r") || byte == UInt8(ascii: "\n"): break
        case .afterQuote:
            place = .plain
            return linesInside == 0
        case .fieldStart, .plain: place = separators.contains(byte) ? .fieldStart : .plain
        case .doubtful: break
        }
        return true
    }

    /// Ends the pending record: each of its lines is in doubt, and so is the line that goes on.
    private mutating func emitDoubtfulLines(
        isEndless: Bool, _ body: (FileRecord) throws -> Void
    ) rethrows {
        doubt = (line, isEndless)
        linesInside = 0
        let lines = pending.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        for whole in lines.dropLast() {
            pending = Array(whole)
            try emit(body, goesOn: true)
        }
        pending = Array(lines.last ?? [])
        place = .doubtful
    }

    private mutating func append(_ bytes: Slice<UnsafeRawBufferPointer>) {
        let room = Self.longest - pending.count
        if bytes.count > room { isCut = true }
        pending.append(contentsOf: bytes.prefix(room))
        // A quote in a line without end says nothing about the lines after it.
        if isCut, place != .doubtful { place = .plain }
    }

    private mutating func emit(
        _ body: (FileRecord) throws -> Void, goesOn: Bool = false
    ) rethrows {
        if pending.last == UInt8(ascii: "\r") { pending.removeLast() }
        let record = FileRecord(line: line, bytes: pending, isCut: isCut, quote: doubt?.quote)
        line += 1 + linesInside
        linesInside = 0
        isCut = false
        if let doubt, !doubt.isEndless, !goesOn { self.doubt = nil }
        place = doubt == nil ? .fieldStart : .doubtful
        pending.removeAll(keepingCapacity: true)
        guard !record.bytes.isEmpty || record.isCut else { return }
        if isFirst {
            isFirst = false
            separators = [CSVFields.separator(in: record.bytes)]
        }
        try body(record)
    }
}
