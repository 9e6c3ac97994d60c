import Testing

@testable import Operations

@Suite("A rate limit")
struct RateLimitTests {
    @Test("the limit allows what the time permits, and saves a tenth of a second at most")
    func allowance() {
        var limit = RateLimit(perSecond: 100)
        #expect(limit.allowance(at: 10) == 0)
        #expect(limit.allowance(at: 10.05) == 5)
        limit.spend(5)
        #expect(limit.allowance(at: 10.05) == 0)
        #expect(limit.allowance(at: 70) == 10)
        limit.spend(4)
        #expect(limit.allowance(at: 70) == 6)
    }

    @Test("the limit never stops all sending, however low the rate")
    func slow() {
        var limit = RateLimit(perSecond: 1)
        _ = limit.allowance(at: 0)
        #expect(limit.allowance(at: 0.9) == 0)
        #expect(limit.allowance(at: 1) == 1)
    }
}
