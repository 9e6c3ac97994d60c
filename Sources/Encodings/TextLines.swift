// What people and other programs hand in as text: logs, exports, lists of tokens. Editors and
// spreadsheets put a byte order mark in front, Windows ends lines with CRLF, and a file may be a pipe
// that gives single bytes. All such input is read by these two types.

import Glibc

extension Refusal {
    fileprivate static func of(_ encoding: String) -> Refusal {
        Refusal(
            "it is \(encoding), and UTF-8 is read; convert it with: iconv -f \(encoding) -t UTF-8")
    }
}

/// Takes the byte order mark of UTF-8 off a text that comes in pieces.
package struct TextStart: Sendable {
    /// Bytes that the decision needs.
    private static let needed = 4
    /// The first bytes, as long as they are too few; nil after the decision.
    private var first: [UInt8]? = []

    package init() {}

    /// Bytes that wait for the decision.
    package var held: Int { first?.count ?? 0 }

    /// Passes bytes on to a body. The first few wait until there are four, or until the text ends:
    /// then `isLast` is true.
    ///
    /// - Throws: `Refusal` for UTF-16 and UTF-32, with or without their marks; the errors of the body.
    package mutating func take(
        _ bytes: UnsafeRawBufferPointer, isLast: Bool = false,
        _ body: (UnsafeRawBufferPointer) throws -> Void
    ) throws {
        guard var begin = first else { return try body(bytes) }
        begin.append(contentsOf: bytes)
        guard begin.count >= Self.needed || isLast else {
            first = begin
            return
        }
        first = nil
        let isZero = begin.prefix(Self.needed).map { $0 == 0 }
        // The marks, and what the zeros of ASCII characters show where there is none.
        let isUTF32 =
            begin.starts(with: [0xFF, 0xFE, 0, 0]) || begin.starts(with: [0, 0, 0xFE, 0xFF])
            || isZero == [true, true, true, false] || isZero == [false, true, true, true]
        guard !isUTF32 else { throw Refusal.of("UTF-32") }
        let isUTF16 =
            begin.starts(with: [0xFF, 0xFE]) || begin.starts(with: [0xFE, 0xFF])
            || isZero == [true, false, true, false] || isZero == [false, true, false, true]
        guard !isUTF16 else { throw Refusal.of("UTF-16") }
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        let start = begin.starts(with: mark) ? mark.count : 0
        try begin.withUnsafeBytes { try body(UnsafeRawBufferPointer(rebasing: $0[start...])) }
    }
}

extension TextStart {
    /// A whole text without its byte order mark.
    ///
    /// - Throws: `Refusal` for UTF-16 and UTF-32.
    package static func whole(_ bytes: [UInt8]) throws -> [UInt8] {
        var (start, text) = (TextStart(), [UInt8]())
        try bytes.withUnsafeBytes {
            try start.take($0, isLast: true) { text.append(contentsOf: $0) }
        }
        return text
    }
}

/// Splits a text that comes in pieces into blocks of whole lines.
package struct LineSplitter: Sendable {
    /// The longest line that is kept, in bytes: 1 MiB.
    package static let longest = 1 << 20

    private var start = TextStart()
    /// The beginning of a line without its end.
    private var rest: [UInt8] = []
    /// Whether the next bytes belong to a line that was cut.
    private var isSkipping = false

    package init() {}

    /// Takes the next bytes. `body` gets blocks of whole lines, without copying where possible; or
    /// with `isCut` the beginning of one line that is too long, without its line break.
    ///
    /// - Throws: `Refusal` for UTF-16 and UTF-32; the errors of the body.
    package mutating func take(
        _ bytes: UnsafeRawBufferPointer,
        _ body: (_ block: UnsafeRawBufferPointer, _ isCut: Bool) throws -> Void
    ) throws {
        var start = start
        defer { self.start = start }
        try start.take(bytes) { try split($0, body) }
    }

    /// Ends the text. The last line may lack its line break.
    ///
    /// - Throws: as `take`.
    package mutating func finish(
        _ body: (_ block: UnsafeRawBufferPointer, _ isCut: Bool) throws -> Void
    ) throws {
        var start = start
        try start.take(UnsafeRawBufferPointer(start: nil, count: 0), isLast: true) {
            try split($0, body)
        }
        guard !rest.isEmpty else { return }
        try rest.withUnsafeBytes { try body($0, false) }
        rest = []
    }

    private mutating func split(
        _ bytes: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer, Bool) throws -> Void
    ) throws {
        var bytes = bytes
        if isSkipping || !rest.isEmpty {
            let (end, isWhole) = bytes.endOfFirstLine
            if !isSkipping { rest.append(contentsOf: bytes[..<end]) }
            bytes = UnsafeRawBufferPointer(rebasing: bytes[end...])
            if isSkipping {
                isSkipping = !isWhole
            } else if rest.count > Self.longest + (isWhole ? 1 : 0) {
                try cut(body)
                isSkipping = !isWhole
            } else if isWhole {
                try rest.withUnsafeBytes { try body($0, false) }
                rest.removeAll(keepingCapacity: true)
            }
        }
        guard !bytes.isEmpty else { return }
        let end = bytes.endOfLastLine ?? 0
        if end > 0 { try body(UnsafeRawBufferPointer(rebasing: bytes[..<end]), false) }
        rest.append(contentsOf: bytes[end...])
        guard rest.count > Self.longest else { return }
        try cut(body)
        isSkipping = true
    }

    private mutating func cut(
        _ body: (UnsafeRawBufferPointer, Bool) throws -> Void
    ) throws {
        try rest.withUnsafeBytes {
            try body(UnsafeRawBufferPointer(rebasing: $0[..<Self.longest]), true)
        }
        rest = []
    }
}

/// One line of a block: its place with the line break, and its text without it.
package struct TextLine: Hashable, Sendable {
    /// The bytes with the line break.
    package let whole: Range<Int>
    /// The bytes without white space at its ends, to which the line break belongs.
    package let text: Range<Int>
}

extension UnsafeRawBufferPointer {
    /// Removes lines from the front, as few as have so many bytes, or all.
    package mutating func removeLines(atLeast bytes: Int) -> UnsafeRawBufferPointer {
        var end = count
        if let base = baseAddress, bytes < count,
            let found = memchr(base + bytes, Int32(UInt8(ascii: "\n")), count - bytes)
        {
            end = UnsafeRawPointer(found) - base + 1
        }
        defer { self = UnsafeRawBufferPointer(rebasing: self[end...]) }
        return UnsafeRawBufferPointer(rebasing: self[..<end])
    }

    /// Calls `body` for each line of a block.
    package func eachLine(_ body: (TextLine) throws -> Void) rethrows {
        guard let base = baseAddress else { return }
        var start = 0
        while start < count {
            let found = memchr(base + start, Int32(UInt8(ascii: "\n")), count - start)
            let end = found.map { UnsafeRawPointer($0) - base } ?? count
            var (first, last) = (start, end)
            while first < last, Self.isSpace(self[first]) { first += 1 }
            while last > first, Self.isSpace(self[last - 1]) { last -= 1 }
            let next = found == nil ? end : end + 1
            try body(TextLine(whole: start..<next, text: first..<last))
            start = next
        }
    }

    /// The end of the first line, with its line break; without one, that of all bytes.
    fileprivate var endOfFirstLine: (end: Int, isWhole: Bool) {
        guard let base = baseAddress, let found = memchr(base, Int32(UInt8(ascii: "\n")), count)
        else { return (count, false) }
        return (UnsafeRawPointer(found) - base + 1, true)
    }

    /// The end of the last line that has a line break; nil without one.
    package var endOfLastLine: Int? {
        lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 }
    }

    private static func isSpace(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: " ") || (9...13).contains(byte)
    }
}

/// The bytes of a text: where they stand in what was read, or apart where they are spelled otherwise
/// there, with escapes or doubled quotes.
package enum TextBytes {
    /// Bytes of the text that was read; valid as long as that is.
    case inPlace(UnsafeRawBufferPointer)
    /// Bytes that were made of it.
    case apart([UInt8])

    /// A copy of the bytes.
    package var array: [UInt8] {
        switch self {
        case .inPlace(let bytes): Array(bytes)
        case .apart(let bytes): bytes
        }
    }

    /// The bytes as text; what is no UTF-8 becomes U+FFFD.
    package var string: String {
        switch self {
        case .inPlace(let bytes): String(decoding: bytes, as: UTF8.self)
        case .apart(let bytes): String(decoding: bytes, as: UTF8.self)
        }
    }

    /// Passes the bytes to a body.
    package func withBytes<R>(_ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R {
        switch self {
        case .inPlace(let bytes): try body(bytes)
        case .apart(let bytes): try bytes.withUnsafeBytes(body)
        }
    }

    /// Number of the bytes.
    package var count: Int {
        switch self {
        case .inPlace(let bytes): bytes.count
        case .apart(let bytes): bytes.count
        }
    }

    /// Whether these are the bytes.
    package static func == (left: TextBytes, right: ArraySlice<UInt8>) -> Bool {
        left.withBytes { left in
            guard left.count == right.count else { return false }
            return right.withUnsafeBytes { right in
                guard let first = left.baseAddress, let second = right.baseAddress else {
                    return true
                }
                return memcmp(first, second, left.count) == 0
            }
        }
    }
}

/// Whole numbers as programs write them.
package enum WholeNumber {
    /// The number that a text spells in decimal digits, with or without a sign. Zeros after a decimal
    /// point are no fraction: `410.0` is what tables with gaps make of 410. Nil for any other text.
    package static func read(_ text: UnsafeRawBufferPointer) -> Int64? {
        let (number, end) = leading(text)
        guard let number, end < text.count else { return number }
        let zeros = text[(end + 1)...]
        guard text[end] == UInt8(ascii: "."), !zeros.isEmpty,
            zeros.allSatisfy({ $0 == UInt8(ascii: "0") })
        else { return nil }
        return number
    }

    /// The number that begins a text, nil where none does or it does not fit; and where it ends.
    package static func leading(_ text: UnsafeRawBufferPointer) -> (number: Int64?, end: Int) {
        let isNegative = text.first == UInt8(ascii: "-")
        let start = isNegative || text.first == UInt8(ascii: "+") ? 1 : 0
        var (number, place, fits) = (Int64(0), start, true)
        while place < text.count, DecimalDigits.isDigit(text[place]) {
            let digit = Int64(text[place] - UInt8(ascii: "0"))
            let (tens, isLarge) = number.multipliedReportingOverflow(by: 10)
            let (sum, isLarger) =
                isNegative
                ? tens.subtractingReportingOverflow(digit) : tens.addingReportingOverflow(digit)
            fits = fits && !isLarge && !isLarger
            (number, place) = (sum, place + 1)
        }
        return (fits && place > start ? number : nil, place)
    }
}
