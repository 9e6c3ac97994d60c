import Testing

@testable import APNsConnection

@Suite("What the connections of a provider share")
struct ProviderQueuesTests {
    @Test("one that rested counts as resting until it has an answer, so two cannot rest by turns")
    func byTurns() {
        let queues = ProviderQueues()
        queues.addThread()
        queues.addThread()
        #expect(queues.beginRest(isResting: false), "the other one goes on")
        // It tries again, and meanwhile the other one gives up.
        #expect(!queues.beginRest(isResting: false), "nobody is left that goes on")
        queues.removeThread(ProviderFailure(.unreachable, "nobody listens"))
        #expect(queues.failure?.description == "nobody listens")
        #expect(!queues.beginRest(isResting: true))
    }

    @Test("one that rested and has an answer lets the other one rest")
    func answered() {
        let queues = ProviderQueues()
        queues.addThread()
        queues.addThread()
        #expect(queues.beginRest(isResting: false))
        #expect(queues.beginRest(isResting: true), "again, while the other one goes on")
        queues.endRest()
        #expect(queues.beginRest(isResting: false))
        #expect(queues.failure == nil)
    }
}
