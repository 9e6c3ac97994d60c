import APNsConnection
import APNsProtocol
import Testing
import TokenHygiene
import TokenTable

@testable import Operations

@Suite("The rules for answers")
struct DeliveryRulesTests {
    private static let app = Partition(app: "chat", environment: "production")
    private static let handedAt = EpochMilliseconds(1_700_000_000_000)

    private static let request = DeliveryRules.AnsweredRequest(
        handedAt: handedAt, heardAt: handedAt.advanced(by: 2_000))

    private static func judgement(
        _ answer: ProviderAnswer, attempts: Int = 0, resendUnknown: Bool = false
    ) -> DeliveryRules.Judgement {
        var judge = DeliveryRules(app, resendUnknown: resendUnknown)
        return judge.judge(.answered(answer), attempts: attempts, request)
    }

    @Test(
        "every reason has a result for the row, and only 410 calls the token dead",
        arguments: ProviderReason.listed)
    func everyReason(_ reason: ProviderReason) {
        let judgement = Self.judgement(ProviderAnswer(reason))
        let isDead = judgement.evidence.map { !$0.source.isAboutSuspects } ?? false
        #expect(isDead == (reason.status == 410))
        switch reason.status {
        case 410: #expect(judgement.result == .gone(reason: "\(reason)"))
        case 403: #expect(judgement.stop != nil && judgement.result == .returned)
        case 429, 500, 503:
            #expect(judgement.result.state == .retry)
        case 404, 405, 413: #expect(judgement.result == .failed(reason: "\(reason)"))
        default: #expect(judgement.result != .sent)
        }
    }

    @Test("evidence has the time that APNs names, else the time of handing over")
    func times() {
        let named = Self.judgement(ProviderAnswer(.unregistered, timestamp: 1_600_000_000_123))
        #expect(named.evidence?.time == EpochMilliseconds(1_600_000_000_123))
        #expect(named.evidence?.source == .unregistered)
        let unnamed = Self.judgement(ProviderAnswer(.expiredToken))
        #expect(unnamed.evidence?.time == Self.handedAt)
        #expect(unnamed.evidence?.source == .expiredToken)
    }

    @Test("keeps a bad token's row waiting for the detector, and never calls it dead")
    func suspects() {
        for reason in [ProviderReason.badDeviceToken, .deviceTokenNotForTopic] {
            let judgement = Self.judgement(ProviderAnswer(reason))
            #expect(judgement.isSuspect && judgement.stop == nil)
            #expect(judgement.evidence?.source.rawValue == reason.description)
            #expect(judgement.evidence?.time == Self.handedAt)
        }
        #expect(Self.judgement(ProviderAnswer(status: 200)).evidence?.source == .accepted)
    }

    @Test("a row waits 15 minutes after a 5xx, longer each time, and fails after ten attempts")
    func backOff() {
        let answer = ProviderAnswer(.internalServerError)
        let reason = "InternalServerError"
        #expect(Self.judgement(answer).result == .retry(seconds: 900, reason: reason))
        #expect(
            Self.judgement(answer, attempts: 2).result == .retry(seconds: 3_600, reason: reason))
        #expect(Self.judgement(answer, attempts: 9).result == .failed(reason: reason))
    }

    @Test(
        "the gateway makes a wait longer and never shorter, and ten attempts last an hour at the least",
        arguments: [ProviderReason.tooManyRequests, .internalServerError, .idleTimeout, .shutdown])
    func waits(_ reason: ProviderReason) {
        for asked in [0, 1, 7_200] as [UInt32?] + [nil] {
            var total = 0
            for attempts in 0..<9 {
                let answer = ProviderAnswer(
                    status: reason.status ?? 0, body: AnswerBody(reason: reason), retryAfter: asked)
                let result = Self.judgement(answer, attempts: attempts).result
                #expect(result.state == .retry && result.wait ?? 0 >= Int(asked ?? 0))
                total += result.wait ?? 0
            }
            #expect(total >= 3_600, "\(reason) \(asked ?? 0)")
        }
        let asked = Self.judgement(
            ProviderAnswer(
                status: 429, body: AnswerBody(reason: .tooManyProviderTokenUpdates), retryAfter: 5))
        #expect(asked.refusal?.postponed.wait == 1_200)
    }

    @Test("a reason that Apple does not list costs its row an attempt, and is evidence of nothing")
    func unlisted() {
        for status in [400, 403, 410, 429, 500] {
            let answer = ProviderAnswer(
                status: status, body: AnswerBody(reason: ProviderReason("SomethingNew")))
            let judgement = Self.judgement(answer)
            #expect(judgement.result.state == .retry && judgement.result.isAttempt)
            #expect(judgement.remark == .unlisted("SomethingNew") && judgement.evidence == nil)
            #expect(judgement.stop == nil && judgement.refusal == nil && !judgement.isSuspect)
            #expect(
                Self.judgement(answer, attempts: 9).result == .failed(reason: "SomethingNew"))
        }
    }

    @Test("what is no answer of APNs never counts as an attempt, and never closes its row")
    func foreign() {
        for status in [200, 301, 400, 403, 404, 407, 410, 421, 429, 500, 502] {
            for attempts in [0, 9, 100] {
                let answer = ProviderAnswer(status: status, isForeign: true)
                let judgement = Self.judgement(answer, attempts: attempts)
                #expect(judgement.result.state == .retry && !judgement.result.isAttempt)
                #expect(judgement.refusal?.isForeign == true && judgement.evidence == nil)
                #expect(judgement.result.wait ?? 0 >= 60)
            }
        }
    }

    @Test("a time of APNs that cannot be true gives way to that of handing over, and is told")
    func impossibleTimes() {
        for time in [1_243_814_399_999, 1_700_000_302_001, Int64.max] {
            let judgement = Self.judgement(ProviderAnswer(.unregistered, timestamp: time))
            #expect(judgement.evidence?.time == Self.handedAt)
            #expect(judgement.remark == .impossibleTime)
        }
        #expect(
            Self.judgement(ProviderAnswer(.unregistered, timestamp: 1_700_000_302_000)).remark
                == nil)
    }

    @Test("an unanswered row is sent again only where the settings say so")
    func unknown() {
        for resends in [false, true] {
            var judge = DeliveryRules(Self.app, resendUnknown: resends)
            let result = judge.judge(.unknown("reset"), attempts: 0, Self.request).result
            #expect(
                result
                    == (resends ? .retry(seconds: 60, reason: "reset") : .unknown(reason: "reset")))
        }
    }

    @Test("a row that was certainly not processed goes back to the queue")
    func untouched() {
        var judge = DeliveryRules(Self.app, resendUnknown: false)
        #expect(judge.judge(.untouched, attempts: 3, Self.request).result == .returned)
        #expect(
            judge.judge(.refused("stream refused"), attempts: 1, Self.request).result
                == .retry(seconds: 120, reason: "stream refused"))
        // Any content of the table.
        #expect(
            judge.judge(.refused("stream refused"), attempts: .max, Self.request).result
                == .failed(reason: "stream refused"))
    }

    @Test("stops at the fiftieth answer when APNs knew none, and counts no trouble of the server")
    func detector() {
        var judge = DeliveryRules(Self.app, resendUnknown: false)
        for _ in 0..<200 {
            _ = judge.judge(
                .answered(ProviderAnswer(.internalServerError)), attempts: 0,
                Self.request)
        }
        #expect(judge.detector.answers == 0)
        for number in 1...50 {
            let judgement = judge.judge(
                .answered(ProviderAnswer(.badDeviceToken)), attempts: 0, Self.request)
            #expect((judgement.stop != nil) == (number == 50))
        }
    }
}
