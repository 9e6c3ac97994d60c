import APNsProtocol
import Glibc
import SecureTransport
import Synchronization

/// Serves one client of the provider listener, confined to its thread.
struct ProviderConnection {
    private let session: HTTP2ServerSession
    private let gateway: ProviderGateway
    private let misbehaviour: ProviderMisbehaviour
    private let scene: ProviderPlot.Scene?
    private let book: ProviderBook
    private let sequence: RequestSequence
    private let number: Int
    private var shown: ProviderGateway.Connection
    /// Whole requests so far.
    private(set) var received = 0
    private var lastProcessedStream: Int32 = 0
    private var records: [ProviderRecord] = []
    /// Requests that are processed and will be answered behind another one.
    private var held: [(stream: Int32, reply: ScriptedReply, verdict: ProviderGateway.Verdict)] = []

    /// How long a client that was sent away may take to leave.
    private static let lingerTimeout = Duration.seconds(5)

    /// How a batch of requests left the connection.
    private enum Course: Equatable {
        case goesOn
        case goesAway(ProviderMisbehaviour.GoAway)
        case reset
        case closes
    }

    init(
        _ session: HTTP2ServerSession, desk: ProviderDesk, number: Int,
        certificateTopic: String?
    ) {
        self.session = session
        (gateway, misbehaviour) = (desk.gateway, desk.misbehaviour)
        (book, sequence) = (desk.book, desk.sequence)
        scene = desk.plot?.scene(number)
        self.number = number
        shown = ProviderGateway.Connection(certificateTopic: certificateTopic)
    }

    /// Runs until the client leaves, is sent away, or `stop` is tripped; says how it ended.
    mutating func serve(stop: Interrupt) -> String {
        defer {
            for late in held { note(late.verdict, .unanswered, late.reply.status == 200) }
            book.add(records)
            records = []
        }
        while true {
            switch session.exchange(until: .never, interrupt: stop) {
            case .requests:
                let course = handleRequests()
                book.add(records)
                records.removeAll(keepingCapacity: true)
                switch course {
                case .goesOn: continue
                case .goesAway(let goAway):
                    sendAway(goAway)
                    return "sent away"
                case .closes:
                    session.close(deadline: .in(Self.lingerTimeout))
                    return "closed by the gateway"
                case .reset:
                    session.connection.reset()
                    return "reset by the gateway"
                }
            case .timedOut: continue
            case .interrupted:
                session.goAway(
                    lastStreamID: lastProcessedStream, debug: Array(#"{"reason":"Shutdown"}"#.utf8))
                session.close(deadline: .in(.milliseconds(200)))
                return "the gateway stopped"
            case .closed:
                return session.closed?.description ?? "closed"
            }
        }
    }

    private mutating func handleRequests() -> Course {
        var seconds = time_t()
        time(&seconds)
        let now = EpochSeconds(UInt32(clamping: seconds))
        var course = Course.goesOn
        while let request = session.nextRequest() {
            received += 1
            if course == .goesOn, received == misbehaviour.resetAtRequest,
                misbehaviour.applies(to: number)
            {
                course = .reset
            }
            guard course == .goesOn else {
                // What was sent behind the request that ends the connection.
                handle(request, fate: course == .reset ? .unanswered : .dropped, now)
                continue
            }
            if let act = scene?.act(received) {
                course = perform(act, on: request, now)
                continue
            }
            for change in misbehaviour.settingsChanges where change.atRequest == received {
                session.changeSettings(
                    maximumStreams: change.maximumStreams, initialWindow: change.initialWindow)
            }
            handle(request, fate: misbehaviour.fate(of: received, onConnection: number), now)
            if let goAway = misbehaviour.goAway, received == goAway.atRequest,
                misbehaviour.applies(to: number)
            {
                course = .goesAway(goAway)
            }
        }
        return course
    }

    private func verdict(
        on raw: HTTP2ServerRequest, _ now: EpochSeconds
    ) -> (ProviderGateway.Verdict, ProviderGateway.Connection) {
        var request = GatewayRequest(body: raw.body)
        for place in 0..<raw.fieldCount {
            let (name, value) = raw.field(place)
            request.add(name, value)
        }
        var shown = shown
        let verdict = gateway.verdict(
            on: request, connection: &shown, now: now, number: { sequence.next() })
        return (verdict, shown)
    }

    private mutating func note(
        _ verdict: ProviderGateway.Verdict, _ end: ProviderRecord.End, _ isAccepted: Bool
    ) {
        records.append(
            ProviderRecord(
                connection: number, token: verdict.token, id: verdict.id, end: end,
                isAccepted: isAccepted))
    }

    private mutating func handle(
        _ raw: HTTP2ServerRequest, fate: ProviderMisbehaviour.Fate, _ now: EpochSeconds
    ) {
        let verdict: ProviderGateway.Verdict
        (verdict, shown) = self.verdict(on: raw, now)
        var isAccepted = false
        if case .reply(let reply) = verdict.action { isAccepted = reply.status == 200 }
        let end: ProviderRecord.End
        switch (fate, verdict.action) {
        case (.dropped, _):
            (end, isAccepted) = (.unprocessed, false)
        case (.unanswered, _), (.served, .stall):
            end = .unanswered
        case (.served, .reset(let code)):
            session.reset(raw.streamID, code: code)
            end = code == .refusedStream ? .unprocessed : .unanswered
        case (.served, .reply(let reply)):
            answer(raw.streamID, reply, verdict.id)
            end = .answered(status: reply.status)
        }
        if end != .unprocessed { lastProcessedStream = max(lastProcessedStream, raw.streamID) }
        note(verdict, end, isAccepted)
        if case .answered = end { releaseHeld() }
    }

    /// Does to a request what the plot says.
    private mutating func perform(
        _ act: ProviderPlot.Act, on raw: HTTP2ServerRequest, _ now: EpochSeconds
    ) -> Course {
        if act == .goAway {
            handle(raw, fate: .dropped, now)
            return .goesAway(ProviderMisbehaviour.GoAway(atRequest: received))
        }
        switch act {
        case .serve:
            handle(raw, fate: .served, now)
            return .goesOn
        case .streams(let count):
            session.changeSettings(maximumStreams: count)
            handle(raw, fate: .served, now)
            return .goesOn
        case .reset(.refusedStream):
            session.reset(raw.streamID, code: .refusedStream)
            handle(raw, fate: .dropped, now)
            return .goesOn
        default: break
        }
        let verdict: ProviderGateway.Verdict
        (verdict, shown) = self.verdict(on: raw, now)
        lastProcessedStream = max(lastProcessedStream, raw.streamID)
        switch act {
        case .answer(let reply):
            answer(raw.streamID, reply, verdict.id)
            note(verdict, .answered(status: reply.status), reply.status == 200)
            releaseHeld()
            return .goesOn
        case .hold:
            held.append((raw.streamID, .accepted, verdict))
            return .goesOn
        case .half:
            var begun = HTTP2Answer(status: 200)
            begun.ends = false
            session.answer(raw.streamID, begun)
        case .reset(let code): session.reset(raw.streamID, code: code)
        case .bytes(let bytes): session.sendRaw(bytes)
        default: break
        }
        // Processed, and the gateway may well have accepted it.
        note(verdict, .unanswered, true)
        return act == .cut ? .reset : act == .close ? .closes : .goesOn
    }

    private mutating func releaseHeld() {
        let released = held
        held = []
        for late in released {
            answer(late.stream, late.reply, late.verdict.id)
            note(late.verdict, .answered(status: late.reply.status), true)
        }
    }

    private func answer(_ stream: Int32, _ reply: ScriptedReply, _ id: APNsID) {
        var fields = [HTTP2Field("apns-id", id.description, indexing: .never)]
        if let retryAfter = reply.retryAfter {
            fields.append(HTTP2Field("retry-after", retryAfter))
        }
        session.answer(
            stream,
            HTTP2Answer(
                status: reply.status, fields: fields, body: reply.body,
                largestPiece: reply.largestPiece))
    }

    /// Says GOAWAY, notes what still comes as unprocessed, and closes.
    private mutating func sendAway(_ goAway: ProviderMisbehaviour.GoAway) {
        session.goAway(
            lastStreamID: goAway.lastStreamID ?? lastProcessedStream, code: goAway.code,
            debug: goAway.debug)
        session.close(deadline: .in(Self.lingerTimeout))
        var seconds = time_t()
        time(&seconds)
        while let late = session.nextRequest() {
            handle(late, fate: .dropped, EpochSeconds(UInt32(clamping: seconds)))
        }
    }
}

/// Numbers the valid requests of all connections from 1.
final class RequestSequence: Sendable {
    private let last = Atomic<Int>(0)

    func next() -> Int { last.add(1, ordering: .relaxed).newValue }
}
