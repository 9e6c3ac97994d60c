// Numbers on the command line come from scripts that reckon them, so any number comes some day. Each is read
// here and has an end on both sides, chosen so that no reckoning with it can leave its range: seconds times a
// thousand, milliseconds times a thousand, a zone's offset added.

/// Why a number cannot be used, in words that follow the name of the option.
package struct CommandNumberRefusal: Error, Hashable, Sendable, CustomStringConvertible {
    /// What it must be.
    package let description: String
}

/// Numbers that options take.
package enum CommandNumber {
    /// The last second of the year 9998 in UTC: on no clock of the world has the year 10000 begun, which
    /// no date in a database can hold.
    package static let latestSecond: Int64 = 253_370_764_799

    /// Seconds since 1970 before which something is not done.
    package static func seconds(_ text: String) throws(CommandNumberRefusal) -> Int64 {
        try whole(text, 0...latestSecond, "seconds since 1970")
    }

    /// Seconds since 1970 as `apns-expiration` takes them: 32 bits.
    package static func expiration(_ text: String) throws(CommandNumberRefusal) -> Int64 {
        try whole(text, 0...Int64(UInt32.max), "seconds since 1970")
    }

    /// A number of rows.
    package static func rows(_ text: String) throws(CommandNumberRefusal) -> Int {
        Int(try whole(text, 1...1_000_000_000, "a whole number"))
    }

    /// `apns-priority`.
    package static func priority(_ text: String) throws(CommandNumberRefusal) -> Int {
        Int(try whole(text, 1...10, "a whole number"))
    }

    /// Notifications per second.
    package static func rate(_ text: String) throws(CommandNumberRefusal) -> Double {
        let range = 1.0...1_000_000
        // Swift also reads nan, infinities and hexadecimal fractions; no range holds the first two.
        guard let rate = Double(text), range.contains(rate) else {
            throw CommandNumberRefusal(description: "it must be a number from 1 to 1000000")
        }
        return rate
    }

    private static func whole(
        _ text: String, _ range: ClosedRange<Int64>, _ what: String
    ) throws(CommandNumberRefusal) -> Int64 {
        guard let number = Int64(text), range.contains(number) else {
            throw CommandNumberRefusal(
                description: "it must be \(what) from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }
}
