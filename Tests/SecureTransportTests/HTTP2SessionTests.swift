import APNsSimulator
import Synchronization
import Testing

@testable import SecureTransport

@Suite("HTTP/2 between our client and our server")
struct HTTP2SessionTests {
    @Test("five thousand requests each get their own answer under their own key")
    func keys() throws {
        let peer = try HTTP2Peer { session in
            session.serve { request in
                let path = Array(request.value(":path") ?? [])
                let id = String(decoding: request.value("apns-id") ?? [], as: UTF8.self)
                session.answer(
                    request.streamID,
                    ScriptedReply(
                        status: 200, fields: [HTTP2Field("apns-id", id, isIndexed: false)],
                        body: path + request.body, largestPiece: 11))
            }
        }
        let client = try peer.client()
        #expect(client.run(0..<5_000) == [])
        #expect(client.kinds.count == 5_000)
        for key in 0..<5_000 as Range<UInt64> {
            try #require(client.kinds[key] == .response(status: 200))
            try #require(client.bodies[key] == Array("/3/device/\(key)".utf8) + client.body)
            try #require(client.ids[key] == Array("id-\(key)".utf8))
        }
        client.session.close()
        #expect(client.session.closed?.code == .byUs)
    }

    @Test("a peer that does not agree on h2 is refused")
    func protocolNegotiation() throws {
        let authority = try Authority()
        let loopback = try Loopback(authority.server()) { _ = try $0.read(1) }
        let connection = try loopback.connect(authority.client(alpn: ["h2"]))
        #expect { try HTTP2ClientSession(connection) } throws: {
            ($0 as? TransportFailure)?.code == .protocolError
        }
    }

    @Test("no more than a hundred requests go out before the peer's SETTINGS")
    func beforeSettings() throws {
        let peer = try HTTP2Peer { $0.outlast() }
        let client = try peer.client()
        #expect(client.session.room == 100)
        for key in 0..<100 as Range<UInt64> { try #require(client.submit(key)) }
        #expect(!client.submit(100))
    }

    @Test("the caller's own maximum applies and may change", arguments: [1, 7])
    func ownMaximum(maximum: Int) throws {
        let peer = try HTTP2Peer { $0.serve() }
        let client = try peer.client { $0.maximumStreams = maximum }
        #expect(client.session.room == maximum)
        client.run(0..<20)
        client.session.maximumStreams = 1000
        #expect(client.session.room == 1000)
        client.run(20..<2_000)
        #expect(client.kinds.count == 2_000)
    }

    @Test(
        "a header is kept by its name: another of the same length, before it or alone, is not taken for it"
    )
    func foreignHeaders() throws {
        let peer = try HTTP2Peer { session in
            session.serve { request in
                let isLast = request.streamID == 3
                session.answer(
                    request.streamID,
                    ScriptedReply(
                        status: 200,
                        fields: [HTTP2Field("x-trace", "foreign")]
                            + (isLast ? [] : [HTTP2Field("apns-id", "own")])))
            }
        }
        let client = try peer.client()
        client.run(1...2)
        #expect(client.accepted == [1, 2])
        #expect(client.ids == [1: Array("own".utf8)])
    }

    @Test("an oversized header list is an unknown outcome, and the other requests are answered")
    func headerList() throws {
        let peer = try HTTP2Peer { session in
            session.serve { request in
                let isLarge = request.streamID == 3
                let many = (0..<200).map {
                    HTTP2Field("x-\($0)", String(repeating: "x", count: 100))
                }
                session.answer(
                    request.streamID, ScriptedReply(status: 200, fields: isLarge ? many : []))
            }
        }
        let client = try peer.client()
        client.run(1...5)
        #expect(client.kinds[2] == .outcomeUnknown(.headersTooLarge))
        #expect(client.accepted == [1, 3, 4, 5])
    }

    @Test("an oversized body is cut, and its status and the other requests are good")
    func body() throws {
        let peer = try HTTP2Peer { session in
            session.serve { request in
                session.answer(
                    request.streamID,
                    ScriptedReply(
                        status: 410,
                        body: [UInt8](repeating: 7, count: request.streamID == 3 ? 1 << 20 : 4096)
                    ))
            }
        }
        let client = try peer.client()
        client.run(1...5)
        #expect(client.kinds.values.allSatisfy { $0 == .response(status: 410) })
        #expect(client.truncated == [2])
        #expect(client.bodies.values.allSatisfy { $0 == [UInt8](repeating: 7, count: 4096) })
    }

    @Test("an interrupt ends the wait, and requests in flight still get their answers afterwards")
    func interrupt() throws {
        let gate = try Interrupt()
        let peer = try HTTP2Peer { session in
            let requests = session.collect(1)
            _ = gate.wait(until: .in(patience))
            session.answer(requests[0].streamID, ScriptedReply(status: 200))
            session.outlast()
        }
        let client = try peer.client()
        let stop = try Interrupt()
        #expect(client.submit(1))
        stop.trip()
        #expect(client.session.exchange(until: .in(patience), interrupt: stop) == .interrupted)
        gate.trip()
        #expect(client.exchange() == .outcomes)
        #expect(client.kinds == [1: .response(status: 200)])
    }

    @Test("a request without an answer by its deadline is an unknown outcome and is reset")
    func deadline() throws {
        let resets = Mutex(0)
        let peer = try HTTP2Peer { session in
            session.serve { request in
                if request.streamID != 1 {
                    session.answer(request.streamID, ScriptedReply(status: 200))
                }
            }
            resets.withLock { $0 = session.resetsReceived }
        }
        let client = try peer.client { $0.requestTimeout = .seconds(1) }
        client.run(1...3)
        #expect(client.kinds[1] == .outcomeUnknown(.deadline))
        #expect(client.accepted == [2, 3])
        #expect(client.session.closed == nil)
        client.session.close()
        #expect(peer.loopback.finish().isEmpty)
        #expect(resets.withLock { $0 } == 1)
    }

    @Test(
        "the client sends PING to a silent peer, and keeps one that answers",
        arguments: [true, false])
    func pings(isAnswered: Bool) throws {
        let peer = try HTTP2Peer({ $0.answersPings = isAnswered }) { $0.outlast() }
        let client = try peer.client {
            $0.keepAliveInterval = .milliseconds(isAnswered ? 5 : 30)
            if !isAnswered { $0.pingTimeout = .milliseconds(30) }
        }
        try #require(client.submit(1))
        let outcome = client.exchange(until: .in(isAnswered ? .milliseconds(200) : patience))
        #expect(outcome == (isAnswered ? .timedOut : .closed))
        #expect(client.session.closed?.code == (isAnswered ? nil : .unresponsive))
        #expect(client.kinds == (isAnswered ? [:] : [1: .outcomeUnknown(.connectionLost)]))
    }
}
