import Testing

@testable import APNsConnection

@Suite("The mailbox that connections of a provider share")
struct ProviderMailboxTests {
    @Test("a connection that rested counts as resting until an answer, so two cannot rest in turn")
    func byTurns() {
        let mailbox = ProviderMailbox()
        mailbox.enter()
        mailbox.enter()
        #expect(mailbox.rest(isResting: false), "the other one continues")
        // It tries again, and the other one gives up in between.
        #expect(!mailbox.rest(isResting: false), "no other one continues")
        mailbox.leave(ProviderFailure(.unreachable, "nobody listens"))
        #expect(mailbox.failure?.description == "nobody listens")
        #expect(!mailbox.rest(isResting: true))
    }

    @Test("after an answer to a connection that rested, the other connection may rest")
    func answered() {
        let mailbox = ProviderMailbox()
        mailbox.enter()
        mailbox.enter()
        #expect(mailbox.rest(isResting: false))
        #expect(mailbox.rest(isResting: true), "again, while the other one continues")
        mailbox.resume()
        #expect(mailbox.rest(isResting: false))
        #expect(mailbox.failure == nil)
    }
}
