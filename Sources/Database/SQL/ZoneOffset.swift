/// A fixed offset from UTC. Named zones are refused: where clocks are set back an hour repeats, and
/// a time in it is ambiguous.
package struct ZoneOffset: Hashable, Sendable, CustomStringConvertible {
    /// Seconds east of UTC, a multiple of 60 between -14 and +14 hours.
    package let seconds: Int

    /// UTC itself, an offset of 0 seconds.
    package static let utc = ZoneOffset(seconds: 0)

    /// Makes an offset without checking its range.
    package init(seconds: Int) { self.seconds = seconds }

    /// Parses `UTC`, `Z`, `+HH:MM` or `-HH:MM`; nil for any other text.
    package init?(_ text: String) {
        if text == "UTC" || text == "Z" {
            self = .utc
            return
        }
        let bytes = Array(text.utf8)
        guard bytes.count == 6, bytes[3] == UInt8(ascii: ":"),
            bytes[0] == UInt8(ascii: "+") || bytes[0] == UInt8(ascii: "-"),
            let hours = PlainText.wholeNumber(text.dropFirst().prefix(2)),
            let minutes = PlainText.wholeNumber(text.suffix(2)), minutes < 60,
            hours * 60 + minutes <= 840
        else { return nil }
        let seconds = (hours * 60 + minutes) * 60
        self.seconds = bytes[0] == UInt8(ascii: "-") ? -seconds : seconds
    }

    /// `+HH:MM` or `-HH:MM`, as SQL writes it.
    package var description: String {
        let minutes = abs(seconds) / 60
        let pad = { (number: Int) in number < 10 ? "0\(number)" : "\(number)" }
        return "\(seconds < 0 ? "-" : "+")\(pad(minutes / 60)):\(pad(minutes % 60))"
    }
}
