// The rate at which the guard holds correct feeds. The model: an app of some size loses a small
// share of its users every hour, more by day than by night, unevenly from hour to hour, and several
// times as many in the hours after a campaign. Sizes, rates and unevenness are drawn anew for every
// app. Every hour is one run, judged with the history of the hours before it, as the database would
// give it.

import Foundation
import TestSupport
import Testing
import TokenHygiene

@Suite("The removal guard in simulation")
struct GuardSimulationTests {
    /// Hours judged; more with PUSHSWEEP_TEST_GUARD_RUNS.
    private static let runs =
        Series.length("PUSHSWEEP_TEST_GUARD_RUNS", short: 40_000, long: 200_000)
    private static let hoursPerApp = 1_000

    @Test("the guard holds fewer than one in 10,000 hours of healthy apps")
    func falseHolds() {
        var random = SeededGenerator("guard simulation")
        var (judged, held) = (0, [String]())
        while judged < Self.runs {
            var app = SimulatedApp(&random)
            for _ in 0..<Self.hoursPerApp {
                if let cause = app.hour(&random) { held.append("\(app): \(cause)") }
                judged += 1
            }
        }
        print("guard simulation: \(held.count) of \(judged) hours held")
        for line in held.prefix(5) { print("  \(line)") }
        #expect(
            held.count * 10_000 < max(judged, 10_001),
            "seed \(random.seed): \(held.prefix(5))")
    }

    @Test("the guard holds the hour in which 95 % of an app look dead, whatever came before")
    func storms() {
        var random = SeededGenerator("guard storms")
        for _ in 0..<100 {
            var app = SimulatedApp(&random)
            for _ in 0..<Int.random(in: 0...800, using: &random) { _ = app.hour(&random) }
            guard app.living > 200 else { continue }
            #expect(app.judge(app.living * 95 / 100) != nil, "seed \(random.seed): \(app)")
        }
    }
}

/// An app with living rows, some of which die every hour and are replaced by new users.
private struct SimulatedApp: CustomStringConvertible {
    let living: Int
    private let perHour: Double
    private let unevenness: Double
    private let campaignsPerHour: Double
    private let campaign: Double
    /// Of the last 30 days.
    private var removed: [Int] = []
    /// The same without hours that removed nothing.
    private var busy: [Int] = []
    private var hours = 0

    init(_ random: inout SeededGenerator) {
        // 1,000 to 10 million users, of whom 1 to 15 % leave in a month.
        living = Int(pow(10, Double.random(in: 3...7, using: &random)))
        perHour = Double(living) * Double.random(in: 0.01...0.15, using: &random) / 720
        unevenness = Double.random(in: 0.1...0.5, using: &random)
        campaignsPerHour = 1 / Double.random(in: 84...336, using: &random)
        campaign = Double.random(in: 1...4, using: &random)
    }

    var description: String {
        "an app of \(living) with \(perHour) an hour, uneven by \(unevenness)"
    }

    /// One hour's removals, judged; removed unless held.
    mutating func hour(_ random: inout SeededGenerator) -> GuardCause? {
        let ofDay = Double(hours % 24) / 24
        let daily = 1 + 0.6 * sin(2 * .pi * ofDay)
        let noise = exp(unevenness * Self.normal(&random) - unevenness * unevenness / 2)
        let isCampaign = Double.random(in: 0..<1, using: &random) < campaignsPerHour
        let expected = perHour * daily * noise * (isCampaign ? campaign : 1)
        let candidates = Self.poisson(expected, &random)
        let cause = judge(candidates)
        removed.append(cause == nil ? candidates : 0)
        if removed[removed.count - 1] > 0 { busy.append(candidates) }
        hours += 1
        if removed.count == 720, removed.removeFirst() > 0 { busy.removeFirst() }
        return cause
    }

    /// The guard's judgement of a number of removals in the next hour.
    func judge(_ candidates: Int) -> GuardCause? {
        let history = RemovalHistory(
            hours: busy, day: removed.suffix(23).reduce(0, +))
        let proposal = RemovalProposal(
            candidates: candidates, counts: Counts(applied: candidates), tuples: candidates,
            tokens: candidates)
        return RemovalGuard().cause(toHold: proposal, after: history) { min($0, living) }
    }

    private static func normal(_ random: inout SeededGenerator) -> Double {
        let radius = (-2 * log(1 - Double.random(in: 0..<1, using: &random))).squareRoot()
        return radius * cos(2 * .pi * Double.random(in: 0..<1, using: &random))
    }

    /// By multiplication for small means, by the normal distribution for large ones.
    private static func poisson(_ mean: Double, _ random: inout SeededGenerator) -> Int {
        guard mean < 50 else {
            return max(0, Int((mean + mean.squareRoot() * normal(&random)).rounded()))
        }
        var (count, product) = (0, Double.random(in: 0..<1, using: &random))
        while product > exp(-mean) {
            count += 1
            product *= Double.random(in: 0..<1, using: &random)
        }
        return count
    }
}
