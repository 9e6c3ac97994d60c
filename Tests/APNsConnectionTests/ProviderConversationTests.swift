import APNsProtocol
import Testing

@testable import APNsConnection

@Suite("The conversation with a provider")
struct ProviderConversationTests {
    @Test("a connection uses one stream until APNs has judged the provider token once")
    func probing() {
        var conversation = ProviderConversation(usesToken: true)
        conversation.connected()
        #expect(conversation.streams == 1)
        #expect(conversation.answered(.credentialFault(.newToken), sends: 1) == .sendWithNewToken)
        #expect(conversation.streams == 1)
        #expect(conversation.answered(.accepted, sends: 2) == .deliver)
        #expect(conversation.streams == ProviderConversation.firstStreams + 1)
        conversation.connected()
        #expect(conversation.streams == 1, "a new connection starts anew")
        var certificate = ProviderConversation(usesToken: false)
        certificate.connected()
        #expect(certificate.streams == ProviderConversation.firstStreams)
    }

    /// A connection that has answered enough for all its streams.
    private static func grown() -> ProviderConversation {
        var conversation = ProviderConversation(usesToken: false)
        conversation.connected()
        for _ in 0..<ProviderConversation.fullStreams {
            _ = conversation.answered(.accepted, sends: 1)
        }
        return conversation
    }

    @Test(
        "a connection gains a stream with each answer up to the limit, and the next starts small")
    func grows() {
        var conversation = Self.grown()
        #expect(conversation.streams == ProviderConversation.fullStreams)
        conversation.connected()
        #expect(conversation.streams == ProviderConversation.firstStreams)
        _ = conversation.answered(.accepted, sends: 1)
        #expect(conversation.streams == ProviderConversation.firstStreams + 1)
    }

    @Test("a connection has few streams after an unknown outcome, and is left after three in a row")
    func unanswered() {
        var conversation = Self.grown()
        conversation.outcomeUnknown()
        #expect(conversation.streams == ProviderConversation.firstStreams)
        conversation.outcomeUnknown()
        #expect(!conversation.isDraining)
        _ = conversation.answered(.accepted, sends: 1)
        for _ in 0..<2 { conversation.outcomeUnknown() }
        #expect(!conversation.isDraining)
        conversation.outcomeUnknown()
        #expect(conversation.isDraining && conversation.isUnanswering)
    }

    @Test("a refused credential reaches the caller where no other can be had")
    func credentials() {
        var conversation = ProviderConversation(usesToken: false)
        conversation.connected()
        #expect(conversation.answered(.credentialFault(.newToken), sends: 1) == .deliver)
        var token = ProviderConversation(usesToken: true)
        token.connected()
        #expect(token.answered(.credentialFault(.none), sends: 1) == .deliver)
        #expect(
            token.answered(.credentialFault(.newToken), sends: ProviderConversation.mostSends)
                == .deliver)
        #expect(token.answered(.credentialFault(.newConnection), sends: 1) == .deliver)
        _ = token.answered(.accepted, sends: 1)
        #expect(token.answered(.credentialFault(.newConnection), sends: 1) == .sendAgain)
        #expect(token.isDraining)
    }

    @Test(
        "unprocessed requests are sent again, refused ones with fewer streams until one is answered"
    )
    func refusals() {
        var conversation = Self.grown()
        #expect(conversation.notProcessed(.connectionEnded, sends: 1) == .sendAgain)
        #expect(
            conversation.notProcessed(.connectionEnded, sends: ProviderConversation.mostSends)
                == .deliver)
        #expect(conversation.refusalPause == 0)
        for _ in 0..<3 { _ = conversation.notProcessed(.refused, sends: 1) }
        #expect(conversation.streams == ProviderConversation.fullStreams / 8)
        #expect(conversation.refusalPause == 80)
        for _ in 0..<100 { _ = conversation.notProcessed(.refused, sends: 1) }
        #expect(conversation.streams >= 0 && conversation.refusalPause <= 5_000)
        _ = conversation.answered(.throttled, sends: 1)
        #expect(conversation.streams == ProviderConversation.fullStreams)
    }

    @Test("a connection that lets no request become whole is left like one that answers none")
    func incomplete() {
        var conversation = Self.grown()
        for number in 1...ProviderConversation.mostUnanswered {
            #expect(!conversation.isDraining)
            #expect(conversation.notProcessed(.incomplete, sends: number) == .sendAgain)
            #expect(conversation.streams == ProviderConversation.firstStreams)
        }
        #expect(conversation.isDraining && conversation.isUnanswering)
        #expect(
            conversation.notProcessed(.incomplete, sends: ProviderConversation.mostSends)
                == .deliver)
    }

    @Test("what is no answer of APNs proves no provider token")
    func foreign() {
        var conversation = ProviderConversation(usesToken: true)
        conversation.connected()
        #expect(conversation.answered(.refusedByGateway, sends: 1) == .deliver)
        #expect(conversation.streams == 1)
    }

    @Test("the provider leaves a connection that refuses every stream")
    func refusedForGood() {
        var conversation = ProviderConversation(usesToken: false)
        conversation.connected()
        for _ in 0..<ProviderConversation.mostRefusalPauses {
            #expect(!conversation.isDraining)
            _ = conversation.notProcessed(.refused, sends: 1)
            conversation.pausedForRefusals()
        }
        #expect(conversation.isDraining)
        #expect(conversation.ended() != nil, "gave up at the first such connection")
    }

    @Test("a connection follows at once after a good one, later after bad ones, at last not at all")
    func pauses() {
        var conversation = ProviderConversation(usesToken: false)
        conversation.connected()
        _ = conversation.answered(.accepted, sends: 1)
        #expect(conversation.ended() == 250, "one answer is not a good connection")
        conversation.connected()
        for _ in 0..<ProviderConversation.answersOfGoodConnection {
            _ = conversation.answered(.accepted, sends: 1)
        }
        #expect((0..<4).map { _ in conversation.ended() } == [0, 500, 1_000, nil])
    }
}
