import APNsProtocol
import Encodings

extension WallClock {
    /// `YYYY-MM-DD HH:MM:SS`, followed by `fraction` digits of the second (0 to 6).
    package func text(fraction: Int) -> String {
        let fields = fields
        var text: [UInt8] = []
        text.reserveCapacity(26)
        CivilDate(year: fields.year, month: fields.month, day: fields.day).append(
            secondOfDay: fields.hour * 3_600 + fields.minute * 60 + fields.second, separator: " ",
            to: &text)
        if fraction > 0 {
            text.append(UInt8(ascii: "."))
            var shortened = fields.microsecond
            for _ in fraction..<6 { shortened /= 10 }
            DecimalDigits.append(shortened, width: fraction, to: &text)
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Parses `YYYY-MM-DD HH:MM[:SS[.f…]]`, with `T` allowed for the space, as in SQLite's date
    /// functions and ISO 8601; nil for any other text, also for one with a zone.
    package init?(text: String) { self.init(Array(text.utf8)[...]) }

    /// Parses the same with an optional `Z`, `+HH:MM` or `-HH:MM` at the end, which overrides any
    /// declared zone. Returns the reading and the seconds by which the clock is ahead of UTC, nil
    /// for a text without a zone; nil for any other text.
    static func stated(in text: String) -> (clock: WallClock, offset: Int?)? {
        var rest = Array(text.utf8)[...]
        var offset: Int?
        if rest.last == UInt8(ascii: "Z") || rest.last == UInt8(ascii: "z") {
            rest.removeLast()
            offset = 0
        } else if rest.count > 16,
            let zone = ZoneOffset(String(decoding: rest.suffix(6), as: UTF8.self))
        {
            rest.removeLast(6)
            offset = zone.seconds
        }
        return WallClock(rest).map { ($0, offset) }
    }

    private init?(_ text: ArraySlice<UInt8>) {
        var rest = text
        func number(_ width: Int) -> Int? {
            guard rest.count >= width else { return nil }
            var value = 0
            for byte in rest.prefix(width) {
                guard DecimalDigits.isDigit(byte) else { return nil }
                value = value * 10 + Int(byte - UInt8(ascii: "0"))
            }
            rest.removeFirst(width)
            return value
        }
        func separator(_ allowed: String) -> Bool {
            guard let first = rest.first, allowed.utf8.contains(first) else { return false }
            rest.removeFirst()
            return true
        }
        guard let year = number(4), separator("-"), let month = number(2), separator("-"),
            let day = number(2), separator(" T"), let hour = number(2), separator(":"),
            let minute = number(2)
        else { return nil }
        var second = 0
        var microsecond = 0
        if separator(":") {
            guard let value = number(2) else { return nil }
            second = value
            if separator(".") {
                guard !rest.isEmpty else { return nil }
                var scale = 100_000
                while let digit = number(1) {
                    microsecond += digit * scale
                    scale /= 10
                }
            }
        }
        guard rest.isEmpty else { return nil }
        self.init(
            year: year, month: month, day: day, hour: hour, minute: minute, second: second,
            microsecond: microsecond)
    }
}

extension EpochMilliseconds {
    /// Parses an ISO 8601 date with time; in UTC where it names no zone. Nil for any other text.
    package init?(dateAndTime text: String) {
        guard let (clock, offset) = WallClock.stated(in: text) else { return nil }
        self.init(
            clock.microseconds.flooredDivision(by: 1_000) - Int64(offset ?? 0) * 1_000)
    }
}
