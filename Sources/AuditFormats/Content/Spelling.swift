// How figures, shares and times are written for people, the same in each format.

import Operations

extension Int {
    /// The number with a comma between thousands: `1,234,567`.
    var grouped: String {
        let digits = String(magnitude)
        var text = self < 0 ? "-" : ""
        for (place, digit) in digits.enumerated() {
            if place > 0, (digits.count - place) % 3 == 0 { text += "," }
            text.append(digit)
        }
        return text
    }

    /// The number and its noun: `1 row`, `1,234 rows`.
    func grouped(_ noun: String) -> String { "\(grouped) \(noun)\(self == 1 ? "" : "s")" }

    /// The number in at most five characters for the axis of a chart: `950`, `1.2k`, `100M`.
    var short: String {
        var (size, unit) = (Double(self), "")
        for next in ["k", "M", "G", "T"] where size >= 1_000 {
            (size, unit) = (size / 1_000, next)
        }
        let tenths = Int((size * 10).rounded(.down))
        return tenths >= 100 || tenths % 10 == 0
            ? "\(tenths / 10)\(unit)" : "\(tenths / 10).\(tenths % 10)\(unit)"
    }

    /// The share of a whole: `12.3%`; `under 0.1%` for what rounds to nothing, and `-` of an empty
    /// whole.
    func share(of whole: Int) -> String {
        guard whole > 0 else { return "-" }
        let thousandths = Double(self) / Double(whole) * 1_000
        if self > 0, thousandths < 1 { return "under 0.1%" }
        if self == whole { return "100%" }
        // Rounded down, so that 100% means all.
        let tenths = Int(thousandths.rounded(.down))
        return "\(tenths / 10).\(tenths % 10)%"
    }
}

extension Sequence<Int> {
    /// The sum; the greatest number where it would be too large for an `Int`.
    var total: Int { reduce(0) { $0.adding($1) } }
}

extension Int {
    /// The sum; the greatest number where it would be too large for an `Int`.
    func adding(_ other: Int) -> Int {
        let (value, overflows) = addingReportingOverflow(other)
        return overflows ? .max : value
    }
}

extension Double {
    /// A number of hours as people say it: `1.5 h`, and from three days on `3.1 days`.
    var span: String {
        guard isFinite, magnitude < 1e12 else { return "-" }
        if self < 72 { return "\(hours) h" }
        return self < 2_400 ? "\((self / 24).hours) days" : "\(Int(self / 24).grouped) days"
    }

    /// Hours with one digit after the point.
    var hours: String {
        guard isFinite, magnitude < 1e12 else { return "-" }
        let tenths = Int((magnitude * 10).rounded())
        return "\(self < 0 && tenths > 0 ? "-" : "")\((tenths / 10).grouped).\(tenths % 10)"
    }
}

extension String {
    /// A sentence as people read it: times to the minute, and commas between thousands in `1234 of 56789`.
    /// Programs read the JSON form, which has both as they are.
    var forPeople: String {
        var words = split(separator: " ", omittingEmptySubsequences: false).map(String.init)
        for place in words.indices {
            // The time stands alone, or before a mark of the sentence.
            let end = words[place].lastIndex(of: "Z").map(words[place].index(after:))
            if let end, words[place][end...].utf8.count <= 1 {
                words[place] = String(words[place][..<end]).moment + words[place][end...]
            }
            guard place > 0, place + 1 < words.count, words[place] == "of",
                let part = Int(words[place - 1]), let whole = Int(words[place + 1])
            else { continue }
            (words[place - 1], words[place + 1]) = (part.grouped, whole.grouped)
        }
        return words.joined(separator: " ")
    }

    /// The text on one line, with control characters and invisible characters escaped and cut to a
    /// number of characters. The cut is shown by `…`. The result has at most four times as many bytes
    /// as it may have characters, with the quotes and brackets counted as a page escapes them.
    func cut(to limit: Int) -> String {
        // A text of megabytes is not escaped whole for a few characters of it.
        let bounded = utf8.count > 8 * limit ? String(unicodeScalars.prefix(8 * limit)) : self
        let whole = bounded.printable
        var kept = ""
        var (characters, bytes) = (0, 0)
        for character in whole {
            characters += 1
            bytes += character.unicodeScalars.reduce(0) { $0 + $1.escapedBytes }
            guard characters <= limit, bytes <= 4 * limit else { return kept + "…" }
            kept.append(character)
        }
        return bounded.utf8.count == utf8.count ? kept : kept + "…"
    }
}

extension Unicode.Scalar {
    /// The number of bytes of the character in a page, where quotes and brackets are references.
    fileprivate var escapedBytes: Int {
        switch self {
        case "<", ">", "&", "\"", "'": 6
        default: UTF8.width(self)
        }
    }
}
