import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@testable import APNsConnection
@testable import Operations
@testable import PushQueue

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

    @Test("the sender drops a claim that another took over")
    func lost() {
        var state = Self.state()
        state.take(Self.claim(3), at: 0, now: Self.now)
        state.handedOver(isOurs: false, at: Self.now)
        #expect(state.isEmpty && state.isIdle && state.load.waiting == 0)
    }
}
