// The rate is that of the last seconds, since a job may begin slowly, pause for a busy server and go on.
// Counts are kept for that window only; after a pause the rate falls, and the remaining time grows.

import Encodings

/// Computes the rate of a job from its counts.
package struct ProgressMeter: Sendable {
    /// The time over which the rate is computed.
    private static let window = Duration.seconds(10)
    /// The least time from which a rate is computed.
    private static let least = Duration.seconds(1)

    private var phrase = ""
    private var marks: [(at: Duration, count: Int)] = []

    /// Makes a meter without counts.
    package init() {}

    /// Takes a count, and returns the line to show. Another phrase, or a smaller count, begins
    /// another job.
    ///
    /// - Parameter now: the time since any fixed moment.
    package mutating func line(
        _ phrase: String, _ count: Int, of total: Int?, at now: Duration
    ) -> ProgressLine {
        if phrase != self.phrase || count < marks.last?.count ?? 0 {
            self.phrase = phrase
            marks = []
        }
        marks.append((now, count))
        while marks.count > 2, now - marks[1].at >= Self.window { marks.removeFirst() }
        var line = ProgressLine(phrase: phrase, count: count, total: total)
        if let first = marks.first, now - first.at >= Self.least {
            line.rate = Double(count - first.count) / ((now - first.at) / .seconds(1))
        }
        return line
    }
}

/// The progress of a job in one line of a terminal.
package struct ProgressLine: Hashable, Sendable {
    /// The work and its unit.
    var phrase: String
    /// The amount that is done.
    var count: Int
    /// The whole amount, if it is known.
    var total: Int?
    /// The amount per second; nil at the beginning.
    var rate: Double?

    /// The line in at most so many columns. Where there is little room, the unit goes, numbers are
    /// rounded and the end of the phrase is left out; the share, the rate and the remaining time stay.
    package func text(columns: Int) -> String {
        let name = phrase.printable
        let whole = name + ": " + ([amount] + pace(exact)).joined(separator: ", ")
        if whole.count <= columns { return whole }
        let start = name.split(separator: " (").first.map(String.init) ?? name
        let rest = ": " + ([shortAmount] + pace(Self.rounded)).joined(separator: ", ")
        let room = columns - rest.count
        guard room > 1 else { return String(rest.dropFirst(2).prefix(max(0, columns))) }
        return (start.count <= room ? start : start.prefix(room - 1) + "…") + rest
    }

    private var share: Int? {
        total.flatMap { $0 > 0 ? min(100, count * 100 / $0) : nil }
    }

    /// A count, with a size in megabytes as people read it.
    private func spelled(_ count: Int) -> String {
        (phrase.hasSuffix("(bytes)") ? count.megabytes : nil) ?? "\(count)"
    }

    private var amount: String {
        share.map { "\(spelled(count)) of \(spelled(total ?? 0)) (\($0) %)" } ?? spelled(count)
    }

    private var shortAmount: String {
        share.map { "\($0) %" } ?? Self.rounded(Double(count))
    }

    /// The rate, and the remaining time where the total is known.
    private func pace(_ spelled: (Double) -> String) -> [String] {
        guard let rate else { return [] }
        let speed = spelled(rate) + "/s"
        guard share != nil, let total, rate > 0, total >= count else { return [speed] }
        let seconds = (Double(total - count) / rate).rounded(.up)
        return [speed, "\(Self.clock(Int(min(seconds, 359_999)))) left"]
    }

    /// A number with one decimal below 10.
    private func exact(_ number: Double) -> String {
        if number >= 10, number < 1e15, let size = Optional(spelled(Int(number))),
            size.hasSuffix("MB")
        {
            return size
        }
        return Self.exact(number)
    }

    private static func exact(_ number: Double) -> String {
        guard number < 10, number > 0 else { return "\(Int(number.rounded()))" }
        let tenths = Int((number * 10).rounded())
        return "\(tenths / 10).\(tenths % 10)"
    }

    /// The same with `k` for thousands and `M` for millions.
    private static func rounded(_ number: Double) -> String {
        switch number {
        case ..<10_000: exact(number)
        case ..<10_000_000: exact(number / 1_000) + "k"
        default: exact(number / 1_000_000) + "M"
        }
    }

    /// Seconds as `0:07`, `12:34` or `3:04:05`.
    private static func clock(_ seconds: Int) -> String {
        func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
        let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60)
        return hours > 0
            ? "\(hours):\(two(minutes)):\(two(seconds % 60))"
            : "\(minutes):\(two(seconds % 60))"
    }
}
