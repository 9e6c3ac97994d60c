// Numbers on the command line come from scripts that compute them, so any number can occur. Each is
// read here with a lower and an upper bound. The bounds keep later arithmetic in range: seconds times
// a thousand, milliseconds times a thousand, a zone's offset added.

/// Why a number cannot be used, in words that follow the name of the option.
package struct CommandNumberRefusal: Error, Hashable, Sendable, CustomStringConvertible {
    /// The values that the option takes.
    package let description: String
}

/// The numbers that options take, each with its range.
package enum CommandNumber {
    /// The last second of the year 9998 in UTC. The year 10000, which dates in a database cannot
    /// hold, has not begun then in any time zone.
    package static let latestSecond: Int64 = 253_370_764_799

    /// Seconds since 1970, for the earliest time of an action.
    package static func seconds(_ text: String) throws(CommandNumberRefusal) -> Int64 {
        try whole(text, 0...latestSecond, "seconds since 1970")
    }

    /// Seconds since 1970 for `apns-expiration`: 32 bits.
    package static func expiration(_ text: String) throws(CommandNumberRefusal) -> Int64 {
        try whole(text, 0...Int64(UInt32.max), "seconds since 1970")
    }

    /// A number of rows.
    package static func rows(_ text: String) throws(CommandNumberRefusal) -> Int {
        Int(try whole(text, 1...1_000_000_000, "a whole number"))
    }

    /// A value of `apns-priority`.
    package static func priority(_ text: String) throws(CommandNumberRefusal) -> Int {
        Int(try whole(text, 1...10, "a whole number"))
    }

    /// Notifications per second.
    package static func rate(_ text: String) throws(CommandNumberRefusal) -> Double {
        let range = 1.0...1_000_000
        // Swift also reads nan, infinities and hexadecimal fractions. The range check excludes the
        // first two.
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
