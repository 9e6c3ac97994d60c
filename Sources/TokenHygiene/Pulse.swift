// The evidence of an app comes in its own rhythm: a large app hears of dead tokens each hour, a small one once in a
// week, and most of them by the week. When it stops, nothing fails: the sender was changed and reports no more, a
// certificate ended, a job was dropped. So its days are compared with the days before them.
//
// What is usual is learned from the app alone, from the days before the ones that are judged: at least 14, at most
// 56, and at least eight of them with evidence. Where that is too little nothing is said. APNs itself reports in
// waves, three times as much in one week as in another, so a difference of less than that is none.
//
//   stopped    no evidence for twice the longest gap that was usual
//   surge      a day with four times what is seen on a large day
//   unknown    most of a week's evidence fits no row, and most of what came before it did
//   newer      most of it is about devices that registered later, and most of what came before was not
//   bad        three times as many tokens called bad in a week as in the largest week before
//
// Only the two shares are told without a rhythm: of an app whose first evidence fits no row that is the first thing
// to know. A silence is told for as long as what was usual before it counts. `pushsweep-benchmarks pulse` measures how often each is wrong.

/// What was heard of one app and environment on one day in UTC.
package struct DayOfPulse: Hashable, Sendable {
    /// Reports that call a token dead: all, those of a token that no row has, and those of a device that registered later.
    package var evidence = 0, unknown = 0, newer = 0
    /// Reports that call a token bad.
    package var bad = 0

    package init(evidence: Int = 0, unknown: Int = 0, newer: Int = 0, bad: Int = 0) {
        (self.evidence, self.unknown, self.newer, self.bad) = (evidence, unknown, newer, bad)
    }
}

/// Something in the rhythm of an app's evidence that is not as usual.
package enum PulseFinding: Hashable, Sendable {
    /// No evidence came for so many whole days, where the longest gap was this.
    case stopped(days: Int, usual: Int)
    /// So much came on the last day, where a large day had this.
    case surge(reports: Int, usual: Int)
    /// So much of the last week's evidence fits no row.
    case unknown(reports: Int, of: Int)
    /// So much of the last week's evidence is about devices that registered later.
    case newer(reports: Int, of: Int)
    /// So many reports call tokens bad in the last week, where the largest week had this.
    case bad(reports: Int, usual: Int)
}

/// Compares the last days of an app's evidence with the days before.
package enum Pulse {
    /// Days from which is learned what is usual: at least, and at most.
    package static let (fewest, most) = (14, 56)
    /// Days of which a look knows: those that teach, and the longest silence that is told.
    package static let span = 2 * most
    /// Days with evidence among them that are needed.
    static let fewestWithEvidence = 8
    /// How many times the longest usual gap a silence has to last.
    static let gaps = 2
    /// How many times a large day a day has to have, and the fewest reports that it has more.
    static let (times, margin) = (4, 100)
    /// The fewest reports of a week of which a share is told.
    static let fewestReports = 20

    /// What is not as usual. `days` are whole days without a hole, oldest first; the last one is yesterday. What came
    /// `today` counts for the week, and is no silence.
    package static func findings(
        _ days: [DayOfPulse], today: DayOfPulse = DayOfPulse()
    ) -> [PulseFinding] {
        let rhythm = [today.evidence == 0 ? stopped(days) : nil, surge(days)]
        let week = days + [today]
        return rhythm.compactMap { $0 } + shares(week) + [bad(week)].compactMap { $0 }
    }

    /// The days that teach what is usual for those behind a place; nil where they are too few.
    private static func usual(
        _ days: [DayOfPulse], before end: Int,
        _ isHeard: (DayOfPulse) -> Bool = { $0.evidence > 0 }
    ) -> ArraySlice<DayOfPulse>? {
        guard end > 0, let first = days[..<end].firstIndex(where: isHeard) else { return nil }
        let window = days[max(first, end - most)..<end]
        guard window.count >= fewest, window.count(where: isHeard) >= fewestWithEvidence else {
            return nil
        }
        return window
    }

    private static func stopped(_ days: [DayOfPulse]) -> PulseFinding? {
        guard let last = days.lastIndex(where: { $0.evidence > 0 }) else { return nil }
        let silence = days.count - 1 - last
        guard silence > 0, silence <= most, let window = usual(days, before: last + 1) else {
            return nil
        }
        var (longest, before) = (1, Int?.none)
        for place in window.indices where window[place].evidence > 0 {
            if let before { longest = max(longest, place - before) }
            before = place
        }
        // A gap of one day is a day after the other, with no whole day between them.
        return silence + 1 > gaps * longest ? .stopped(days: silence, usual: longest - 1) : nil
    }

    private static func surge(_ days: [DayOfPulse]) -> PulseFinding? {
        guard let last = days.last, let window = usual(days, before: days.count - 1) else {
            return nil
        }
        let sorted = window.map(\.evidence).sorted()
        let large = sorted[sorted.count * 9 / 10]
        guard last.evidence >= times * large, last.evidence >= large + margin else { return nil }
        return .surge(reports: last.evidence, usual: large)
    }

    private static func shares(_ days: [DayOfPulse]) -> [PulseFinding] {
        let week = days.suffix(7)
        let window = usual(days, before: days.count - week.count)
        func isMost(_ part: KeyPath<DayOfPulse, Int>) -> Int? {
            let all = week.reduce(0) { $0 + $1.evidence }
            let some = week.reduce(0) { $0 + $1[keyPath: part] }
            guard all >= fewestReports, some * 2 > all else { return nil }
            if let window {
                let before = window.reduce(0) { $0 + $1.evidence }
                // Who removes rows hears of them again: what was so before is not told each day.
                if window.reduce(0, { $0 + $1[keyPath: part] }) * 3 > before { return nil }
            }
            return some
        }
        let all = week.reduce(0) { $0 + $1.evidence }
        return [
            isMost(\.unknown).map { .unknown(reports: $0, of: all) },
            isMost(\.newer).map { .newer(reports: $0, of: all) },
        ].compactMap { $0 }
    }

    private static func bad(_ days: [DayOfPulse]) -> PulseFinding? {
        let week = days.suffix(7).reduce(0) { $0 + $1.bad }
        guard week >= fewestReports,
            let window = usual(days, before: days.count - 7, { $0.evidence + $0.bad > 0 })
        else {
            return nil
        }
        let ends = window.indices.dropFirst(6)
        let largest =
            ends.map { end in window[(end - 6)...end].reduce(0) { $0 + $1.bad } }.max() ?? 0
        return week >= 3 * max(largest, 1) && week >= largest + fewestReports
            ? .bad(reports: week, usual: largest) : nil
    }
}
