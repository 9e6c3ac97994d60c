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
        #expect(MismatchDetector.leastShare(of: 0, in: total) == 0)
        #expect((0.8...1).contains(MismatchDetector.leastShare(of: total, in: total)))
    }

    @Test("the gate shuts at the 50th answer with 12 bad ones, not with 11")
    func firstTest() {
        let bad = [TokenAcceptance](repeating: .bad, count: 12)
        let known = [TokenAcceptance](repeating: .known, count: 38)
        #expect(run(bad + known).suspicion == .badShare(bad: 12, answers: 50))
        #expect(run(bad + known).after == 50)
        #expect(run(bad.dropLast() + known + [.known]).suspicion == nil)
    }

    @Test(
        "the gate shuts at the 50th answer with 95 % bad tokens in any order, and by the 200th with 40",
        arguments: [(95, 50), (40, 200)])
    func storm(percent: Int, latest: Int) {
        var random = SeededGenerator("wrong environment")
        for _ in 0..<500 {
            let answers = (0..<latest).map { _ in
                Int.random(in: 0..<100, using: &random) < percent ? TokenAcceptance.bad : .known
            }
            #expect((50...latest).contains(run(answers).after ?? 0), "seed \(random.seed)")
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

    // The chance at 5 % is 5.0e-6 at the first look (12 or more of 50) and 1e-7 at the second: three
    // trips in 2000 runs have a chance of one in five million.
    @Test(
        "the gate shuts in practically no long run at 5 % bad tokens, in about 1 of 100 at 10 %",
        arguments: [(5, 2), (10, 39)] as [(UInt64, Int)])
    func falseTrips(percent: UInt64, most: Int) {
        var random = SeededGenerator("false trips of the mismatch detector")
        var trips = 0
        for _ in 0..<2_000 {
            var detector = MismatchDetector()
            for _ in 0..<1_600
            where detector.record(random.next() % 100 < percent ? .bad : .known) != nil {
                trips += 1
            }
        }
        #expect(trips <= most, "seed \(random.seed): \(trips) of 2000")
    }
}
