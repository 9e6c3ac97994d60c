import APNsProtocol
import Glibc
import SecureTransport

/// Serves one client of the provider gateway, confined to its thread.
struct ProviderConnectionHandler {
    private let session: HTTP2ServerSession
    private let rules: ProviderRules
    private let scene: ProviderScenario.Connection
    private let log: RequestLog
    private let number: Int
    private var credentials: GatewayCredentials
    /// The number of complete requests so far.
    private(set) var received = 0
    private var lastProcessedStream: Int32 = 0
    private var records: [ProviderRecord] = []
    /// Requests that are processed and get their answer after another one.
    private var late: [(stream: Int32, decision: ProviderRules.Decision)] = []

    /// The time that a client has to close its side after ours.
    private static let lingerTimeout = Duration.seconds(5)

    /// The state of the connection after a batch of requests.
    private enum Course { case open, goAway, reset, close }

    init(
        _ session: HTTP2ServerSession, server: ProviderServer, number: Int,
        certificateTopic: String?
    ) {
        self.session = session
        (rules, log) = (server.rules, server.log)
        scene = server.scenario.connection(number)
        self.number = number
        credentials = GatewayCredentials(certificateTopic: certificateTopic)
    }

    /// Serves until the client closes, the gateway closes, or `stop` is tripped. Returns the end of
    /// the connection in words.
    mutating func serve(stop: Interrupt) -> String {
        defer {
            for request in late {
                record(request.decision, .unanswered, isAccepted: true)
            }
            log.add(records)
            records = []
        }
        while true {
            switch session.exchange(until: .never, interrupt: stop) {
            case .requests:
                let course = serveRequests()
                log.add(records)
                records.removeAll(keepingCapacity: true)
                switch course {
                case .open: continue
                case .goAway:
                    closeWithGoAway()
                    return "closed with GOAWAY"
                case .close:
                    session.close(deadline: .in(Self.lingerTimeout))
                    return "closed by the gateway"
                case .reset:
                    session.connection.reset()
                    return "reset by the gateway"
                }
            case .timedOut: continue
            case .interrupted:
                session.goAway(lastStreamID: lastProcessedStream, debug: Self.shutdown)
                session.close(deadline: .in(.milliseconds(200)))
                return "the gateway stopped"
            case .closed:
                return session.closed?.description ?? "closed"
            }
        }
    }

    private mutating func serveRequests() -> Course {
        let now = Self.now
        var course = Course.open
        while let request = session.nextRequest() {
            received += 1
            guard course == .open else {
                // These were sent after the request that ends the connection.
                perform(course == .reset ? .noAnswer : .leave, on: request, at: now)
                continue
            }
            course = perform(scene.action(received), on: request, at: now)
            if course == .open, scene.goAway?.atRequest == received { course = .goAway }
        }
        return course
    }

    private static var now: EpochSeconds {
        var seconds = time_t()
        time(&seconds)
        return EpochSeconds(UInt32(clamping: seconds))
    }

    private mutating func decision(
        on request: HTTP2ServerRequest, at now: EpochSeconds
    ) -> ProviderRules.Decision {
        let log = log
        return rules.decision(
            on: request, credentials: &credentials, now: now, number: log.nextNumber)
    }

    private mutating func record(
        _ decision: ProviderRules.Decision, _ end: ProviderRecord.End, isAccepted: Bool
    ) {
        records.append(
            ProviderRecord(
                connection: number, token: decision.token, id: decision.id, end: end,
                isAccepted: isAccepted))
    }

    /// Records the end of a request. All but the unprocessed count for the next GOAWAY.
    private mutating func end(
        _ stream: Int32, _ decision: ProviderRules.Decision, _ end: ProviderRecord.End,
        isAccepted: Bool
    ) {
        if end != .unprocessed { lastProcessedStream = max(lastProcessedStream, stream) }
        record(decision, end, isAccepted: isAccepted)
        if case .answered = end { answerLateRequests() }
    }

    /// Treats a request by the script, as a gateway that works.
    private mutating func serve(_ stream: Int32, _ decision: ProviderRules.Decision) {
        switch decision.action {
        case .stall: end(stream, decision, .unanswered, isAccepted: false)
        case .reset(let code):
            session.reset(stream, code: code)
            let end: ProviderRecord.End = code == .refusedStream ? .unprocessed : .unanswered
            self.end(stream, decision, end, isAccepted: false)
        case .reply(let reply):
            answer(stream, reply, decision.id)
            end(
                stream, decision, .answered(status: reply.status), isAccepted: reply.status == 200)
        }
    }

    /// Performs an action on a request.
    @discardableResult
    private mutating func perform(
        _ action: ProviderScenario.Action, on request: HTTP2ServerRequest, at now: EpochSeconds
    ) -> Course {
        let stream = request.streamID
        let decision = decision(on: request, at: now)
        var isAccepted = true
        if case .reply(let reply) = decision.action { isAccepted = reply.status == 200 }
        func end(_ end: ProviderRecord.End, isAccepted: Bool) {
            self.end(stream, decision, end, isAccepted: isAccepted)
        }
        switch action {
        case .changeStreams(let count):
            session.changeSettings(maximumStreams: count)
            serve(stream, decision)
        case .serve: serve(stream, decision)
        case .leave: end(.unprocessed, isAccepted: false)
        case .goAway:
            end(.unprocessed, isAccepted: false)
            return .goAway
        case .reset(.refusedStream):
            session.reset(stream, code: .refusedStream)
            end(.unprocessed, isAccepted: false)
        case .answer(let reply):
            answer(stream, reply, decision.id)
            end(.answered(status: reply.status), isAccepted: reply.status == 200)
        case .answerLate:
            lastProcessedStream = max(lastProcessedStream, stream)
            late.append((stream, decision))
        // Processed, so the gateway may have accepted it.
        case .noAnswer: end(.unanswered, isAccepted: isAccepted)
        case .partialAnswer:
            var begun = ScriptedReply.accepted
            begun.ends = false
            session.answer(stream, begun)
            end(.unanswered, isAccepted: true)
        case .reset(let code):
            session.reset(stream, code: code)
            end(.unanswered, isAccepted: true)
        case .rawBytes(let bytes):
            session.sendRaw(bytes)
            end(.unanswered, isAccepted: true)
        case .resetConnection:
            end(.unanswered, isAccepted: isAccepted)
            return .reset
        case .closeConnection:
            end(.unanswered, isAccepted: true)
            return .close
        }
        return .open
    }

    private mutating func answerLateRequests() {
        let requests = late
        late = []
        for request in requests {
            answer(request.stream, .accepted, request.decision.id)
            record(request.decision, .answered(status: 200), isAccepted: true)
        }
    }

    private func answer(_ stream: Int32, _ reply: ScriptedReply, _ id: APNsID) {
        var answer = reply
        answer.fields.insert(HTTP2Field("apns-id", id.description, isIndexed: false), at: 0)
        session.answer(stream, answer)
    }

    /// Sends GOAWAY, closes, and records the requests that arrived meanwhile as unprocessed.
    private mutating func closeWithGoAway() {
        session.goAway(
            lastStreamID: scene.goAway?.lastStreamID ?? lastProcessedStream,
            code: scene.goAway?.code ?? .noError, debug: Self.shutdown)
        session.close(deadline: .in(Self.lingerTimeout))
        let now = Self.now
        while let request = session.nextRequest() { perform(.leave, on: request, at: now) }
    }

    /// The debug data of every GOAWAY.
    private static let shutdown = Array(#"{"reason":"Shutdown"}"#.utf8)
}
