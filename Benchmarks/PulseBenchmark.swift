// How often what `Pulse` says of an app's evidence is wrong, and how soon it tells that evidence stopped. Days are
// made up: a rate of the app, a week with a quieter end, ten holidays, and APNs' own waves, which change the rate by
// up to three times. The figure is the most false findings of an app in a year, of the sizes that were tried.

import Foundation
import TokenHygiene

/// The figure `pulse`.
struct PulseBenchmark {
    private static let sizes = [0.1, 0.3, 1, 3, 10, 100, 1_000, 20_000]

    private let context: BenchmarkContext
    private var random = PulseRandom(state: 20_261_128)

    init(_ context: BenchmarkContext) { self.context = context }

    /// False findings for each app and year, at most 1; a stop is told within two usual gaps by its rule.
    mutating func run() throws -> Figure {
        let apps = max(4, Int(1_000 * context.scale) / Self.sizes.count)
        var (most, extra) = (0.0, [String: Double]())
        for size in Self.sizes {
            var (wrong, found) = (0, [Double]())
            for _ in 0..<apps {
                let days = year(size)
                wrong += beginnings(of: days)
                if let wait = wait(in: days) { found.append(wait) }
            }
            let each = Double(wrong) / Double(apps)
            most = max(most, each)
            extra["wrong-at-\(size)"] = each
            extra["days-to-tell-at-\(size)"] = found.isEmpty ? -1 : median(found)
            context.note("\(size) reports a day, \(apps) apps: \(each) false findings a year")
        }
        var figure = Figure(
            name: "pulse", value: most, unit: "false findings a year", target: "at most 1",
            met: most <= 1)
        figure.extra = extra
        return figure
    }

    /// A year and what teaches before it.
    private mutating func year(_ size: Double) -> [DayOfPulse] {
        let weekend = [random.unit(0.3, 1.1), random.unit(0.3, 1.1)]
        let holidays = Set((0..<10).map { _ in Int(random.unit(0, 365)) })
        var wave = 0.0
        return (0..<365 + Pulse.most).map { day in
            wave = min(1.0986, max(-1.0986, wave * 0.9 + random.normal() * 0.35))
            let rate =
                size * (day % 7 < 5 ? 1 : weekend[day % 7 - 5]) * exp(wave)
                * (holidays.contains(day % 365) ? 0.4 : 1)
            let evidence = random.poisson(rate)
            return DayOfPulse(
                evidence: evidence, unknown: random.part(evidence, 0.1),
                newer: random.part(evidence, 0.05), bad: random.poisson(rate / 20))
        }
    }

    /// How often a finding began that is none.
    private func beginnings(of days: [DayOfPulse]) -> Int {
        var (count, before) = (0, Set<String>())
        for end in Pulse.most...days.count {
            let now = Set(Pulse.findings(Array(days[..<end])).map(Self.kind))
            count += now.subtracting(before).count
            before = now
        }
        return count
    }

    private static func kind(_ finding: PulseFinding) -> String {
        switch finding {
        case .stopped: "stopped"
        case .surge: "surge"
        case .unknown: "unknown"
        case .newer: "newer"
        case .bad: "bad"
        }
    }

    /// Days after a stop at some day until it is told; nil where the app has too little evidence.
    private mutating func wait(in days: [DayOfPulse]) -> Double? {
        let stop = Pulse.most + Int(random.unit(20, 300))
        for silence in 1...120 {
            let all = days[..<stop] + Array(repeating: DayOfPulse(), count: silence)
            if Pulse.findings(Array(all)).contains(where: { Self.kind($0) == "stopped" }) {
                return Double(silence)
            }
        }
        return nil
    }
}

/// Numbers that are the same in each run (xorshift64*).
private struct PulseRandom {
    var state: UInt64

    mutating func unit(_ from: Double, _ to: Double) -> Double {
        state ^= state >> 12
        state ^= state << 25
        state ^= state >> 27
        return from + (to - from) * Double((state &* 2_685_821_657_736_338_717) >> 11)
            / 9_007_199_254_740_992
    }

    /// The sum of twelve even numbers is close to a normal one.
    mutating func normal() -> Double { (0..<12).reduce(-6) { sum, _ in sum + unit(0, 1) } }

    mutating func poisson(_ rate: Double) -> Int {
        guard rate < 40 else { return max(0, Int(rate + rate.squareRoot() * normal() + 0.5)) }
        var (count, left) = (0, 1.0)
        let least = exp(-rate)
        while true {
            left *= unit(0, 1)
            guard left > least else { return count }
            count += 1
        }
    }

    /// How many of some have a property with this chance.
    mutating func part(_ count: Int, _ chance: Double) -> Int {
        min(count, poisson(Double(count) * chance))
    }
}
