// Splits a stream of bytes into the records of a log: lines, or the records of a CSV file, whose quoted
// fields may hold line breaks (RFC 4180). A record longer than the limit is cut, so that one broken
// line does not take all memory, and the records after it are found again.

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

    private let hasQuotes: Bool
    private var pending: [UInt8] = []
    private var isCut = false
    private var isQuoted = false
    /// Whether a field begins here, where alone a quote opens one.
    private var isAtField = true
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
        var position = start
        while position < bytes.endIndex {
            let byte = bytes[position]
            if byte == UInt8(ascii: "\n") {
                if isQuoted {
                    linesInside += 1
                } else {
                    append(bytes[start..<position])
                    start = position + 1
                    try emit(body)
                }
            } else if hasQuotes, byte == UInt8(ascii: "\""), isQuoted || isAtField {
                isQuoted.toggle()
            }
            // Two quotes inside of a quoted field close and open it again.
            isAtField = byte == UInt8(ascii: "\"") || CSVFields.separators.contains(byte)
            position += 1
        }
        append(bytes[start...])
    }

    /// Passes the last record to a body, which may lack its line break.
    package mutating func finish(_ body: (FileRecord) throws -> Void) rethrows {
        try emit(body)
    }

    private mutating func append(_ bytes: Slice<UnsafeRawBufferPointer>) {
        let room = Self.longest - pending.count
        if bytes.count > room { isCut = true }
        pending.append(contentsOf: bytes.prefix(room))
        // A quote that is never closed would make one record of the rest of the file.
        if isCut { (isQuoted, isAtField) = (false, false) }
    }

    private mutating func emit(_ body: (FileRecord) throws -> Void) rethrows {
        if pending.last == UInt8(ascii: "\r") { pending.removeLast() }
        let record = FileRecord(line: line, bytes: pending, isCut: isCut)
        line += 1 + linesInside
        linesInside = 0
        isCut = false
        isQuoted = false
        isAtField = true
        pending.removeAll(keepingCapacity: true)
        if !record.bytes.isEmpty || record.isCut { try body(record) }
    }
}
