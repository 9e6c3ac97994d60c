import TestSupport
import Testing
import TokenHygiene

@Suite("The removal guard")
struct RemovalGuardTests {
    /// A feed of candidates only.
    private func feed(_ candidates: Int) -> RemovalProposal {
        RemovalProposal(
            candidates: candidates, counts: Counts(applied: candidates), tuples: candidates,
            tokens: candidates)
    }

    private func cause(
        _ proposal: RemovalProposal, _ history: RemovalHistory = RemovalHistory(),
        living: Int = 1_000_000, _ limits: GuardLimits = GuardLimits()
    ) -> GuardCause? {
        RemovalGuard(limits).cause(toHold: proposal, after: history) { min($0, living) }
    }

    @Test("the guard allows up to 100 rows in an hour, whatever their share")
    func floor() {
        #expect(cause(feed(100), living: 100) == nil)
        #expect(cause(feed(101), living: 101)?.gate == .partitionShare)
        #expect(cause(feed(5), RemovalHistory(thisHour: 96, day: 96), living: 5) != nil)
        #expect(cause(feed(101), living: 101, GuardLimits(floor: 101)) == nil)
    }

    @Test("the guard allows 1 % of the living rows without a history, and not one row more")
    func noHistory() {
        #expect(cause(feed(10_000)) == nil)
        #expect(
            cause(feed(10_001)) == .volumeWithoutHistory(removals: 10_001, living: 1_000_000))
    }

    @Test("the guard allows three times the 99th percentile of the hours, and not one row more")
    func volume() {
        let history = RemovalHistory(hours: Array(1...200))
        #expect(history.usualPeak == 198)
        #expect(cause(feed(594), history) == nil)
        #expect(cause(feed(595), history) == .volume(removals: 595, usualPeak: 198))
        // A short history has no percentile: its greatest hour replaces it, and 1 % is allowed.
        let short = RemovalHistory(hours: [40, 90])
        #expect(cause(feed(270), short, living: 20_000) == nil)
        #expect(cause(feed(271), short, living: 20_000)?.gate == .volume)
        #expect(cause(feed(271), short, living: 27_100) == nil)
    }

    @Test("the percentile is by nearest rank, and one wild hour of a hundred does not change it")
    func percentile() {
        #expect(RemovalHistory().usualPeak == 0)
        #expect(RemovalHistory(hours: [7]).usualPeak == 7)
        let calm = [Int](repeating: 5, count: 99)
        #expect(RemovalHistory(hours: calm + [9_000]).usualPeak == 5)
        #expect(RemovalHistory(hours: calm.dropLast() + [9_000, 9_000]).usualPeak == 9_000)
        #expect(!RemovalHistory(hours: calm).isMature)
    }

    @Test("the guard holds more than 5 % of the living rows in an hour, earlier removals included")
    func partitionShare() {
        let busy = RemovalHistory(hours: [Int](repeating: 5_000, count: 700))
        #expect(cause(feed(500), busy, living: 10_000) == nil)
        #expect(
            cause(feed(501), busy, living: 10_000)
                == .partitionShare(removals: 501, living: 10_000, percent: 5))
        var later = busy
        later.thisHour = 400
        later.day = 400
        #expect(cause(feed(100), later, living: 9_600) == nil)
        #expect(
            cause(feed(101), later, living: 9_600)
                == .partitionShare(removals: 501, living: 10_000, percent: 5))
    }

    @Test("the guard holds more than 10 % of the living rows in 24 hours")
    func dayShare() {
        let busy = RemovalHistory(hours: [Int](repeating: 5_000, count: 700), day: 900)
        #expect(cause(feed(100), busy, living: 9_100) == nil)
        #expect(
            cause(feed(101), busy, living: 9_100)
                == .dayShare(removals: 1_001, living: 10_000, percent: 10))
    }

    @Test("the guard counts living rows as far as needed, and not at all below the floor")
    func counting() throws {
        var asked: [Int] = []
        let removal = RemovalGuard()
        let history = RemovalHistory(hours: [Int](repeating: 400, count: 700))
        for candidates in [100, 200] {
            let found = removal.cause(toHold: feed(candidates), after: history) { limit in
                asked.append(limit)
                return limit
            }
            #expect(found == nil)
        }
        #expect(asked == [4_000, 2_000])
    }

    @Test("the guard holds where tokens, times or registrations look like a wrong set")
    func symptoms() {
        func feed(
            _ counts: Counts, outOfBounds: Int = 0, oneTime: Int = 0, deletes: Bool = false
        ) -> RemovalProposal {
            RemovalProposal(
                candidates: counts.applied, counts: counts, tuples: counts.total + outOfBounds,
                outOfBounds: outOfBounds, tokens: counts.total, tokensAtOneTime: oneTime,
                deletes: deletes)
        }
        #expect(cause(feed(Counts(applied: 25, unknown: 25))) == nil)
        let foreign = Counts(applied: 24, unknown: 26)
        #expect(cause(feed(foreign)) == .unknownTokens(count: 26, tuples: 50))
        #expect(cause(feed(Counts(applied: 1, unknown: 48))) == nil)
        // Where rows are deleted, tokens deleted before are unknown for a good reason.
        #expect(cause(feed(foreign, deletes: true), RemovalHistory(month: 1)) == nil)
        #expect(cause(feed(foreign, deletes: true))?.gate == .unknownTokens)
        #expect(cause(feed(foreign), RemovalHistory(month: 1))?.gate == .unknownTokens)

        #expect(cause(feed(Counts(applied: 25, newer: 25))) == nil)
        #expect(
            cause(feed(Counts(applied: 24, newer: 26, unknown: 10)))
                == .registeredLater(count: 26, known: 50))
        #expect(cause(feed(Counts(applied: 3, newer: 46, unknown: 10))) == nil)

        #expect(cause(feed(Counts(applied: 50), oneTime: 45)) == nil)
        #expect(
            cause(feed(Counts(applied: 50), oneTime: 46)) == .oneTime(count: 46, tokens: 50))
        #expect(cause(feed(Counts(applied: 49), oneTime: 49)) == nil)

        #expect(cause(feed(Counts(applied: 99), outOfBounds: 1)) == nil)
        #expect(
            cause(feed(Counts(applied: 98), outOfBounds: 2))
                == .outOfBounds(count: 2, tuples: 100))
        #expect(cause(feed(Counts(applied: 47), outOfBounds: 2)) == nil)
    }

    @Test(
        "from the floor on the guard holds a feed of almost unknown tokens, even without effect"
    )
    func foreign() {
        func feed(
            _ unknown: Int, already: Int = 0, applied: Int = 0, deletes: Bool = false
        ) -> RemovalProposal {
            RemovalProposal(
                candidates: applied,
                counts: Counts(applied: applied, already: already, unknown: unknown),
                tuples: unknown + already + applied, tokens: unknown + already + applied,
                deletes: deletes)
        }
        #expect(cause(feed(100)) == .unknownTokens(count: 100, tuples: 100))
        #expect(cause(feed(96, already: 4)) == .unknownTokens(count: 96, tuples: 100))
        #expect(cause(feed(95, already: 5)) == nil)
        #expect(cause(feed(99)) == nil)
        #expect(cause(feed(100), living: 0)?.gate == .unknownTokens)
        #expect(cause(feed(40), RemovalHistory(), GuardLimits(floor: 30))?.gate == .unknownTokens)
        #expect(
            cause(feed(39, applied: 1), RemovalHistory(), GuardLimits(floor: 30))?.gate
                == .unknownTokens)
        #expect(cause(feed(100, deletes: true), RemovalHistory(month: 5)) == nil)
        #expect(cause(feed(100, deletes: true), RemovalHistory(month: 4))?.gate == .unknownTokens)
        #expect(cause(feed(0), RemovalHistory(), GuardLimits(floor: 0)) == nil)
        let removal = RemovalGuard()
        #expect(removal.warning(about: feed(99), after: RemovalHistory())?.gate == .unknownTokens)
        #expect(removal.warning(about: feed(10), after: RemovalHistory()) != nil)
        #expect(removal.warning(about: feed(9), after: RemovalHistory()) == nil)
        #expect(removal.warning(about: feed(19, already: 1), after: RemovalHistory()) == nil)
    }

    @Test("the guard never holds a feed with known tokens that makes no row invalid")
    func nothingToLose() {
        let proposal = RemovalProposal(
            candidates: 0, counts: Counts(already: 510, unknown: 490), tuples: 2_000,
            outOfBounds: 1_000, tokens: 1_000, tokensAtOneTime: 1_000)
        #expect(cause(proposal, RemovalHistory(thisHour: 5_000, day: 5_000), living: 10) == nil)
    }

    @Test("the guard names every cause with its numbers in one line")
    func sentences() {
        let causes: [GuardCause] = [
            .volume(removals: 101, usualPeak: 20), .volumeWithoutHistory(removals: 101, living: 20),
            .partitionShare(removals: 101, living: 20, percent: 5),
            .dayShare(removals: 101, living: 20, percent: 7.5),
            .unknownTokens(count: 101, tuples: 20),
            .registeredLater(count: 101, known: 20), .oneTime(count: 101, tokens: 20),
            .outOfBounds(count: 101, tuples: 20),
        ]
        for cause in causes {
            let text = "\(cause)"
            #expect(text.contains("101") && text.contains("20") && !text.contains("\n"))
        }
        #expect("\(causes[2])".contains("5 %") && "\(causes[3])".contains("7.5 %"))
        let gates = Set(causes.map(\.gate)).union([.behind])
        #expect(gates == Set(GuardGate.allCases))
    }
}
