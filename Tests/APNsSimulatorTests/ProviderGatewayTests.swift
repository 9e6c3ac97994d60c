import APNsProtocol
import APNsSimulator
import Foundation
import SecureTransport
import TestSupport
import Testing

/// What a client of the provider service saw, by key of its request.
private struct SeenAnswers {
    var kinds: [UInt64: HTTP2Outcome.Kind] = [:]
    var bodies: [UInt64: [UInt8]] = [:]
    var ids: [UInt64: String] = [:]
    var goAway: HTTP2GoAway?

    func keys(_ wanted: (HTTP2Outcome.Kind) -> Bool) -> Set<UInt64> {
        Set(kinds.filter { wanted($0.value) }.keys)
    }
}

extension ProviderGateway {
    /// A service with the tests' certificates, to which certificates are the credential.
    static func start(
        _ script: ProviderScript = ProviderScript(),
        _ scenario: ProviderScenario = ProviderScenario()
    ) throws -> ProviderGateway {
        try ProviderGateway(
            certificates: try shared.get().certificates,
            rules: ProviderRules(authentication: .certificate, script: script),
            scenario: scenario)
    }

    fileprivate func connect() throws -> HTTP2ClientSession {
        let connection = try shared.get().certificates.connect(to: address, alpn: ["h2"])
        var settings = HTTP2ClientSettings()
        settings.requestTimeout = patience
        settings.maximumBodySize = 64 * 1024
        return try HTTP2ClientSession(connection, settings: settings)
    }

    /// Sends one notification to each of so many tokens, all under names that follow from their
    /// key, until each has its outcome or nothing more can be sent.
    fileprivate func send(_ keys: Range<UInt64>) throws -> SeenAnswers {
        let session = try connect()
        var request = HTTP2Request(
            HTTP2RequestTemplate([
                HTTP2Field(":method", "POST"), HTTP2Field(":scheme", "https"),
                HTTP2Field(":authority", "localhost"), .perRequest(":path"),
                .perRequest("apns-id"),
            ]))
        var seen = SeenAnswers()
        var waiting = Array(keys)[...]
        while !waiting.isEmpty || session.inFlight > 0 {
            while let key = waiting.first {
                request.reset()
                request.append("/3/device/\(token(key).hex)".utf8)
                request.endValue()
                request.append(APNsID(high: 0, low: key).description.utf8)
                request.endValue()
                request.append("{}".utf8)
                guard session.submit(request, key: key) else { break }
                waiting.removeFirst()
            }
            let exchange = session.exchange(until: .in(patience))
            for outcome in session.outcomes.outcomes {
                #expect(seen.kinds.updateValue(outcome.kind, forKey: outcome.key) == nil)
                seen.bodies[outcome.key] = Array(session.outcomes.body(of: outcome))
                seen.ids[outcome.key] = session.outcomes.value(of: 0, in: outcome)
                    .map { String(decoding: $0, as: UTF8.self) }
            }
            guard exchange == .outcomes else { break }
        }
        seen.goAway = session.goAway
        session.close()
        return seen
    }
}

/// The token of the n-th request.
private func token(_ key: UInt64) -> DeviceToken {
    let bytes = [UInt8](repeating: 7, count: 24) + withUnsafeBytes(of: key.bigEndian) { Array($0) }
    guard let token = DeviceToken(bytes) else { preconditionFailure("32 bytes are a token") }
    return token
}

@Suite("The provider service")
struct ProviderGatewayTests {
    private let gone = ScriptedReply(.unregistered, timestamp: 1_700_000_000_123)

    @Test("answers each of 3,000 requests as scripted, with its own apns-id, and keeps book")
    func script() throws {
        var script = ProviderScript()
        script.shares = [
            .init(millionths: 100_000, action: .reply(gone)),
            .init(millionths: 100_000, action: .reset(.refusedStream)),
            .init(millionths: 100_000, action: .reset(.cancel)),
        ]
        let service = try ProviderGateway.start(script)
        let seen = try service.send(0..<3_000)
        #expect(seen.kinds.count == 3_000)
        for (key, kind) in seen.kinds {
            switch script.action(for: token(key), number: 0) {
            case .reply(let reply):
                #expect(kind == .response(status: reply.status))
                #expect(seen.bodies[key] == reply.body)
                #expect(seen.ids[key] == APNsID(high: 0, low: key).description)
            case .reset(.refusedStream): #expect(kind == .notProcessed(.refused))
            default: #expect(kind == .outcomeUnknown(.reset(.cancel)))
            }
        }
        service.stop()
        #expect(service.log.records.count == 3_000)
        #expect(service.log.requestsByToken.count == 3_000)
        #expect(service.log.acceptedTwice.isEmpty)
        let totals = service.log.totals
        #expect(
            totals.answered.values.reduce(0, +) + totals.unanswered + totals.unprocessed == 3_000)
        #expect(totals.answered[410] == seen.keys { $0 == .response(status: 410) }.count)
    }

    @Test("notices what is accepted twice")
    func twice() throws {
        let service = try ProviderGateway.start()
        _ = try service.send(0..<10)
        _ = try service.send(9..<12)
        service.stop()
        #expect(service.log.acceptedTwice == [APNsID(high: 0, low: 9)])
        #expect(service.log.requestsByToken[token(9)] == 2)
    }

    @Test("goes away in the middle: client and book agree on what was processed")
    func goAway() throws {
        let service = try ProviderGateway.start(
            ProviderScript(),
            ProviderScenario([
                .init(goAway: .init(atRequest: 50, unprocessed: 10, unanswered: 5)), .init(),
            ]))
        let first = try service.send(0..<50)
        #expect(AnswerBody(first.goAway?.debug ?? []).reason == .shutdown)
        #expect(first.goAway?.lastStreamID == 79)
        #expect(first.keys { $0 == .response(status: 200) } == Set(0..<35))
        #expect(first.keys { $0 == .outcomeUnknown(.connectionLost) } == Set(35..<40))
        #expect(first.keys { $0 == .notProcessed(.goAway) } == Set(40..<50))
        // What was not processed is sent again on a connection that behaves.
        let second = try service.send(40..<50)
        #expect(second.keys { $0 == .response(status: 200) }.count == 10)
        service.stop()
        #expect(service.log.acceptedTwice.isEmpty)
        #expect(service.log.totals.unprocessed == 10)
        #expect(service.log.totals.unanswered == 5)
    }

    @Test("changes the stream limit in the middle, and all requests are answered")
    func streamLimit() throws {
        var scene = ProviderScenario.Connection()
        scene.set(.changeStreams(1), at: 20)
        scene.set(.changeStreams(100), at: 300)
        let service = try ProviderGateway.start(ProviderScript(), ProviderScenario([scene]))
        let seen = try service.send(0..<500)
        // Those that were on the way when the limit fell may be refused, never lost.
        #expect(seen.kinds.count == 500)
        #expect(
            seen.kinds.values.allSatisfy {
                $0 == .response(status: 200) || $0 == .notProcessed(.refused)
            })
    }

    @Test("resets a connection: nothing after that request is known to the client")
    func reset() throws {
        var scene = ProviderScenario.Connection()
        scene.set(.resetConnection, at: 30)
        let service = try ProviderGateway.start(ProviderScript(), ProviderScenario([scene]))
        let seen = try service.send(0..<60)
        #expect(seen.keys { $0 == .response(status: 200) }.count < 30)
        #expect(
            seen.kinds.values.allSatisfy {
                switch $0 {
                case .response, .outcomeUnknown(.connectionLost), .notProcessed(.notSent): true
                default: false
                }
            })
    }

    @Test("stops while clients are connected")
    func stopping() throws {
        let service = try ProviderGateway.start()
        let session = try service.connect()
        _ = session.exchange(until: .in(.milliseconds(50)))
        service.stop()
        while session.exchange(until: .in(patience)) == .outcomes {}
        #expect(session.closed != nil)
    }
}
