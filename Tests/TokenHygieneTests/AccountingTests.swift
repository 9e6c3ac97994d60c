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

    /// Counts with another figure in each field.
    private static var each: Counts {
        var counts = Counts(applied: 2, already: 3, newer: 5, unknown: 7, refused: 11)
        (counts.tuples, counts.held, counts.quarantined) = (41, 13, 17)
        return counts
    }

    @Test("counts are added and taken away figure by figure")
    func sums() {
        var twice = Self.each
        twice += Self.each
        #expect([twice.tuples, twice.applied, twice.already, twice.newer] == [82, 4, 6, 10])
        #expect([twice.unknown, twice.refused, twice.held, twice.quarantined] == [14, 22, 26, 34])
        twice -= Self.each
        #expect(twice == Self.each)
        #expect(Self.each.total == 28 && Self.each.usable == 24)
    }

    @Test("what was read and not judged stays when a forecast takes the place of the judgement")
    func judged() {
        var forecast = Counts(applied: 1, already: 1, newer: 1, unknown: 1, refused: 1)
        (forecast.tuples, forecast.held, forecast.quarantined) = (99, 99, 99)
        let counts = Self.each.judged(forecast)
        #expect([counts.tuples, counts.held, counts.quarantined] == [41, 13, 17])
        #expect(counts.total == 5)
    }

    @Test("a wrong sum is told with its four numbers")
    func wrongSum() {
        #expect(
            Self.each.imbalance
                == "41 tuples were read, but 28 were judged, 13 held and 17 quarantined")
    }

    @Test(
        "counts of reports are added figure by figure, and say nothing where none could be of Apple"
    )
    func reports() {
        var counts = ReportCounts()
        #expect(!counts.sayNothing)
        (counts.reports, counts.other, counts.otherPlatform, counts.unknownReasons) = (9, 2, 3, 4)
        #expect(counts.sayNothing)
        for part in [\ReportCounts.evidence, \.suspects, \.quarantined] {
            var told = counts
            told[keyPath: part] = 1
            #expect(!told.sayNothing)
        }
        (counts.evidence, counts.suspects, counts.quarantined) = (5, 6, 7)
        let once = counts
        counts += once
        #expect(
            [counts.reports, counts.evidence, counts.suspects, counts.other] == [18, 10, 12, 4])
        #expect([counts.quarantined, counts.otherPlatform, counts.unknownReasons] == [14, 6, 8])
    }

    @Test("a part that cannot be used keeps its first 8 KiB, and says whether that is all")
    func parts() {
        func part(_ count: Int, length: Int? = nil) -> QuarantinedPart {
            QuarantinedPart(
                place: 3, bytes: Array(repeating: 7, count: count), length: length, reason: "odd",
                token: DeviceToken([1]))
        }
        let (whole, cut) = (part(8_192), part(8_193))
        #expect(whole.bytes.count == 8_192 && whole.length == 8_192 && !whole.isCut)
        #expect(cut.bytes.count == 8_192 && cut.length == 8_193 && cut.isCut)
        #expect(part(2, length: 2).isCut == false && part(2, length: 3).isCut)
        #expect(whole.place == 3 && whole.reason == "odd" && whole.token == DeviceToken([1]))
    }

    @Test("an app and environment has the other one of Apple's two, and one of neither has none")
    func elsewhere() {
        func named(_ environment: String) -> Partition {
            Partition(app: "chat", environment: environment)
        }
        #expect(named("production").elsewhere == named("sandbox"))
        #expect(named("sandbox").elsewhere == named("production"))
        #expect(named("test").elsewhere == nil && Partition.noApp.elsewhere == nil)
        #expect("\(named("sandbox"))" == "chat/sandbox" && "\(Partition.noApp)" == "no app")
        #expect(named("sandbox") != Partition(app: "desk", environment: "sandbox"))
        #expect(
            Partition(app: "e\u{301}", environment: "x") != Partition(app: "é", environment: "x"))
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
