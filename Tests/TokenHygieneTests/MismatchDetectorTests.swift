import TestSupport
import Testing
import TokenHygiene

@Suite("The detector of an environment mismatch")
struct MismatchDetectorTests {
    /// Counts shuffled answers; the suspicion and the answer after which it came.
    private func run(
        _ answers: [TokenAcceptance]
    ) -> (suspicion: EnvironmentMismatch?, after: Int?) {
        var detector = MismatchDetector()
        for (index, answer) in answers.enumerated() {
            if let suspicion = detector.record(answer) { return (suspicion, index + 1) }
        }
        return (nil, nil)
    }

    @Test(
        "the gate takes a share as above 10 % from 12 of 50, 20 of 100, 34 of 200, 130 of 1000 on",
        arguments: [(12, 50), (20, 100), (34, 200), (130, 1000)])
    func bound(least: Int, total: Int) {
        #expect(MismatchDetector.leastShare(of: least, in: total) > MismatchDetector.tolerance)
        #expect(MismatchDetector.leastShare(of: least - 1, in: total) <= MismatchDetector.tolerance)
    }

    @Test("a share of no answers is nothing, and the largest share is all")
    func edges() {
        #expect(MismatchDetector.leastShare(of: 0, in: 0) == 0)
        #expect(MismatchDetector.leastShare(of: 0, in: 50) == 0)
        #expect((0.8...1).contains(MismatchDetector.leastShare(of: 50, in: 50)))
    }

    @Test("the gate shuts at the 50th answer with 12 bad ones, not with 11")
    func firstTest() {
        let bad = [TokenAcceptance](repeating: .bad, count: 12)
        let known = [TokenAcceptance](repeating: .known, count: 38)
        #expect(run(bad + known).suspicion == .badShare(bad: 12, answers: 50))
        #expect(run(bad + known).after == 50)
        #expect(run(bad.dropLast() + known + [.known]).suspicion == nil)
    }

    @Test("the gate shuts at the 50th answer with 95 % bad tokens, in any order")
    func storm() {
        var random = SeededGenerator("wrong environment")
        for _ in 0..<500 {
            let answers = (0..<50).map { _ in
                Int.random(in: 0..<100, using: &random) < 95 ? TokenAcceptance.bad : .known
            }
            #expect(run(answers).after == 50, "seed \(random.seed)")
        }
    }

    @Test("the gate judges only at 50, 100, 200, 400 answers and so on")
    func looks() {
        for total in [51, 99, 101, 199, 201, 399] {
            // Half of the tokens are bad, but all bad ones come after the last test.
            let look = [50, 100, 200].last { $0 <= total } ?? 0
            let answers =
                [TokenAcceptance](repeating: .known, count: look)
                + [TokenAcceptance](repeating: .bad, count: total - look)
            #expect(run(answers).suspicion == nil, "\(total)")
        }
        let late =
            [TokenAcceptance](repeating: .known, count: 200)
            + [TokenAcceptance](repeating: .bad, count: 400)
        #expect(run(late).after == 400)
    }

    @Test("the gate shuts when APNs knew none of the first 50 tokens, for whatever reason")
    func nothingKnown() {
        let refused = [TokenAcceptance](repeating: .refused, count: 50)
        #expect(run(refused).suspicion == .nothingKnown(bad: 0, answers: 50))
        #expect(run(refused.dropLast() + [.known]).suspicion == nil)
        let bad = [TokenAcceptance](repeating: .bad, count: 50)
        #expect(run(bad).suspicion == .nothingKnown(bad: 50, answers: 50))
    }

    @Test("the gate stays shut and reports it once")
    func shut() {
        var detector = MismatchDetector()
        var said = 0
        for _ in 0..<50 where detector.record(.bad) != nil { said += 1 }
        for _ in 0..<1_000 where detector.record(.known) != nil { said += 1 }
        #expect(said == 1)
        #expect(detector.suspicion == .nothingKnown(bad: 50, answers: 50))
    }

    @Test("the gate allows the requests that are missing to the first judgement, then any number")
    func allowance() {
        var detector = MismatchDetector()
        for answered in 0..<50 {
            #expect(detector.allowance == 50 - answered)
            _ = detector.record(.known)
        }
        #expect(detector.allowance == nil)
    }

    @Test("the gate shuts for a population with 5 % bad tokens in practically no long run")
    func falseTrips() {
        var random = SeededGenerator("false trips of the mismatch detector")
        let runs = 2_000
        var trips = 0
        for _ in 0..<runs {
            var detector = MismatchDetector()
            for _ in 0..<1_600
            where detector.record(random.next() % 100 < 5 ? .bad : .known) != nil {
                trips += 1
            }
        }
        // The chance is 5.0e-6 at the first look (12 or more of 50 at 5 %) and 1e-7 at the second:
        // three trips in 2000 runs have a chance of one in five million.
        #expect(trips < 3, "seed \(random.seed): \(trips) of \(runs)")
    }

    @Test("the gate shuts at the tolerated 10 % in about 1 of 100 runs, the price of an early stop")
    func tripsAtTheTolerance() {
        var random = SeededGenerator("trips at the tolerance")
        let runs = 2_000
        var trips = 0
        for _ in 0..<runs {
            var detector = MismatchDetector()
            for _ in 0..<1_600
            where detector.record(random.next() % 10 == 0 ? .bad : .known) != nil {
                trips += 1
            }
        }
        #expect(trips < runs * 2 / 100, "seed \(random.seed): \(trips) of \(runs)")
    }

    @Test("the gate always shuts for a population with 40 % bad tokens")
    func detection() {
        var random = SeededGenerator("detection")
        for _ in 0..<500 {
            let answers = (0..<200).map { _ in
                Int.random(in: 0..<100, using: &random) < 40 ? TokenAcceptance.bad : .known
            }
            #expect(run(answers).suspicion != nil, "seed \(random.seed)")
        }
    }
}
