import TestSupport
import Testing

@testable import TokenHygiene

@Suite("The pulse of an app's evidence")
struct PulseTests {
    private static func days(_ evidence: [Int], unknown: Int = 0, newer: Int = 0) -> [DayOfPulse] {
        evidence.map { DayOfPulse(evidence: $0, unknown: min(unknown, $0), newer: min(newer, $0)) }
    }

    private static func steady(_ count: Int, _ evidence: Int = 10) -> [DayOfPulse] {
        days(Array(repeating: evidence, count: count))
    }

    @Test(
        "evidence that came each day has stopped after two whole days without any, and not before")
    func stopped() {
        let usual = Self.steady(20)
        #expect(Pulse.findings(usual).isEmpty)
        #expect(Pulse.findings(usual + Self.days([0])).isEmpty)
        #expect(Pulse.findings(usual + Self.days([0, 0])) == [.stopped(days: 2, usual: 0)])
        #expect(Pulse.findings(usual + Self.days([0, 0]), today: DayOfPulse(evidence: 1)).isEmpty)
        #expect(
            Pulse.findings(usual + Self.days(Array(repeating: 0, count: Pulse.most))) == [
                .stopped(days: Pulse.most, usual: 0)
            ])
    }

    @Test("evidence that comes once a week has stopped after two weeks")
    func weekly() {
        let usual = Self.days((0..<10).flatMap { _ in [3, 0, 0, 0, 0, 0, 0] })
        #expect(Pulse.findings(usual + Self.days([0, 0, 0, 0, 0, 0, 0])).isEmpty)
        #expect(
            Pulse.findings(usual + Self.days(Array(repeating: 0, count: 8))) == [
                .stopped(days: 14, usual: 6)
            ])
    }

    @Test("of an app with little evidence, or of less than 14 days, nothing is said of its rhythm")
    func little() {
        let silence = Self.days(Array(repeating: 0, count: 40))
        #expect(Pulse.findings([]).isEmpty && Pulse.findings(silence).isEmpty)
        #expect(Pulse.findings(Self.steady(Pulse.fewest - 1) + silence).isEmpty)
        #expect(!Pulse.findings(Self.steady(Pulse.fewest) + silence).isEmpty)
        let rare = Self.days((0..<56).map { $0 % 8 == 0 ? 5 : 0 })
        #expect(Pulse.findings(rare + silence).isEmpty)
    }

    @Test("what was before the last eight weeks teaches nothing")
    func forgets() {
        // Once a week long ago, each day since.
        let old = Self.days((0..<10).flatMap { _ in [3, 0, 0, 0, 0, 0, 0] })
        #expect(
            Pulse.findings(old + Self.steady(Pulse.most) + Self.days([0, 0])) == [
                .stopped(days: 2, usual: 0)
            ])
        #expect(Pulse.findings(old + Self.steady(Pulse.most - 7) + Self.days([0, 0])).isEmpty)
    }

    @Test("a day with four times what a large day has is told, and one with three times is not")
    func surge() {
        let usual = Self.days((0..<30).map { 100 + 50 * ($0 % 3) })
        #expect(Pulse.findings(usual + Self.days([600])).isEmpty)
        #expect(Pulse.findings(usual + Self.days([800])) == [.surge(reports: 800, usual: 200)])
        // One peak before is not usual, and what a day itself has says nothing of what is usual.
        let peak = Self.steady(Pulse.fewest - 1, 100) + Self.days([800])
        #expect(Pulse.findings(peak + Self.days([800])) == [.surge(reports: 800, usual: 100)])
        #expect(Pulse.findings(Self.steady(Pulse.fewest - 1, 100) + Self.days([800])).isEmpty)
        // Of a small app a few reports more are nothing.
        #expect(Pulse.findings(Self.steady(30, 1) + Self.days([90])).isEmpty)
    }

    @Test(
        "evidence that fits no row is told from the first week on, and not where it was so before")
    func shares() {
        #expect(
            Pulse.findings([DayOfPulse(evidence: 40, unknown: 21)]) == [
                .unknown(reports: 21, of: 40)
            ])
        #expect(
            Pulse.findings([], today: DayOfPulse(evidence: 40, unknown: 40)) == [
                .unknown(reports: 40, of: 40)
            ])
        #expect(Pulse.findings([DayOfPulse(evidence: 40, unknown: 20)]).isEmpty)
        #expect(Pulse.findings([DayOfPulse(evidence: 19, unknown: 19)]).isEmpty)
        #expect(
            Pulse.findings([DayOfPulse(evidence: 40, newer: 40)]) == [.newer(reports: 40, of: 40)])
        let strange = Self.days(Array(repeating: 10, count: 6), unknown: 8)
        #expect(Pulse.findings(Self.steady(30) + strange) == [.unknown(reports: 48, of: 60)])
        #expect(
            Pulse.findings(Self.days(Array(repeating: 10, count: 30), unknown: 4) + strange).isEmpty
        )
    }

    @Test("bad tokens are told once they are three times those of the largest week")
    func bad() {
        func week(_ bad: Int) -> [DayOfPulse] {
            Array(repeating: DayOfPulse(evidence: 5, bad: bad), count: 7)
        }
        let usual = (0..<6).flatMap { _ in week(4) }
        func found(_ usual: [DayOfPulse], _ bad: Int) -> [PulseFinding] {
            Pulse.findings(usual + week(bad).dropLast(), today: week(bad)[0])
        }
        // A sender that hears of nothing else has a rhythm of its own.
        let alone = Array(repeating: DayOfPulse(bad: 1), count: 42)
        #expect(
            Pulse.findings(alone + Array(repeating: DayOfPulse(bad: 9), count: 6)).contains(
                .bad(reports: 54, usual: 7)))
        #expect(found(usual, 11).isEmpty)
        #expect(found(usual, 12) == [.bad(reports: 84, usual: 28)])
        #expect(found((0..<6).flatMap { _ in week(0) }, 2).isEmpty)
        #expect(found((0..<6).flatMap { _ in week(0) }, 3) == [.bad(reports: 21, usual: 0)])
    }

    @Test("whatever the days are, it says something or nothing and never traps")
    func anything() {
        var random = SeededGenerator("days of evidence")
        print("days of evidence: seed \(random.seed)")
        for _ in 0..<500 {
            let days = (0..<Int.random(in: 0...80, using: &random)).map { _ in
                let evidence =
                    Bool.random(using: &random) ? Int.random(in: 0...1_000_000, using: &random) : 0
                return DayOfPulse(
                    evidence: evidence,
                    unknown: Int.random(in: 0...max(evidence, 1), using: &random),
                    newer: Int.random(in: 0...max(evidence, 1), using: &random),
                    bad: Int.random(in: 0...100, using: &random))
            }
            let found = Pulse.findings(days)
            #expect(found.count <= 5 && Set(found).count == found.count)
            #expect(Pulse.findings(days) == found)
        }
    }
}
