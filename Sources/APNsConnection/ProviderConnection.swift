// Performs the decisions of ProviderConversation: one thread, one connection at a time. The thread
// takes notifications while the session has room, waits for answers, and delivers them in batches.
// It connects when the first notification waits, and keeps the connection for as long as it works.

import APNsProtocol
import Encodings
import SecureTransport

/// One connection after another to a provider, on one thread.
struct ProviderConnection: ~Copyable {
    /// The wait for work after which the connection is checked for activity of the peer.
    private static let idleMilliseconds = 1_000
    /// The time of one exchange; it limits the delay before a request to stop has effect.
    private static let exchange = Duration.milliseconds(200)
    /// The rest, in exchanges, of a connection that gave up while others work: half a minute.
    private static let rest = 150

    private let plan: ProviderPlan
    private let queues: ProviderQueues
    private let interrupt: Interrupt
    private var conversation: ProviderConversation
    private var session: HTTP2ClientSession?
    private var inFlight = InFlightRequests()
    private var again: [PushNotification] = []
    private var done: [ProviderOutcome] = []
    private var writer: ProviderRequestWriter
    private var lastFailure: ProviderFailure?
    /// The reason why no more can be sent; thrown when nothing is in flight.
    private var fault: ProviderFailure?
    /// Whether it gave up connecting and has had no answer since.
    private var isResting = false
    /// The reason for leaving the present connection although the peer keeps it open.
    private var unanswered: ProviderFailure?
    /// The time limit for a peer that allows no stream.
    private var blockedUntil: Deadline?
    /// The streams that the caller knows of.
    private var streams = 0
    /// Bytes of the last payload, by which it is guessed how many fit into the window.
    private var payloadBytes = 0
    /// The wait until the caller may have renewed its lease.
    static let leaseWait = Duration.milliseconds(20)

    init(_ plan: ProviderPlan, _ queues: ProviderQueues, _ interrupt: Interrupt) {
        self.plan = plan
        self.queues = queues
        self.interrupt = interrupt
        conversation = ProviderConversation(usesToken: plan.tokens != nil)
        writer = ProviderRequestWriter(plan)
        tellStreams()
    }

    /// Sends until a request to stop, or until the provider has to be given up; then returns the
    /// reason.
    mutating func run() -> ProviderFailure? {
        while true {
            do {
                guard try step() else { break }
            } catch {
                lastFailure = error
                break
            }
        }
        returnUnsent()
        queues.addStreams(-streams)
        if let session {
            if queues.mayGive() {
                session.close(deadline: .in(.seconds(1)))
            } else {
                session.abandon()
            }
            // Only the session knows which of its requests were never sent.
            collectOutcomes(of: session)
            deliver(done)
        }
        returnUnsent()
        deliver(
            inFlight.removeAll().map {
                ProviderOutcome(key: $0.key, kind: .unknown("the connection was closed"))
            })
        wakeUp()
        return queues.isStopping ? nil : lastFailure
    }

    /// One round of sending and receiving; false when the thread must end.
    private mutating func step() throws(ProviderFailure) -> Bool {
        if queues.isStopping && (interrupt.isTripped || inFlight.isEmpty) { return false }
        // A process that was suspended may wake up when others have its rows. Answers are heard all the same.
        guard queues.mayGive() else {
            guard let session else { return !interrupt.wait(until: .in(Self.leaseWait)) }
            return try exchange(session, until: .in(Self.leaseWait))
        }
        guard let session else {
            if again.isEmpty && queues.count == 0 {
                queues.awaitNotifications(within: Self.idleMilliseconds)
                return true
            }
            return try connect()
        }
        // What an idle connection has got by now may be its end.
        if inFlight.isEmpty, !again.isEmpty || queues.count > 0 {
            guard try exchange(session, until: .now) else { return false }
            guard self.session != nil else { return true }
        }
        try fill(session)
        if inFlight.isEmpty && session.room == 0 && !mustEnd(session) {
            return try awaitRoom(session)
        }
        if inFlight.isEmpty && again.isEmpty && !mustEnd(session) {
            queues.awaitNotifications(within: Self.idleMilliseconds)
            if queues.count > 0 || queues.isStopping { return true }
            return try exchange(session, until: .now)
        }
        return try exchange(session, until: .in(Self.exchange))
    }

    /// Without room for a stream only the peer can make progress possible. It has as long as for an
    /// answer; then the connection counts as failed.
    private mutating func awaitRoom(
        _ session: HTTP2ClientSession
    ) throws(ProviderFailure) -> Bool {
        let deadline = blockedUntil ?? .in(plan.limits.request)
        blockedUntil = deadline
        let goesOn = try exchange(session, until: .in(Self.exchange))
        if session.room > 0 {
            blockedUntil = nil
        } else if deadline.hasPassed, self.session != nil {
            blockedUntil = nil
            conversation.drain()
            plan.log("\(plan.name) allows no request; connecting anew")
        }
        return goesOn
    }

    private mutating func fill(_ session: HTTP2ClientSession) throws(ProviderFailure) {
        guard !conversation.isDraining && !session.isClosing else { return }
        let isWanted = !again.isEmpty || queues.count > 0
        if conversation.refusalPause > 0 && inFlight.isEmpty && isWanted {
            _ = interrupt.wait(
                until: .in(.milliseconds(conversation.refusalPause) * plan.limits.pace))
            conversation.pausedForRefusals()
        }
        session.maximumStreams = conversation.streams
        while room(of: session) > again.count && !queues.isStopping {
            let more = queues.takeNotifications(room(of: session) - again.count)
            guard let last = more.last else { break }
            payloadBytes = last.payload.count
            again += more
        }
        try writer.renewToken()
        var sent = 0
        while sent < again.count, session.room > 0 {
            do throws(RequestRefusal) {
                try writer.prepare(again[sent])
            } catch {
                deliver([
                    ProviderOutcome(key: again[sent].key, kind: .unsendable("\(error.reason)"))
                ])
                sent += 1
                continue
            }
            again[sent].sends += 1
            let slot = inFlight.insert(again[sent], tokenSerial: writer.token?.serial)
            guard writer.submit(to: session, under: slot) else {
                inFlight.remove(slot)
                again[sent].sends -= 1
                break
            }
            sent += 1
        }
        again.removeFirst(sent)
        tellStreams()
    }

    /// The requests that streams and window of a session have room for, about one too many.
    private func room(of session: HTTP2ClientSession) -> Int {
        let room = session.room
        guard room > 0, payloadBytes > 0 else { return room }
        return min(room, session.window / payloadBytes + 1)
    }

    /// Tells the caller how many streams this connection uses, or would use if there were more to send.
    private mutating func tellStreams() {
        let now = session.map { inFlight.count + room(of: $0) } ?? conversation.streams
        queues.addStreams(now - streams)
        streams = now
    }

    private mutating func exchange(
        _ session: HTTP2ClientSession, until deadline: Deadline
    ) throws(ProviderFailure) -> Bool {
        let wantsRoom = session.room == 0 && (!again.isEmpty || queues.count > 0)
        switch session.exchange(until: deadline, wantsRoom: wantsRoom) {
        case .outcomes, .closed: collectOutcomes(of: session)
        case .timedOut, .interrupted: break
        }
        deliver(done)
        done.removeAll(keepingCapacity: true)
        guard session.closed != nil || inFlight.isEmpty && mustEnd(session) else { return true }
        return try end(session)
    }

    private func mustEnd(_ session: HTTP2ClientSession) -> Bool {
        session.isClosing || conversation.isDraining
    }

    private mutating func collectOutcomes(of session: HTTP2ClientSession) {
        let batch = session.outcomes
        done.reserveCapacity(batch.outcomes.count)
        for outcome in batch.outcomes {
            guard let sent = inFlight.remove(outcome.key) else { continue }
            let notification = sent.notification
            switch outcome.kind {
            case .response(let status):
                do throws(ProviderFailure) {
                    try answered(sent, with: status, outcome, in: batch)
                } catch {
                    fault = fault ?? error
                    conversation.drain()
                }
            case .notProcessed(let reason): notProcessed(notification, reason)
            case .outcomeUnknown where Self.refusedCertificate(session):
                settle(notification, .untouched)
            case .outcomeUnknown(let reason):
                conversation.outcomeUnknown()
                let isBroken = reason.isBreach || session.closed?.code == .peerBrokeProtocol
                settle(
                    notification, isBroken ? .garbled(reason.clause) : .unknown(reason.clause))
                if conversation.isUnanswering { noteUnanswered(reason.clause, isBroken) }
            }
        }
    }

    private mutating func notProcessed(
        _ notification: PushNotification, _ reason: HTTP2Outcome.NotProcessed
    ) {
        let (why, clause): (ProviderConversation.Unprocessed, String?) =
            switch reason {
            case .goAway, .notSent: (.connectionEnded, nil)
            case .refused: (.refused, "stream refused")
            case .incomplete(.heldBack): (.incomplete, "held back by flow control")
            case .incomplete(.breach): (.incomplete, "answered before it was sent")
            case .incomplete(.reset(let code)): (.incomplete, "stream reset (\(code))")
            }
        let decision = conversation.notProcessed(why, sends: notification.sends)
        if let clause, why == .incomplete, conversation.isUnanswering {
            noteUnanswered(clause, reason == .incomplete(.breach))
        }
        if decision == .sendAgain {
            again.append(notification)
        } else {
            settle(notification, clause.map { .refused($0) } ?? .untouched)
        }
    }

    /// Whether the gateway refused this host's certificate before it read anything. Under TLS 1.3 the refusal
    /// arrives only after requests were sent, and a server that asks for a certificate reads none of them before
    /// (RFC 8446, 4.4.2.4). Later the same alert says nothing about what was read.
    private static func refusedCertificate(_ session: HTTP2ClientSession) -> Bool {
        session.closed?.failure?.code == .clientCertificateRefused && !session.hasBeenRead
    }

    /// Stores the reason for leaving the connection, for the message when the provider is given up.
    private mutating func noteUnanswered(_ why: String, _ isBroken: Bool) {
        unanswered = ProviderFailure(
            isBroken ? .protocolBroken : .unanswering,
            "HTTP/2 with \(plan.name): \(ProviderConversation.mostUnanswered) notifications in a row "
                + "were left without an answer (\(why))")
    }

    private func answer(
        _ status: Int, _ outcome: HTTP2Outcome, in batch: HTTP2OutcomeBatch
    ) -> ProviderAnswer {
        guard status != 200 || outcome.bodyLength > 0 else { return ProviderAnswer(status: 200) }
        let after = batch.value(of: ProviderRequestWriter.retryAfter, in: outcome)
        // A wait until a date is told by the clock of who answers.
        let now = after == nil ? nil : serverTime(of: outcome, in: batch) ?? plan.now()
        return batch.body(of: outcome).withUnsafeBytes {
            ProviderAnswer(
                status: status, body: $0,
                hasContentType: batch.value(
                    of: ProviderRequestWriter.contentType, in: outcome) != nil,
                retryAfter: after.flatMap { value in now.map { (Array(value), $0) } })
        }
    }

    /// The time in the `date` header of an answer; nil without a usable one.
    private func serverTime(
        of outcome: HTTP2Outcome, in batch: HTTP2OutcomeBatch
    ) -> EpochSeconds? {
        batch.value(of: ProviderRequestWriter.date, in: outcome)
            .flatMap { HTTPDate.seconds(String(decoding: $0, as: UTF8.self)) }
            .map { EpochSeconds(UInt32(clamping: $0)) }
    }

    private mutating func answered(
        _ sent: InFlightRequests.Entry, with status: Int, _ outcome: HTTP2Outcome,
        in batch: HTTP2OutcomeBatch
    ) throws(ProviderFailure) {
        let notification = sent.notification
        let answer = answer(status, outcome, in: batch)
        switch conversation.answered(answer.meaning, sends: notification.sends) {
        case .deliver:
            wakeUp()
            settle(notification, .answered(answer))
        case .sendAgain: again.append(notification)
        case .sendWithNewToken:
            again.append(notification)
            try writer.replaceToken(
                serial: sent.tokenSerial, serverTime: serverTime(of: outcome, in: batch))
        }
    }

    private func deliver(_ outcomes: [ProviderOutcome]) { queues.deliver(outcomes) }

    private mutating func settle(_ notification: PushNotification, _ kind: ProviderOutcome.Kind) {
        done.append(ProviderOutcome(key: notification.key, kind: kind))
    }

    /// APNs processed none of these; another connection may send them.
    private mutating func returnUnsent() {
        deliver(again.map { ProviderOutcome(key: $0.key, kind: .untouched) })
        again = []
    }

    private mutating func end(_ session: HTTP2ClientSession) throws(ProviderFailure) -> Bool {
        session.close()
        if let fault { throw fault }
        if let goAway = session.goAway {
            let reason = AnswerBody(goAway.debug).reason.map { " (\($0))" } ?? ""
            plan.log("\(plan.name) said GOAWAY, \(goAway.code)\(reason)")
        }
        self.session = nil
        tellStreams()
        let close = session.closed
        defer { unanswered = nil }
        let failure = close?.failure.map {
            ProviderFailure($0, hasConnected: queues.hasConnected)
        }
        // A refused certificate leaves many without an answer, and is the reason.
        lastFailure =
            (failure?.code == .configuration ? failure : unanswered ?? failure)
            ?? ProviderFailure(
                close?.code == .peerBrokeProtocol ? .protocolBroken : .unreachable,
                close?.description ?? "HTTP/2 with \(plan.name): the connection ended")
        return try pause()
    }

    /// Waits before the next connection; false when there must be no next one.
    private mutating func pause() throws(ProviderFailure) -> Bool {
        if let lastFailure, lastFailure.code == .configuration { throw lastFailure }
        if let most = conversation.ended() { return plan.pause(most, interrupt) }
        return try rest()
    }

    /// While other connections work, this one tries again after a rest. The last one to fail ends
    /// the sending.
    private mutating func rest() throws(ProviderFailure) -> Bool {
        returnUnsent()
        guard queues.beginRest(isResting: isResting) else {
            if let lastFailure { throw lastFailure }
            return false
        }
        isResting = true
        plan.log("one connection to \(plan.name) rests while others go on")
        for _ in 0..<Self.rest where !queues.isStopping {
            if interrupt.wait(until: .in(Self.exchange * plan.limits.pace)) { return false }
        }
        conversation.startAgain()
        return true
    }

    /// The connection works again, or ends: other connections may rest now.
    private mutating func wakeUp() {
        if isResting { queues.endRest() }
        isResting = false
    }

    private mutating func connect() throws(ProviderFailure) -> Bool {
        do throws(TransportFailure) {
            session = try open()
        } catch {
            guard error.code != .interrupted else { return false }
            let failure = ProviderFailure(error, hasConnected: queues.hasConnected)
            lastFailure = failure
            plan.log("\(failure)")
            return try pause()
        }
        queues.noteConnected()
        conversation.connected()
        tellStreams()
        blockedUntil = nil
        return true
    }

    /// Connects with the limits of the plan.
    private func open() throws(TransportFailure) -> HTTP2ClientSession {
        var settings = HTTP2ClientSettings()
        settings.maximumStreams = conversation.streams
        settings.requestTimeout = plan.limits.request
        settings.keptFields = ProviderRequestWriter.keptFields
        let session = try HTTP2ClientSession(try plan.connect(interrupt), settings: settings)
        session.maySend = queues.mayGive
        return session
    }
}

extension HTTP2Outcome.Unknown {
    fileprivate var isBreach: Bool { self == .malformedAnswer || self == .headersTooLarge }

    /// A short clause for the queue and for reports.
    fileprivate var clause: String {
        switch self {
        case .reset(let code): "stream reset (\(code))"
        case .connectionLost: "connection lost"
        case .deadline: "no answer in time"
        case .malformedAnswer: "malformed answer"
        case .headersTooLarge: "answer's headers too large"
        }
    }
}
