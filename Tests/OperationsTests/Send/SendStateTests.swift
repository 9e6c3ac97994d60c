import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@testable import APNsConnection
@testable import Looks
@testable import Operations
@testable import PushQueue

extension SendState {
    /// Hands all rows of the next claim over, or learns that others have them.
    fileprivate mutating func handedOver(isOurs: Bool, at now: EpochMilliseconds) {
        let claim = nextHandOver(streams: 1_000, pace: { nil })?.claim
        handedOver(
            isOurs ? claim.map { PushQueue.HandOver(slice: $0, rest: nil, now: now) } : nil,
            at: now)
    }

    /// Enters an outcome that is heard when the rows were handed over.
    fileprivate mutating func record(_ outcome: ProviderOutcome) -> Bool {
        record(outcome, at: EpochMilliseconds(start))
    }
}

@Suite("The decisions of a sender")
struct SendStateTests {
    private static let now = EpochMilliseconds(start)

    private static func state(limit: Int? = nil, rate: Double? = nil) -> SendState {
        SendState(
            Partition(app: "chat", environment: "production"), gateway: "gateway", limit: limit,
            rate: rate)
    }

    /// A claim of rows with keys from 1 on.
    private static func claim(_ count: Int) -> Batch {
        let rows = (1...count).map { number in
            DueRow(
                key: Int64(number),
                notification: PushNotification(
                    row: Int64(number), token: .numbered(number),
                    id: APNsID(space: 1, key: Int64(number)), payload: Array("{}".utf8)))
        }
        return Batch(id: 1, Partition(app: "chat", environment: "production"), rows)
    }

    private static func outcome(
        _ item: PushNotification, _ kind: ProviderOutcome.Kind
    ) -> ProviderOutcome {
        ProviderOutcome(key: item.key, kind: kind)
    }

    private static func accepted(_ item: PushNotification) -> ProviderOutcome {
        outcome(
            item, .answered(ProviderAnswer(status: 200)))
    }

    /// A state whose claim of `count` rows is handed over, and the first items for the connections.
    private static func sending(_ count: Int) -> (SendState, [PushNotification]) {
        var state = state()
        state.take(claim(count), at: 0, now: now)
        state.handedOver(isOurs: true, at: now)
        let items = state.nextItems { nil }
        return (state, items)
    }

    @Test("a gateway without an answer gets three notifications, and the sender claims no more")
    func firstThree() {
        let fresh = Self.state()
        #expect(fresh.claimSize == 3 && fresh.freePlace == 0)
        var (state, items) = Self.sending(3)
        #expect(items.count == 3)
        #expect(state.freePlace == nil && !state.isIdle)
        for item in items {
            let isEnded = state.record(Self.accepted(item))
            #expect(!isEnded)
        }
        #expect(state.freePlace == 1 && state.claimSize > 3)
        #expect(state.placesToWrite(isDue: false) == [0])
        #expect(state.batch(at: 0)?.results.map(\.outcome) == [.sent, .sent, .sent])
    }

    @Test("the sender claims no more rows than a limit and two seconds of a rate allow")
    func bounds() {
        var limited = Self.state(limit: 2)
        #expect(limited.claimSize == 2)
        limited.take(Self.claim(2), at: 0, now: Self.now)
        #expect(limited.claimSize == 0)
        #expect(Self.state(rate: 0.5).claimSize == 1)
    }

    @Test(
        "a stop returns rows that no connection has, and keeps the outcome of the others"
    )
    func halts() {
        var (state, items) = Self.sending(5)
        #expect(items.count == 3)
        let outage = RunFailure(.unreachable, .send, "gone")
        let first = state.halt(outage, isOutage: true)
        let second = state.halt(RunFailure(.pending, .send, "told to stop"))
        #expect(first && !second)
        #expect(state.stop == outage && state.isOutage)
        state.withdraw([items[2]])
        state.returnUnsent()
        _ = state.record(Self.accepted(items[0]))
        _ = state.record(Self.outcome(items[1], .unknown("cut")))
        let results = state.batch(at: 0)?.results ?? []
        #expect(results.count == 5 && state.isIdle)
        #expect(results.filter { $0.outcome == .returned }.map(\.key).sorted() == [3, 4, 5])
        // A wrong setting takes precedence, because waiting does not correct it.
        let wrong = RunFailure(.configuration, .send, "wrong topic")
        let third = state.halt(wrong)
        #expect(third && state.stop == wrong && !state.isOutage)
    }

    @Test("after outages no row that was returned counts as waiting, and the sender claims")
    func afterOutages() {
        var state = Self.state()
        for _ in 0..<2 {
            // Of the first claim two are on the wire, one is withdrawn and two are ready; the second is held.
            state.take(Self.claim(5), at: 0, now: Self.now)
            state.handedOver(isOurs: true, at: Self.now)
            let items = state.nextItems { nil }
            state.take(Self.claim(4), at: 1, now: Self.now)
            #expect(items.count == 3 && state.load.waiting == 6 * 2)
            _ = state.halt(RunFailure(.unreachable, .send, "gone"), isOutage: true)
            state.withdraw([items[2]])
            state.returnUnsent()
            for item in items[..<2] { _ = state.record(Self.outcome(item, .unknown("cut"))) }
            #expect(state.load.waiting == 0 && state.load.bytes == 0 && state.isIdle)
            for place in 0...1 {
                if let claim = state.batch(at: place)?.claim { state.wrote(claim, at: place) }
                state.releaseIfDone(place)
            }
            state.startAgain()
            #expect(state.freePlace == 0 && state.claimSize == 3)
        }
    }

    @Test(
        "returns a row whose token is called bad after sending stopped, whatever the detector has found"
    )
    func lateSuspect() {
        var (state, items) = Self.sending(3)
        _ = state.record(Self.accepted(items[0]))
        _ = state.halt(RunFailure(.pending, .send, "told to stop"))
        _ = state.record(
            Self.outcome(items[1], .answered(ProviderAnswer(.badDeviceToken))))
        #expect(state.batch(at: 0)?.results.map(\.outcome) == [.sent, .returned])
        #expect(state.batch(at: 0)?.suspects.isEmpty == true)
    }

    @Test(
        "a bad token is heard of with its final result, and a good one only where it was called bad"
    )
    func heard() {
        for decision in [SendBatch.SuspectDecision.bad, .returned, .deferred] {
            var state = Self.state()
            state.take(
                Self.claim(3), at: 0, now: Self.now, suspected: [.numbered(2), .numbered(9)])
            state.handedOver(isOurs: true, at: Self.now)
            let items = state.nextItems(pace: { nil })
            _ = state.record(Self.outcome(items[0], .answered(ProviderAnswer(.badDeviceToken))))
            for item in items[1...] {
                _ = state.record(Self.outcome(item, .answered(ProviderAnswer(status: 200))))
            }
            let good: [EvidenceSource] =
                items[1...].contains { $0.token == .numbered(2) } ? [.accepted] : []
            #expect(state.batch(at: 0)?.heard.map(\.source) == good)
            var batch = state.batch(at: 0)
            _ = batch?.decide(decision)
            #expect(
                batch?.heard.map(\.source) == good + (decision == .bad ? [.badDeviceToken] : []))
            #expect(batch?.heard.deadCount == 0)
        }
    }

    @Test("a gateway without any answer has failed after nine notifications")
    func silence() {
        var state = Self.state()
        var unknown = 0
        while state.stop == nil && unknown < 100 {
            state.take(Self.claim(state.claimSize), at: 0, now: Self.now)
            state.handedOver(isOurs: true, at: Self.now)
            for item in state.nextItems(pace: { nil }) {
                _ = state.record(Self.outcome(item, .unknown("no answer")))
                unknown += 1
            }
            if state.isInDoubt { _ = state.judgeGateway() }
            if let claim = state.batch(at: 0)?.claim { state.wrote(claim, at: 0) }
            state.releaseIfDone(0)
        }
        #expect(unknown == GatewayDoubt.most && state.isOutage)
    }

    /// Sends a claim of `count` rows of which each gets an answer, as far as the gateway is let. Returns the
    /// state and the outcomes of the rows in the order of their keys.
    private static func results(
        _ count: Int, atEnd: Bool = true, _ answer: (Int) -> ProviderAnswer
    ) -> (state: SendState, results: [Outcome]) {
        var state = state()
        state.take(claim(count), at: 0, now: now)
        state.handedOver(isOurs: true, at: now)
        var number = 0
        while true {
            let items = state.nextItems { nil }
            guard !items.isEmpty else { break }
            for item in items {
                _ = state.record(outcome(item, .answered(answer(number))))
                number += 1
            }
            if state.isInDoubt, state.judgeGateway() { state.returnUnsent() }
        }
        if atEnd, state.judgeGateway(atEnd: true) { state.returnUnsent() }
        state.decideRefusals(at: 0, now: true)
        let results = state.batch(at: 0)?.results.sorted { $0.key < $1.key } ?? []
        return (state, results.map(\.outcome))
    }

    @Test(
        "where every row is refused for the gateway's sake, nine were tried and no row has had an attempt",
        arguments: [
            ProviderReason.tooManyProviderTokenUpdates, .serviceUnavailable, .internalServerError,
        ])
    func refusesAll(_ reason: ProviderReason) {
        let (state, results) = Self.results(40) { _ in ProviderAnswer(reason) }
        #expect(results.count == 40 && !results.contains { $0.isAttempt })
        #expect(results.count { $0.state == .retry } == GatewayDoubt.most)
        #expect(results.count { $0 == .returned } == 40 - GatewayDoubt.most)
        #expect(state.stop?.exit == .pending && state.isOutage)
        #expect(state.stop?.description.contains("\(reason)") == true)
    }

    @Test(
        "where the queue ends before nine are tried, a gateway that served none has failed all the same"
    )
    func refusesFew() {
        let (state, results) = Self.results(2) { _ in ProviderAnswer(.internalServerError) }
        #expect(results.map(\.state) == [.retry, .retry] && !results.contains { $0.isAttempt })
        #expect(state.stop?.exit == .pending)
    }

    @Test(
        "a refused row has had its attempt where the gateway serves others, at the tenth the last one"
    )
    func refusesSome() {
        let (state, results) = Self.results(12) {
            $0 == 4 || $0 == 11 ? ProviderAnswer(.internalServerError) : ProviderAnswer(status: 200)
        }
        #expect(state.stop == nil)
        let refused = results.filter { $0.state != .sent }
        #expect(refused.count == 2 && refused.allSatisfy { $0.state == .retry && $0.isAttempt })
    }

    @Test("the sender remembers unprocessed rows until they are claimed again")
    func unprocessed() {
        var (state, items) = Self.sending(3)
        _ = state.record(Self.accepted(items[0]))
        _ = state.record(Self.outcome(items[1], .untouched))
        #expect(state.unprocessed == [2])
        state.take(Self.claim(3), at: 1, now: Self.now)
        #expect(state.unprocessed.isEmpty)
    }

    /// A gateway that has answered enough for the detector.
    private static func served() -> SendState {
        var state = state()
        while state.rules.detector.allowance != nil {
            let place = state.freePlace ?? 0
            state.take(claim(state.claimSize), at: place, now: now)
            state.handedOver(isOurs: true, at: now)
            for item in state.nextItems(pace: { nil }) { _ = state.record(accepted(item)) }
            if let claim = state.batch(at: place)?.claim { state.wrote(claim, at: place) }
            state.releaseIfDone(place)
        }
        return state
    }

    @Test(
        "a slice is twice the free streams, an eighth of all at the least, and none without a free one",
        arguments: [
            // streams, on their way, rows of the slice; nil for none
            (3, 0, 6), (100, 0, 200), (100, 40, 120), (100, 90, 20), (100, 95, 12), (100, 100, nil),
            (100, 130, nil), (2_000, 0, 2_000), (2_000, 1_990, 10), (1, 0, 2),
        ] as [(Int, Int, Int?)])
    func slices(streams: Int, onTheWay: Int, rows: Int?) {
        var state = Self.served()
        if onTheWay > 0 {
            state.take(Self.claim(onTheWay), at: 0, now: Self.now)
            state.handedOver(isOurs: true, at: Self.now)
            #expect(state.nextItems(pace: { nil }).count == onTheWay)
        }
        state.take(Self.claim(900), at: 1, now: Self.now)
        let next = state.nextHandOver(streams: streams, pace: { nil })
        #expect(next?.rows == rows)
    }

    @Test(
        "at a rate a slice is what may be given at once, half of what the limiter saves up at the least",
        arguments: [
            (500.0, 24, nil), (500.0, 25, 25), (500.0, 50, 50), (2.0, 0, nil), (2.0, 1, 1),
            (20_000.0, 2_000, 200),
        ] as [(Double, Int, Int?)])
    func slicesAtARate(rate: Double, allowed: Int, rows: Int?) {
        var state = Self.state(rate: rate)
        state.take(Self.claim(3), at: 0, now: Self.now)
        // Before the first answer three are on the wire at once.
        let first = state.nextHandOver(streams: 100, pace: { allowed })
        #expect(first?.rows == rows.map { min($0, 3) })
    }

    @Test("the rest of a claim stays held under its own number, in the order of the keys")
    func restOfAClaim() throws {
        var state = Self.served()
        state.take(Self.claim(10), at: 0, now: Self.now)
        var keys: [Int64] = []
        for number in 1...4 {
            let next = try #require(state.nextHandOver(streams: 2 + state.load.rows, pace: { nil }))
            let (slice, rest) = next.claim.divided(after: 3, rest: Int64(number * 100))
            state.handedOver(
                PushQueue.HandOver(slice: slice, rest: rest, now: Self.now), at: Self.now)
            let given = state.nextItems(pace: { nil })
            keys += given.map(\.row)
            #expect(slice.number == (number == 1 ? 1 : Int64((number - 1) * 100)))
            #expect(state.openClaims.contains(Int64(number * 100)) == (number < 4))
        }
        #expect(keys == Array(1...10))
        #expect(state.load.waiting == 0 && state.load.rows == 10)
    }

    @Test("the time of an answer is that of the database, whatever this host's clock says")
    func clocks() {
        // This host is an hour behind.
        var state = Self.state()
        state.take(Self.claim(2), at: 0, now: Self.now)
        let claim = state.nextHandOver(streams: 10, pace: { nil })?.claim
        let theirs = Self.now.advanced(by: 3_600_000)
        state.handedOver(
            claim.map { PushQueue.HandOver(slice: $0, rest: nil, now: theirs) }, at: Self.now)
        let items = state.nextItems { nil }
        let fresh = theirs.advanced(by: 1_000)
        for (item, time) in zip(items, [fresh, theirs.advanced(by: 301_001)]) {
            _ = state.record(
                Self.outcome(
                    item,
                    .answered(ProviderAnswer(.unregistered, timestamp: time.rawValue))),
                at: Self.now.advanced(by: 1_000))
        }
        #expect(state.batch(at: 0)?.heard.map(\.time) == [fresh, theirs])
        #expect(state.entry.impossibleTimes == 1)
    }

    /// What a run says whose rows have these answers, and the codes with which it fails.
    private static func complaints(
        _ count: Int, _ answer: (Int) -> ProviderAnswer
    ) -> [(sentence: String, exit: Operations.ExitStatus?)] {
        var (state, results) = results(count, answer)
        state.count(
            results.enumerated().map { DeliveryResult(key: Int64($0.offset), $0.element) },
            missing: 0)
        return state.complaints(late: 0).filter { $0.count > 0 }.map { ($0.sentence, $0.exit) }
    }

    @Test("a run that was throttled for most rows says so and does not end with 0")
    func throttled() {
        for (number, isMost) in [(21, true), (20, false)] {
            let told = Self.complaints(40) {
                $0 < number ? ProviderAnswer(.tooManyRequests) : ProviderAnswer(status: 200)
            }
            #expect(told.contains { $0.exit == .pending } == isMost)
            #expect(
                told.contains { $0.sentence.contains("\(number) TooManyRequests") } == isMost)
        }
    }

    @Test("an unlisted reason and an impossible time are told, and fail no run")
    func oddAnswers() {
        let told = Self.complaints(40) {
            $0 == 1
                ? ProviderAnswer(
                    status: 400, body: AnswerBody(reason: ProviderReason("BrandNew")))
                : $0 == 2
                    ? ProviderAnswer(.unregistered, timestamp: .max) : ProviderAnswer(status: 200)
        }
        #expect(told.count == 2 && told.allSatisfy { $0.exit == nil })
        #expect(told.contains { $0.sentence.contains("1 BrandNew") })
        #expect(told.contains { $0.sentence.contains("1 answer of 410 names a time") })
    }

    @Test(
        "a page in place of answers stops sending at nine in a row, and no row has had an attempt")
    func pages() {
        let page = ProviderAnswer(status: 410, isForeign: true)
        let (state, results) = Self.results(40) { _ in page }
        #expect(results.count == 40 && !results.contains { $0.isAttempt || $0.state.isFinal })
        #expect(results.count { $0.state == .retry } == GatewayDoubt.most)
        #expect(state.stop?.exit == .pending)
        #expect(state.stop?.description.contains("HTTP 410 without an answer of APNs") == true)
        #expect(state.stop?.description.contains("something else than APNs") == true)
        #expect(state.batch(at: 0)?.heard.isEmpty == true)
    }

    @Test("the sender drops a claim that another took over")
    func lost() {
        var state = Self.state()
        state.take(Self.claim(3), at: 0, now: Self.now)
        state.handedOver(isOurs: false, at: Self.now)
        #expect(state.isEmpty && state.isIdle && state.load.waiting == 0)
    }
}
