// Splits a stream of bytes into the records of a log: lines, or the records of a CSV file, whose quoted
// fields may hold line breaks (RFC 4180). A record longer than the limit is cut, so that one broken
// line does not take all memory, and the records after it are found again.
//
// A quote that is there by mistake makes the lines after it look like one field. These signs tell:
// text after the quote that ends the field, more lines or bytes than a record has, and the end of
// the file. Then the record ends at its first line break, and the lines after it are split again.

/// One record of a file.
package struct FileRecord: Hashable, Sendable {
    /// The number of its first line, from 1.
    package let line: Int
    /// Its bytes without the line break; at most `RecordSplitter.longest`.
    package let bytes: [UInt8]
    /// Whether it was longer and is cut.
    package let isCut: Bool
}

/// Splits bytes into records.
package struct RecordSplitter {
    /// The most bytes of a record: 1 MiB.
    package static let longest = 1 << 20
    /// The most line breaks inside of a record. Each line is split again at most as often.
    static let mostLineBreaks = 100

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
    }

    private let hasQuotes: Bool
    private var pending: [UInt8] = []
    private var isCut = false
    private var place = Place.fieldStart
    private var line = 1
    private var linesInside = 0

    /// Splits at line breaks. `quoting` leaves those inside of double quotes alone.
    package init(quoting: Bool) { hasQuotes = quoting }

    /// Takes the next bytes and passes the records that they complete to a body. Empty lines are
    /// passed over.
    package mutating func split(
        _ bytes: UnsafeRawBufferPointer, _ body: (FileRecord) throws -> Void
    ) rethrows {
        var start = bytes.startIndex
        for position in bytes.indices {
            let length = pending.count + position - start + 1
            if hasQuotes,
                !advance(over: bytes[position]) || linesInside > 0 && length >= Self.longest
            {
                append(bytes[start...position])
                start = position + 1
                try splitAgain(body)
            } else if bytes[position] == UInt8(ascii: "\n"), place != .quoted {
                append(bytes[start..<position])
                start = position + 1
                try emit(body)
            }
        }
        append(bytes[start...])
    }

    /// Passes the last record to a body, which may lack its line break.
    package mutating func finish(_ body: (FileRecord) throws -> Void) rethrows {
        while place == .quoted, linesInside > 0 { try splitAgain(body) }
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
                return linesInside <= Self.mostLineBreaks
            }
        case .afterQuote where isQuote: place = .quoted
        case .fieldStart where isQuote: place = .quoted
        case .afterQuote where CSVFields.separators.contains(byte): place = .fieldStart
        case .afterQuote where byte == UInt8(ascii: "\r") || byte == UInt8(ascii: "\n"): break
        case .afterQuote:
            place = .plain
            return linesInside == 0
        case .fieldStart, .plain:
            place = CSVFields.separators.contains(byte) ? .fieldStart : .plain
        }
        return true
    }

    /// Ends the pending record at its first line break, and splits what follows again.
    private mutating func splitAgain(_ body: (FileRecord) throws -> Void) rethrows {
        let all = pending
        let end = all.firstIndex(of: UInt8(ascii: "\n")) ?? all.endIndex
        pending = Array(all[..<end])
        linesInside = 0
        try emit(body)
        try all[end...].dropFirst().withUnsafeBytes { try split($0, body) }
    }

    private mutating func append(_ bytes: Slice<UnsafeRawBufferPointer>) {
        let room = Self.longest - pending.count
        if bytes.count > room { isCut = true }
        pending.append(contentsOf: bytes.prefix(room))
        // A quote that is never closed would make one record of the rest of the file.
        if isCut { place = .plain }
    }

    private mutating func emit(_ body: (FileRecord) throws -> Void) rethrows {
        if pending.last == UInt8(ascii: "\r") { pending.removeLast() }
        let record = FileRecord(line: line, bytes: pending, isCut: isCut)
        line += 1 + linesInside
        linesInside = 0
        isCut = false
        place = .fieldStart
        pending.removeAll(keepingCapacity: true)
        if !record.bytes.isEmpty || record.isCut { try body(record) }
    }
}
