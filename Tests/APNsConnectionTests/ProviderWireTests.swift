import APNsProtocol
import APNsSimulator
import Foundation
import SecureTransport
import Synchronization
import TestSupport
import Testing

@testable import APNsConnection

/// A provider with one connection, and a server of HTTP/2 that a script plays.
private final class Wire: Sendable {
    /// What the server's threads and the test share.
    final class Scene: Sendable {
        /// Paths of the requests that came whole, in order.
        let whole = Mutex<[String]>([])
        let connections = Mutex(0)
        let ended = DispatchSemaphore(value: 0)
        /// Signalled when the server may end the connection.
        let mayEnd = DispatchSemaphore(value: 0)
        let mayGive = Mutex(true)
    }

    let scene = Scene()
    let provider: Provider
    private let listener: TLSListener
    private let stop: Interrupt
    private let thread: WorkerThread

    /// `script` gets each connection with its number, from 0.
    init(
        request: Duration = .seconds(5), settings: HTTP2ServerSettings = HTTP2ServerSettings(),
        _ script: @escaping @Sendable (HTTP2ServerSession, Int, Scene) -> Void
    ) throws {
        let certificates = try SweepStage.certificates.get()
        let (listener, stop, scene) = (try TLSListener(), try Interrupt(), scene)
        let server = try TLSServerContext(
            identity: certificates.identity(.server), clients: .notAsked,
            versions: .tls12 ... .tls13, alpn: ["h2"])
        thread = try WorkerThread {
            while let client = try? listener.accept(deadline: .never, interrupt: stop) {
                guard
                    let connection = try? client.handshake(context: server, timeout: .seconds(20)),
                    let session = try? HTTP2ServerSession(connection, settings: settings)
                else { continue }
                let number = scene.connections.withLock { count in
                    defer { count += 1 }
                    return count
                }
                script(session, number, scene)
                scene.ended.signal()
            }
        }
        var limits = ProviderPlan.Limits()
        limits.request = request
        limits.pace = 0.01
        provider = try Provider(
            ProviderPlan(
                .http2(nil, connections: 1), host: "127.0.0.1", port: listener.port,
                topic: "com.example.chat",
                context: try TLSClientContext(
                    trust: .file(certificates.authority), identity: certificates.identity(.client),
                    alpn: ["h2"]),
                limits: limits, now: { EpochSeconds(1_750_000_000) })
        ) { scene.mayGive.withLock { $0 } }
        (self.listener, self.stop) = (listener, stop)
    }

    deinit {
        provider.stop(abruptly: true)
        stop.trip()
        thread.join()
    }

    /// Gives notifications with these keys.
    func give(_ keys: ClosedRange<Int>) {
        provider.submit(
            keys.map {
                PushNotification(
                    key: UInt64($0), token: .numbered($0), id: APNsID(high: 0, low: UInt64($0)),
                    payload: Array("{}".utf8))
            })
    }

    /// Waits for so many outcomes, at most 20 seconds.
    func outcomes(_ count: Int) -> [UInt64: ProviderOutcome.Kind] {
        var outcomes: [UInt64: ProviderOutcome.Kind] = [:]
        let deadline = Deadline.in(.seconds(20))
        while outcomes.count < count, !deadline.hasPassed {
            for outcome in provider.outcomes(within: 100) { outcomes[outcome.key] = outcome.kind }
        }
        return outcomes
    }
}

extension HTTP2ServerSession {
    /// Takes so many requests and answers each.
    fileprivate func serve(_ count: Int, _ scene: Wire.Scene, _ reply: ScriptedReply = .accepted) {
        var left = count
        while left > 0, case .requests = exchange(until: .in(.seconds(20))) {
            while let request = nextRequest() {
                scene.whole.withLock {
                    $0.append(String(decoding: request.value(":path") ?? [], as: UTF8.self))
                }
                answer(request.streamID, reply)
                left -= 1
            }
        }
        _ = exchange(until: .now)
    }
}

@Suite("What a provider gives to the wire")
struct ProviderWireTests {
    private static let accepted = ProviderOutcome.Kind.answered(ProviderAnswer(status: 200))

    @Test("an idle connection is read before something is written to it, so its end costs nothing")
    func idleEnd() throws {
        let wire = try Wire { session, number, scene in
            session.serve(number == 0 ? 1 : .max, scene)
            _ = scene.mayEnd.wait(timeout: .now() + (number == 0 ? 20 : 0))
            session.connection.closeAbruptly()
        }
        wire.give(1...1)
        #expect(wire.outcomes(1) == [1: Self.accepted])
        // By now the connection has nothing to do.
        wire.scene.mayEnd.signal()
        #expect(wire.scene.ended.wait(timeout: .now() + 20) == .success)
        wire.give(2...2)
        #expect(wire.outcomes(1) == [2: Self.accepted])
        #expect(wire.scene.whole.withLock { $0.count } == 2)
        #expect(wire.scene.connections.withLock { $0 } == 2)
    }

    @Test("nothing reaches TLS while the rows may not be given, and answers are heard all the same")
    func lease() throws {
        let wire = try Wire { session, _, scene in session.serve(.max, scene) }
        wire.give(1...1)
        #expect(wire.outcomes(1) == [1: Self.accepted])
        wire.scene.mayGive.withLock { $0 = false }
        wire.give(2...4)
        #expect(wire.provider.outcomes(within: 300).isEmpty)
        #expect(wire.scene.whole.withLock { $0.count } == 1)
        wire.scene.mayGive.withLock { $0 = true }
        #expect(wire.outcomes(3).count == 3)
        wire.scene.mayGive.withLock { $0 = false }
        wire.give(5...6)
        #expect(wire.provider.withdraw().map(\.key) == [5, 6])
    }

    @Test("what a gateway accepts before it was sent whole goes out on another connection")
    func earlyAcceptance() throws {
        var settings = HTTP2ServerSettings()
        (settings.initialWindow, settings.opensWindows) = (1, false)
        let wire = try Wire(settings: settings) { session, number, scene in
            if number > 0 { session.changeSettings(initialWindow: 65_535) }
            session.serve(number == 0 ? 1 : .max, scene)
            guard number == 0 else { return }
            // With the window of one byte the others are never whole.
            var answered = 1
            while session.exchange(until: .in(.milliseconds(10))) != .closed {
                while answered < session.streamsOpened {
                    session.answer(Int32(answered * 2 + 1), .accepted)
                    answered += 1
                }
            }
        }
        wire.give(1...1)
        #expect(wire.outcomes(1) == [1: Self.accepted])
        wire.give(2...2)
        #expect(wire.outcomes(1) == [2: Self.accepted])
        #expect(wire.scene.whole.withLock { $0.count } == 2)
        #expect(wire.scene.connections.withLock { $0 } == 2)
    }

    @Test("a 200 with a page reaches the sender as no answer of APNs")
    func foreign() throws {
        let wire = try Wire { session, _, scene in
            session.serve(
                .max, scene,
                ScriptedReply(
                    status: 200, fields: [HTTP2Field("content-type", "text/html")],
                    body: Array("<html>".utf8)))
        }
        wire.give(1...1)
        guard case .answered(let answer) = wire.outcomes(1)[1] else {
            Issue.record("no answer")
            return
        }
        #expect(answer.meaning == .refusedByGateway)
    }

    @Test("a wait until a date counts from the date of the answer")
    func dates() throws {
        let wire = try Wire { session, _, scene in
            session.serve(
                .max, scene,
                ScriptedReply(
                    status: 503,
                    fields: [
                        HTTP2Field("date", "Sun, 06 Nov 2094 08:49:37 GMT"),
                        HTTP2Field("retry-after", "Sun, 06 Nov 2094 09:49:37 GMT"),
                    ], body: Array(#"{"reason":"ServiceUnavailable"}"#.utf8)))
        }
        wire.give(1...1)
        guard case .answered(let answer) = wire.outcomes(1)[1] else {
            Issue.record("no answer")
            return
        }
        #expect(answer.retryAfter == 3_600)
    }
}
