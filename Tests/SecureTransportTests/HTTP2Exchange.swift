import APNsSimulator
import Testing

@testable import SecureTransport

/// The requests of the tests; like those of a sender each has two values of its own.
func testTemplate() -> HTTP2RequestTemplate {
    HTTP2RequestTemplate([
        HTTP2Field(":method", "POST"), HTTP2Field(":scheme", "https"),
        HTTP2Field(":authority", "localhost"), .perRequest(":path"),
        HTTP2Field("authorization", "bearer not-a-real-token", isIndexed: false),
        HTTP2Field("apns-topic", "com.example.chat"), .perRequest("apns-id"),
    ])
}

/// Drives a client session as a sender does and notes the outcome of each key.
final class HTTP2Drive {
    let session: HTTP2ClientSession
    private var request = HTTP2Request(testTemplate())
    /// Prefix of each request's path; its key follows.
    var path = "/3/device/"
    var body = Array(#"{"aps":{"alert":"hi"}}"#.utf8)
    /// Whether each request's body is its own.
    var bodyHoldsKey = false
    /// The outcome of each request.
    var kinds: [UInt64: HTTP2Outcome.Kind] = [:]
    /// The bodies of answers that had one.
    var bodies: [UInt64: [UInt8]] = [:]
    /// The first kept field (apns-id) of answers that have it.
    var ids: [UInt64: [UInt8]] = [:]
    var truncated: Set<UInt64> = []
    /// The server, where nobody else keeps it.
    var keeps: Loopback?

    init(_ session: HTTP2ClientSession) {
        self.session = session
    }

    /// Exchanges until the peer's SETTINGS, which allow another number than 100 streams, have come.
    func awaitSettings() {
        let deadline = Deadline.in(patience)
        while session.remoteMaximumStreams == 100, !deadline.hasPassed {
            _ = exchange(until: .in(.milliseconds(5)))
        }
    }

    /// Submits a request under a key; false without room for it.
    func submit(_ key: UInt64) -> Bool {
        request.reset()
        request.append("\(path)\(key)".utf8)
        request.endValue()
        request.append("id-\(key)".utf8)
        request.endValue()
        request.append(body)
        if bodyHoldsKey { request.append("\(key)".utf8) }
        return session.submit(request, key: key)
    }

    /// Exchanges once and notes the outcomes. No key may come twice.
    func exchange(until deadline: Deadline = .in(patience)) -> HTTP2ClientSession.Exchange {
        let result = session.exchange(until: deadline)
        collect()
        return result
    }

    func collect() {
        let batch = session.outcomes
        for outcome in batch.outcomes {
            let former = kinds.updateValue(outcome.kind, forKey: outcome.key)
            #expect(former == nil, "request \(outcome.key) has two outcomes")
            if outcome.bodyLength > 0 { bodies[outcome.key] = Array(batch.body(of: outcome)) }
            if let id = batch.value(of: 0, in: outcome) { ids[outcome.key] = Array(id) }
            if outcome.isTruncated { truncated.insert(outcome.key) }
        }
    }

    /// Submits all keys as room allows and exchanges until each has its outcome, the session is
    /// over, or nothing happens any more. Keys that were never submitted are returned.
    @discardableResult
    func run(_ keys: some Sequence<UInt64>) -> [UInt64] {
        var waiting = Array(keys)[...]
        while !waiting.isEmpty || session.inFlight > 0 {
            while let key = waiting.first, submit(key) { waiting = waiting.dropFirst() }
            guard exchange() == .outcomes else {
                break
            }
        }
        return Array(waiting)
    }

    /// The keys of answers with 200.
    var accepted: [UInt64] { keys { $0 == .response(status: 200) } }

    /// Keys by kind of outcome.
    func keys(_ wanted: (HTTP2Outcome.Kind) -> Bool) -> [UInt64] {
        kinds.filter { wanted($0.value) }.keys.sorted()
    }
}

/// An HTTP/2 server on loopback with the given behaviour and its own authority.
struct HTTP2Peer {
    let authority: Authority
    let loopback: Loopback

    init(
        _ change: (inout HTTP2ServerSettings) -> Void = { _ in },
        serve: @escaping @Sendable (HTTP2ServerSession) throws -> Void
    ) throws {
        var settings = HTTP2ServerSettings()
        change(&settings)
        authority = try Authority()
        loopback = try Loopback(authority.server(alpn: ["h2"])) { [settings] connection in
            try serve(try HTTP2ServerSession(connection, settings: settings))
        }
    }

    func client(_ change: (inout HTTP2ClientSettings) -> Void = { _ in }) throws -> HTTP2Drive {
        var settings = HTTP2ClientSettings()
        settings.requestTimeout = patience
        change(&settings)
        let connection = try loopback.connect(authority.client(alpn: ["h2"]))
        return HTTP2Drive(try HTTP2ClientSession(connection, settings: settings))
    }
}

extension HTTP2ServerSession {
    /// Hands each request to `answer` until the client has left.
    func serve(_ answer: (HTTP2ServerRequest) throws -> Void) rethrows {
        while case .requests = exchange(until: .in(patience)) {
            while let request = nextRequest() { try answer(request) }
        }
    }

    /// Answers each request with 200 until the client has left.
    func serve() { serve { answer($0.streamID, ScriptedReply(status: 200)) } }

    /// Waits until so many requests have come, without answering.
    func collect(_ count: Int) -> [HTTP2ServerRequest] {
        var all: [HTTP2ServerRequest] = []
        while all.count < count, case .requests = exchange(until: .in(patience)) {
            while let request = nextRequest() { all.append(request) }
        }
        return all
    }

    /// Serves until the client has left, without an answer.
    func outlast() { serve { _ in } }
}
