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

    private static func judgement(
        _ answer: ProviderAnswer, attempts: Int = 0, resendUnknown: Bool = false
    ) -> DeliveryRules.Judgement {
        var judge = DeliveryRules(app, resendUnknown: resendUnknown)
        return judge.judge(.answered(answer), attempts: attempts, handedAt: handedAt)
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
        let told = ProviderAnswer(status: 503, retryAfter: 30)
        #expect(Self.judgement(told).result == .retry(seconds: 30, reason: "HTTP 503"))
    }

    @Test("an unanswered row is sent again only where the settings say so")
    func unknown() {
        for resends in [false, true] {
            var judge = DeliveryRules(Self.app, resendUnknown: resends)
            let result = judge.judge(.unknown("reset"), attempts: 0, handedAt: Self.handedAt).result
            #expect(
                result
                    == (resends ? .retry(seconds: 60, reason: "reset") : .unknown(reason: "reset")))
        }
    }

    @Test("a row that was certainly not processed goes back to the queue")
    func untouched() {
        var judge = DeliveryRules(Self.app, resendUnknown: false)
        #expect(judge.judge(.untouched, attempts: 3, handedAt: Self.handedAt).result == .returned)
        #expect(
            judge.judge(.refused, attempts: 1, handedAt: Self.handedAt).result
                == .retry(seconds: 120, reason: "stream refused"))
        // Any content of the table.
        #expect(
            judge.judge(.refused, attempts: .max, handedAt: Self.handedAt).result
                == .failed(reason: "stream refused"))
    }

    @Test("stops at the fiftieth answer when APNs knew none, and counts no trouble of the server")
    func detector() {
        var judge = DeliveryRules(Self.app, resendUnknown: false)
        for _ in 0..<200 {
            _ = judge.judge(
                .answered(ProviderAnswer(.internalServerError)), attempts: 0,
                handedAt: Self.handedAt)
        }
        #expect(judge.detector.answers == 0)
        for number in 1...50 {
            let judgement = judge.judge(
                .answered(ProviderAnswer(.badDeviceToken)), attempts: 0, handedAt: Self.handedAt)
            #expect((judgement.stop != nil) == (number == 50))
        }
    }
}
