import APNsConnection
import APNsProtocol
import SecureTransport
import Testing

@Suite("A feedback conversation")
struct FeedbackConversationTests {
    private typealias Event = FeedbackConversation.Event
    private typealias Action = FeedbackConversation.Action

    private let refused = TransportFailure(.connectionRefused, "refused")
    private let untrusted = TransportFailure(.certificateUntrusted, "untrusted")

    private func actions(_ events: Event...) -> [Action] {
        var conversation = FeedbackConversation()
        return events.map { conversation.handle($0) }
    }

    @Test("the client reads until the gateway ends the list")
    func clean() {
        #expect(
            actions(.resolved(addresses: 1), .connected, .received(38), .ended(.closeNotify))
                == [.connect(address: 0), .read, .read, .finish(.closeNotify)])
    }

    @Test("the client names every end after bytes and never connects again")
    func endsAfterBytes() {
        let ends: [(Event, CaptureEnd)] = [
            (.ended(.closeNotify), .closeNotify), (.ended(.cut), .cut), (.ended(.reset), .reset),
            (.idle, .idle), (.full, .full), (.stopped, .stopped), (.failed(refused), .broken),
            (.failed(untrusted), .broken),
        ]
        for (event, end) in ends {
            #expect(
                actions(.resolved(addresses: 2), .connected, .received(1), event).last
                    == .finish(end))
        }
    }

    @Test("the client tries every address, then looks the name up again, three times in all")
    func tries() {
        var conversation = FeedbackConversation()
        #expect(conversation.start == .resolve(attempt: 1))
        for attempt in 1...3 {
            #expect(conversation.handle(.resolved(addresses: 2)) == .connect(address: 0))
            #expect(conversation.handle(.failed(refused)) == .connect(address: 1))
            let last = conversation.handle(.failed(refused))
            #expect(last == (attempt < 3 ? .resolve(attempt: attempt + 1) : .giveUp(refused)))
        }
    }

    @Test("the client tries again after a reset before the first byte, not after an empty list")
    func beforeFirstByte() {
        #expect(
            actions(.resolved(addresses: 1), .connected, .ended(.reset)).last
                == .resolve(attempt: 2))
        #expect(
            actions(.resolved(addresses: 1), .connected, .failed(refused)).last
                == .resolve(attempt: 2))
        #expect(
            actions(.resolved(addresses: 1), .connected, .ended(.closeNotify)).last
                == .finish(.closeNotify))
        #expect(actions(.resolved(addresses: 1), .connected, .ended(.cut)).last == .finish(.cut))
        #expect(actions(.resolved(addresses: 1), .connected, .idle).last == .finish(.idle))
    }

    @Test("an empty list is not clean after a connection was lost before the first byte")
    func emptyAfterLoss() {
        for event in [Event.ended(.closeNotify), .idle] {
            #expect(
                actions(
                    .resolved(addresses: 1), .connected, .ended(.reset), .resolved(addresses: 1),
                    .connected, event
                ).last == .finish(.reset))
        }
        #expect(
            actions(
                .resolved(addresses: 1), .connected, .ended(.reset), .resolved(addresses: 1),
                .connected, .received(38), .ended(.closeNotify)
            ).last == .finish(.closeNotify))
    }

    @Test(
        "the client gives up at once where a new try cannot help",
        arguments: [
            TransportFailure.Code.certificateUntrusted, .certificateExpired,
            .certificateNotYetValid, .hostNameMismatch, .clientCertificateRefused, .notTLS,
            .protocolVersion, .credentialsUnusable,
        ])
    func finalFailures(code: TransportFailure.Code) {
        let failure = TransportFailure(code, "why")
        #expect(actions(.resolved(addresses: 3), .failed(failure)).last == .giveUp(failure))
        #expect(
            actions(.resolved(addresses: 3), .connected, .failed(failure)).last
                == .giveUp(failure))
    }

    @Test("the client gives up on a name that stays unknown after three lookups")
    func unknownName() {
        let unknown = TransportFailure(.nameNotFound, "no such name")
        #expect(
            actions(.failed(unknown), .failed(unknown), .failed(unknown))
                == [.resolve(attempt: 2), .resolve(attempt: 3), .giveUp(unknown)])
    }

    @Test("the client stops on request in every step")
    func stopped() {
        let interrupted = TransportFailure(.interrupted, "stopped")
        #expect(actions(.stopped) == [.stop])
        #expect(actions(.resolved(addresses: 1), .failed(interrupted)).last == .stop)
        #expect(
            actions(.resolved(addresses: 1), .connected, .stopped).last == .finish(.stopped))
    }
}

@Suite("The end of a feed")
struct FeedEndTests {
    @Test("the end of a feed follows from the connection and the bytes together")
    func judgement() {
        let cut = FeedbackEnding.truncatedHeader(present: 3)
        let table: [(CaptureEnd, FeedbackEnding, FeedEnd)] = [
            (.closeNotify, .clean, .clean), (.closeNotify, cut, .truncated),
            (.cut, .clean, .truncated), (.cut, cut, .truncated), (.reset, .clean, .reset),
            (.reset, cut, .reset), (.idle, .clean, .idle), (.idle, cut, .timeout),
            (.broken, .clean, .truncated), (.full, .clean, .truncated),
            (.stopped, .clean, .truncated), (.crashed, .clean, .truncated),
            (.file, .clean, .clean), (.file, cut, .truncated),
        ]
        for (capture, ending, end) in table {
            #expect(FeedEnd(capture, ending) == end)
        }
        for capture in CaptureEnd.allCases {
            #expect(
                FeedEnd(capture, .outOfStep(offset: 0, announced: 9_999)) == .misframed)
        }
    }

    @Test("the end of a feed is complete only where nothing can be missing")
    func completeness() {
        #expect(FeedEnd.allCases.filter(\.isComplete) == [.clean, .idle])
    }
}
