import APNsSimulator
import Synchronization
import Testing

@testable import SecureTransport

@Suite("HTTP/2 with a server that sends GOAWAY")
struct HTTP2GoAwayTests {
    /// Takes ten requests, answers some, sends the given GOAWAYs, answers others, closes.
    private func goAway(
        _ lastStreams: [Int32], answeredAfter: Set<Int32> = []
    ) throws -> HTTP2Drive {
        let peer = try HTTP2Peer { session in
            _ = session.collect(10)
            session.answer(1, ScriptedReply(status: 200))
            for last in lastStreams {
                session.goAway(lastStreamID: last, code: .noError, debug: Array("why".utf8))
            }
            for stream in answeredAfter.sorted() {
                session.answer(stream, ScriptedReply(status: 200))
            }
            session.close()
        }
        let client = try peer.client()
        client.run(0..<10)
        while client.session.closed == nil, client.exchange() != .timedOut {}
        #expect(client.kinds.count == 10)
        #expect(client.session.goAway?.debug == Array("why".utf8))
        #expect(client.session.room == 0)
        return client
    }

    /// Key k travels on stream 2k + 1.
    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let last: [Int32]
        var answered: Set<Int32> = []
        let accepted: ClosedRange<UInt64>
        var unknown: Range<UInt64> = 0..<0
        let unprocessed: Range<UInt64>
        var close: HTTP2Close.Code?
    }

    @Test(
        "GOAWAY leaves streams after its last one unprocessed, earlier ones without an answer unknown",
        arguments: [
            Case(
                testDescription: "in the middle", last: [9], answered: [3], accepted: 0...1,
                unknown: 2..<5, unprocessed: 5..<10),
            Case(testDescription: "0", last: [0], accepted: 0...0, unprocessed: 1..<10),
            Case(
                testDescription: "graceful", last: [.max], answered: [3, 5], accepted: 0...2,
                unknown: 3..<10, unprocessed: 0..<0),
            Case(
                testDescription: "lowered", last: [.max, 9], answered: [3, 5, 7, 9],
                accepted: 0...4, unprocessed: 5..<10, close: .goAway),
            Case(
                testDescription: "raised, which breaks the protocol", last: [9, .max],
                accepted: 0...0, unknown: 1..<5, unprocessed: 5..<10, close: .peerBrokeProtocol),
        ])
    func goAway(_ row: Case) throws {
        let client = try goAway(row.last, answeredAfter: row.answered)
        #expect(client.accepted == Array(row.accepted))
        #expect(client.keys { $0 == .outcomeUnknown(.connectionLost) } == Array(row.unknown))
        #expect(client.keys { $0 == .notProcessed(.goAway) } == Array(row.unprocessed))
        #expect(row.close == nil || client.session.closed?.code == row.close)
    }
}

@Suite("HTTP/2 with a server that refuses and stalls")
struct HTTP2RefusalTests {
    @Test("only REFUSED_STREAM is certainly unprocessed", arguments: Array(0...14) + [4711])
    func reset(code: UInt32) throws {
        let code = HTTP2ErrorCode(rawValue: code)
        let peer = try HTTP2Peer { session in
            session.serve { request in
                if request.streamID == 3 {
                    session.reset(request.streamID, code: code)
                } else {
                    session.answer(request.streamID, ScriptedReply(status: 200))
                }
            }
        }
        let client = try peer.client()
        client.run(0..<3)
        #expect(client.accepted == [0, 2])
        #expect(
            client.kinds[1]
                == (code == .refusedStream
                    ? .notProcessed(.refused) : .outcomeUnknown(.reset(code))))
    }

    @Test("a peer that allows no stream gets no request")
    func noStreams() throws {
        let opened = Mutex(0)
        let peer = try HTTP2Peer({ $0.maximumStreams = 0 }) { session in
            session.outlast()
            opened.withLock { $0 = session.streamsOpened }
        }
        let client = try peer.client()
        client.awaitSettings()
        #expect(client.session.remoteMaximumStreams == 0)
        #expect(!client.submit(1))
        client.session.close()
        #expect(peer.loopback.finish().isEmpty)
        #expect(opened.withLock { $0 } == 0)
    }

    @Test("a peer that allows one stream gets one request at a time")
    func oneStream() throws {
        let most = Mutex(0)
        let peer = try HTTP2Peer({ $0.maximumStreams = 1 }) { session in
            while case .requests = session.exchange(until: .in(patience)) {
                var together = 0
                while let request = session.nextRequest() {
                    together += 1
                    session.answer(request.streamID, ScriptedReply(status: 200))
                }
                most.withLock { $0 = max($0, together) }
            }
        }
        let client = try peer.client()
        client.awaitSettings()
        client.run(0..<200)
        #expect(client.accepted.count == 200)
        #expect(most.withLock { $0 } == 1)
    }

    @Test("the client obeys a limit lowered from a thousand to one in the middle of a burst")
    func loweredLimit() throws {
        let peer = try HTTP2Peer { session in
            let first = session.collect(100)
            session.changeSettings(maximumStreams: 1)
            first.forEach { session.answer($0.streamID, ScriptedReply(status: 200)) }
            session.serve()
        }
        let client = try peer.client()
        client.run(0..<500)
        #expect(client.session.remoteMaximumStreams == 1)
        #expect(client.accepted.count == 500)
    }

    @Test("bodies that a closed window delays arrive whole once it opens")
    func lateWindow() throws {
        let heard = Mutex<[[UInt8]]>([])
        let peer = try HTTP2Peer({ $0.initialWindow = 0 }) { session in
            // Only header lists can have come.
            #expect(session.exchange(until: .in(.milliseconds(300))) == .timedOut)
            session.changeSettings(initialWindow: 65_535)
            session.serve { request in
                heard.withLock { $0.append(Array(request.body)) }
                session.answer(request.streamID, ScriptedReply(status: 200))
            }
        }
        let client = try peer.client()
        client.awaitSettings()
        client.run(0..<300)
        #expect(client.accepted.count == 300)
        #expect(heard.withLock { $0 } == Array(repeating: client.body, count: 300))
    }

    @Test(
        "with a window that never opens each request ends at its deadline, and none can have arrived"
    )
    func closedWindow() throws {
        let peer = try HTTP2Peer({ ($0.initialWindow, $0.opensWindows) = (0, false) }) {
            $0.outlast()
        }
        let client = try peer.client { $0.requestTimeout = .milliseconds(200) }
        client.awaitSettings()
        client.run(0..<2_000)
        #expect(client.keys { $0 == .notProcessed(.incomplete(.heldBack)) }.count == 2_000)
        #expect(client.session.inFlight == 0)
    }

    @Test(
        "a refusal before the end of the request counts as its answer, and no acceptance does",
        arguments: [
            (413, HTTP2Outcome.Kind.response(status: 413)),
            (200, .notProcessed(.incomplete(.breach))), (204, .notProcessed(.incomplete(.breach))),
        ])
    func earlyAnswer(status: Int, kind: HTTP2Outcome.Kind) throws {
        let peer = try HTTP2Peer({ ($0.initialWindow, $0.opensWindows) = (0, false) }) { session in
            while session.streamsOpened < 1 {
                _ = session.exchange(until: .in(.milliseconds(10)))
            }
            session.answer(1, ScriptedReply(status: status, body: [1]))
            session.outlast()
        }
        let client = try peer.client()
        client.awaitSettings()
        client.run(0..<1)
        #expect(client.kinds == [0: kind])
        #expect(client.session.closed == nil)
    }
}

@Suite("HTTP/2 with a server that breaks the protocol")
struct HTTP2BrokenProtocolTests {
    /// The connection's end when the server sends `bytes` after having received a request.
    private func end(after bytes: [UInt8]) throws -> (HTTP2Close.Code?, HTTP2Drive) {
        let peer = try HTTP2Peer { session in
            _ = session.collect(1)
            session.sendRaw(bytes)
            session.outlast()
        }
        let client = try peer.client { $0.maximumIdleBytes = 1 << 20 }
        try #require(client.submit(0))
        while client.exchange() == .outcomes {}
        return (client.session.closed?.code, client)
    }

    /// Bytes that a server sends instead of an answer.
    struct Breach: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var count = 1
        /// The frame's type; nil for bytes that are not a frame.
        let type: UInt8?
        var flags: UInt8 = 0
        var stream: Int32 = 0
        var payload: [UInt8] = []
        /// The length that the frame states, if it is wrong.
        var length: Int?
        /// CONTINUATION frames that follow.
        var continuations = 0

        var bytes: [UInt8] {
            guard let type else {
                return payload
            }
            let frame =
                HTTP2ServerSession.frame(
                    type: type, flags: flags, streamID: stream, length: length ?? payload.count)
                + payload
            let more =
                HTTP2ServerSession.frame(type: 9, flags: 0, streamID: stream, length: 1) + [0x88]
            var all: [UInt8] = []
            all.reserveCapacity(count * frame.count + continuations * more.count)
            for _ in 0..<count { all.append(contentsOf: frame) }
            for _ in 0..<continuations { all.append(contentsOf: more) }
            return all
        }
    }

    static let breaches = [
        Breach(
            testDescription: "floods of PING", count: 100_000, type: 6,
            payload: [UInt8](repeating: 0, count: 8)),
        Breach(testDescription: "floods of SETTINGS", count: 100_000, type: 4),
        Breach(testDescription: "floods of empty DATA", count: 100_000, type: 0, stream: 1),
        Breach(
            testDescription: "floods of an unknown type", count: 100_000, type: 77,
            payload: [1, 2, 3]),
        Breach(
            testDescription: "SETTINGS of 2,730 entries", type: 4,
            payload: [UInt8](repeating: 0, count: 16_380)),
        Breach(testDescription: "a frame of 16 MiB", type: 0, stream: 1, length: 0xff_ffff),
        Breach(
            testDescription: "CONTINUATION without end", type: 1, stream: 1, continuations: 1_000),
        Breach(
            testDescription: "a header block that cannot be decoded", type: 1, flags: 5,
            stream: 1, payload: [0xff, 0xff]),
        Breach(
            testDescription: "a frame on a stream never opened", type: 0, stream: 4711,
            payload: [1]),
        Breach(
            testDescription: "a push", type: 5, flags: 4, stream: 1,
            payload: [0, 0, 0, 2, 0x82]),
        Breach(
            testDescription: "no frames at all", type: nil,
            payload: Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8)),
    ]

    @Test(
        "a breach ends the connection and leaves the request's outcome unknown", arguments: breaches
    )
    func broken(breach: Breach) throws {
        let (code, client) = try end(after: breach.bytes)
        #expect(code == .peerBrokeProtocol)
        let known: [HTTP2Outcome.Kind?] = [
            .outcomeUnknown(.connectionLost), .outcomeUnknown(.malformedAnswer),
        ]
        #expect(known.contains(client.kinds[0]))
    }

    @Test("an end without close_notify and a reset lose the requests in flight")
    func cut() throws {
        for isReset in [false, true] {
            let peer = try HTTP2Peer { session in
                _ = session.collect(3)
                session.answer(1, ScriptedReply(status: 200))
                _ = session.exchange(until: .now)
                if isReset {
                    session.connection.reset()
                } else {
                    session.connection.closeAbruptly()
                }
            }
            let client = try peer.client()
            client.run(0..<3)
            #expect(client.session.closed?.code == .byPeer(isReset ? .reset : .cut))
            #expect(client.keys { $0 == .outcomeUnknown(.connectionLost) }.suffix(2) == [1, 2])
            #expect(client.kinds.count == 3)
        }
    }

    /// A client that has filled the socket of a peer which reads nothing, with its number of requests. The peer resets
    /// the connection once the gate is tripped.
    private static func overfilled(
        _ gate: Interrupt, _ change: (inout HTTP2ClientSettings) -> Void = { _ in }
    ) throws -> (HTTP2Drive, UInt64) {
        let authority = try Authority()
        let loopback = try Loopback(authority.server(alpn: ["h2"])) { connection in
            var settings = HTTP2ServerSettings()
            settings.connectionWindow = 1 << 30
            settings.initialWindow = 1 << 30
            let session = try HTTP2ServerSession(connection, settings: settings)
            // SETTINGS go out, then nothing is read.
            _ = session.exchange(until: .now)
            _ = gate.wait(until: .in(patience))
            connection.reset()
        }
        var limits = HTTP2ClientSettings()
        change(&limits)
        let client = HTTP2Drive(
            try HTTP2ClientSession(
                loopback.connect(authority.client(alpn: ["h2"])), settings: limits))
        client.keeps = loopback
        client.awaitSettings()
        client.body = [UInt8](repeating: 1, count: 60_000)
        var key: UInt64 = 0
        while client.submit(key) {
            key += 1
            _ = client.exchange(until: .now)
        }
        return (client, key)
    }

    @Test(
        "a request of which the peer's host takes no last byte in time ends the connection, unsent")
    func socketIsFull() throws {
        let gate = try Interrupt()
        let (client, key) = try Self.overfilled(gate) { $0.requestTimeout = .seconds(1) }
        while client.session.closed == nil { _ = client.exchange() }
        gate.trip()
        #expect(client.session.closed?.code == .unresponsive)
        let unsent = client.keys { $0 == .notProcessed(.notSent) }
        #expect(client.kinds.count == Int(key) && !unsent.isEmpty)
        // Those before it are whole on the wire, as far as this host can know.
        let first = unsent.first ?? 0
        #expect(first > 0 && unsent == Array(first..<key))
    }

    @Test(
        "only what a server that has read us can send proves that it has",
        arguments: [
            (4, 0, 0, [], false), (4, 1, 0, [], true), (8, 0, 0, [0, 0, 0, 1], true),
            (6, 0, 0, [0, 0, 0, 0, 0, 0, 0, 0], false),
            (7, 0, 0, [0x7F, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0], false),
            (7, 0, 0, [0, 0, 0, 1, 0, 0, 0, 0], true),
        ] as [(UInt8, UInt8, Int32, [UInt8], Bool)])
    func proofs(type: UInt8, flags: UInt8, stream: Int32, payload: [UInt8], proves: Bool) throws {
        let gate = try Interrupt()
        let authority = try Authority()
        let loopback = try Loopback(authority.server(alpn: ["h2"])) { connection in
            // Raw frames, so that nothing is acknowledged: SETTINGS, then the one in question.
            try connection.write(
                HTTP2ServerSession.frame(type: 4, flags: 0, streamID: 0, length: 0)
                    + HTTP2ServerSession.frame(
                        type: type, flags: flags, streamID: stream, length: payload.count)
                    + payload)
            _ = gate.wait(until: .in(patience))
            connection.closeAbruptly()
        }
        let client = HTTP2Drive(
            try HTTP2ClientSession(loopback.connect(authority.client(alpn: ["h2"]))))
        try #require(client.submit(0))
        gate.trip()
        while client.session.closed == nil { _ = client.exchange() }
        #expect(client.session.hasBeenRead == proves)
        #expect(client.kinds[0] == .outcomeUnknown(.connectionLost))
    }

    @Test("requests that TLS did not take were certainly not sent, if the peer reads nothing")
    func notSent() throws {
        let gate = try Interrupt()
        let (client, key) = try Self.overfilled(gate)
        gate.trip()
        #expect(client.exchange() == .closed)
        let unsent = client.keys { $0 == .notProcessed(.notSent) }
        #expect(client.kinds.count == Int(key))
        #expect(!unsent.isEmpty)
        #expect(client.kinds[0] == .outcomeUnknown(.connectionLost))
        #expect(unsent == Array((key - UInt64(unsent.count))..<key))
        #expect(client.session.room == 0)
    }
}
