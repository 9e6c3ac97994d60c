import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@Suite("The accounting of a feed")
struct AccountingTests {
    private func evidence(_ statements: Int) throws -> TokenEvidence {
        TokenEvidence(
            token: try #require(DeviceToken([1])), time: EpochMilliseconds(5),
            statements: statements)
    }

    @Test("each statement counts once, however many rows and repetitions")
    func counting() throws {
        var counts = Counts()
        counts.count(try evidence(1), verdicts: [.mark, .already, .newer])
        counts.count(try evidence(3), verdicts: [.delete])
        counts.count(try evidence(2), verdicts: [.advance, .newer])
        counts.count(try evidence(4), verdicts: [.newer])
        counts.count(try evidence(5), verdicts: [])
        #expect(counts == Counts(applied: 2, already: 4, newer: 4, unknown: 5))
        #expect(counts.total == 15)
    }

    @Test("a wrong sum is named")
    func imbalance() {
        var counts = Counts()
        #expect(counts.imbalance == nil)
        (counts.tuples, counts.held, counts.quarantined) = (5, 1, 1)
        #expect(counts.imbalance?.contains("5 tuples") == true)
        counts += Counts(applied: 1, unknown: 2)
        #expect(counts.imbalance == nil && counts.usable == 4 && counts.total == 3)
        var less = counts
        less -= Counts(unknown: 2)
        #expect(counts.judged(Counts(applied: 1)) == less)
    }
}

@Suite("Evidence")
struct EvidenceTests {
    private let now = EpochMilliseconds(1_700_000_000_000)

    private func rejection(_ seconds: UInt32, token: [UInt8] = [1]) -> EvidenceRejection? {
        EvidenceBounds(now: now)
            .rejection(of: FeedbackTuple(time: EpochSeconds(seconds), token: DeviceToken(token)))
    }

    @Test("evidence outside the possible times, or without a token, is refused")
    func bounds() {
        #expect(rejection(1_700_000_000) == nil)
        #expect(rejection(1_243_814_400) == nil)
        #expect(rejection(1_243_814_399) == .tooEarly)
        // Five minutes: a sender that writes local time as UTC is at least half an hour ahead.
        #expect(rejection(1_700_000_300) == nil)
        #expect(rejection(1_700_000_301) == .future)
        #expect(rejection(1 << 31) == .future)
        #expect(rejection(.max) == .future)
        #expect(rejection(0) == .zeroTime)
        #expect(rejection(1_700_000_000, token: []) == .emptyToken)
    }

    @Test("evidence of one token has the latest time, adds up statements and comes in token order")
    func grouping() throws {
        let one = try #require(DeviceToken([1]))
        let two = try #require(DeviceToken([2]))
        let items = [(two, 5), (one, 9), (two, 8), (two, 7)].map {
            TokenEvidence(token: $0.0, time: EpochMilliseconds($0.1))
        }
        var list = EvidenceList(items)
        let first = list.next(1)
        #expect(first == [TokenEvidence(token: one, time: EpochMilliseconds(9))])
        #expect(
            list.next(9)
                == [TokenEvidence(token: two, time: EpochMilliseconds(8), statements: 3)])
        #expect(list.next(9).isEmpty)
        var resumed = EvidenceList(items, after: one)
        #expect(resumed.next(9).map(\.token) == [two])
    }

    @Test("seconds and milliseconds of one instant are the same time")
    func units() {
        #expect(EpochMilliseconds(EpochSeconds(1_700_000_000)) == now)
        #expect(EpochMilliseconds(EpochSeconds(.max)).rawValue == 4_294_967_295_000)
        #expect(EpochMilliseconds(.max).advanced(by: 1) == EpochMilliseconds(.max))
    }
}
