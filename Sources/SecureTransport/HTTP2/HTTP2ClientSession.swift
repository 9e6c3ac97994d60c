import CNGHTTP2

// A client's HTTP/2 connection as a sender uses it: give requests while there is room, exchange,
// look at the outcomes, again. Requests are known by the caller's own key and each gets exactly one
// outcome, whatever happens to its stream or to the connection; nothing is thrown on the way.
//
//     while work remains {
//         while session.room > 0, next(into: &request) { session.submit(request, key: key) }
//         switch session.exchange(until: deadline, interrupt: stop) {
//         case .outcomes: for outcome in session.outcomes { ... }
//         case .closed: for outcome in session.outcomes { ... }; look at session.closed
//         case .timedOut, .interrupted: ...
//         }
//     }
//
// One thread gives, sends, receives and takes; an exchange ends as soon as there are outcomes, so
// that the caller can fill the room they leave before the peer runs dry.

/// A client's HTTP/2 session over one TLS connection, confined to its thread.
package final class HTTP2ClientSession {
    let wire: HTTP2Wire
    let state: UnsafeMutablePointer<HTTP2ClientState>
    let settings: HTTP2ClientSettings
    /// Why the session is over; nil while it is not.
    package private(set) var closed: HTTP2Close?
    private var silence: HTTP2Silence
    /// Templates whose fields nghttp2 may still read.
    private var lent: [HTTP2RequestTemplate] = []

    /// Begins a session on a connection whose handshake has agreed on `h2`; nothing is sent before
    /// the first exchange. Throws `protocolError` for a peer that did not agree, `io` when memory
    /// is short.
    package init(
        _ connection: TLSConnection, settings: HTTP2ClientSettings = HTTP2ClientSettings()
    ) throws(TransportFailure) {
        guard connection.negotiatedProtocol == "h2" else {
            throw TransportFailure(
                .protocolError,
                "starting HTTP/2 with \(connection.peer): the peer did not agree on h2; check the "
                    + "port, and that no proxy answers in its place")
        }
        let state = UnsafeMutablePointer<HTTP2ClientState>.allocate(capacity: 1)
        state.initialize(to: HTTP2ClientState(settings))
        guard let session = HTTP2ClientLibrary.makeSession(state, settings),
            case let wire = HTTP2Wire(connection, session: session),
            HTTP2ClientLibrary.open(session, settings) == 0
        else {
            state.deinitialize(count: 1)
            state.deallocate()
            throw TransportFailure(
                .io, "starting HTTP/2 with \(connection.peer): out of memory")
        }
        (self.state, self.wire, self.settings) = (state, wire, settings)
        silence = HTTP2Silence(settings)
    }

    deinit {
        state.deinitialize(count: 1)
        state.deallocate()
    }

    /// The peer as messages name it.
    package var peer: String { wire.connection.peer }

    /// The most requests in flight that we want; may change at any time.
    package var maximumStreams: Int {
        get { state.pointee.admission.ownMaximum }
        set { state.pointee.admission.ownMaximum = newValue }
    }

    /// The most requests in flight that the peer allows now.
    package var remoteMaximumStreams: Int { state.pointee.admission.remoteMaximum }

    /// The peer's last GOAWAY; from then on there is no room for requests.
    package var goAway: HTTP2GoAway? { state.pointee.goAway }

    /// Whether no request will be taken any more, now or later: exchange until nothing is in
    /// flight, close, and connect again.
    package var isClosing: Bool { closed != nil || state.pointee.admission.isClosing }

    /// Requests whose outcome is still owed, and streams that are about to be reset.
    package var inFlight: Int { state.pointee.streams.count }

    /// How many requests `submit` takes now.
    package var room: Int {
        var admission = state.pointee.admission
        admission.backlog = wire.backlog
        return closed == nil ? admission.room : 0
    }

    /// What the last exchange brought; the next one replaces it.
    package var outcomes: HTTP2OutcomeBatch { state.pointee.outcomes }

    /// Takes a request under the caller's key, which must not be in flight already. Sends nothing
    /// yet. False when there is no room: nothing was taken.
    package func submit(_ request: borrowing HTTP2Request, key: UInt64) -> Bool {
        precondition(
            request.ends.count == request.template.valuesPerRequest,
            "a request must give the values that its template leaves open")
        guard room > 0 else { return false }
        // After 2^30 requests the numbers for streams are used up.
        guard nghttp2_session_check_request_allowed(wire.session) != 0 else {
            state.pointee.admission.isClosing = true
            return false
        }
        let handle = state.pointee.streams.insert(key: key, deadline: .in(settings.requestTimeout))
        guard let index = state.pointee.streams.index(of: handle) else { return false }
        state.pointee.streams[index].firstByte = wire.bytesAdded
        let streamID = request.bytes.withUnsafeBytes { bytes in
            submit(bytes, request.ends, request.template, handle, index)
        }
        if streamID < 0 { state.pointee.streams.remove(index) }
        state.pointee.admission.inFlight = state.pointee.streams.count
        return streamID >= 0
    }

    private func submit(
        _ bytes: UnsafeRawBufferPointer, _ ends: [Int], _ template: HTTP2RequestTemplate,
        _ handle: HTTP2StreamTable.Handle, _ index: Int
    ) -> Int32 {
        let body = template.fill(bytes, ends)
        state.pointee.streams[index].request.lend(body)
        let streamID = HTTP2ClientLibrary.submit(
            wire.session, template, hasBody: !body.isEmpty, handle)
        guard streamID > 0 else { return streamID }
        state.pointee.streams[index].streamID = streamID
        // Writing the frames at once spares a copy of the body, unless flow control holds it back.
        _ = wire.gather()
        if let index = state.pointee.streams.index(of: handle) {
            state.pointee.streams[index].request.keepRest()
        }
        lend(template)
        return streamID
    }

    /// Keeps a template for as long as nghttp2 has frames that read from it.
    private func lend(_ template: HTTP2RequestTemplate) {
        if nghttp2_session_get_outbound_queue_size(wire.session) > 0 {
            lent.append(template)
        } else if !lent.isEmpty {
            lent.removeAll()
        }
    }

    // MARK: Exchanging

    /// How an exchange ended.
    package enum Exchange: Sendable, Equatable {
        /// There are outcomes, and the session goes on.
        case outcomes
        /// The deadline came first; there are no outcomes.
        case timedOut
        /// The interrupt was tripped while waiting; there are no outcomes. The session is as good
        /// as before: exchange without the interrupt to bring home what is in flight.
        case interrupted
        /// The session is over, see `closed`; every request left has its outcome in `outcomes`.
        case closed
    }

    /// Portions of input after which outcomes are handed out though more is there.
    private static let portionsPerExchange = 16

    /// Sends what was submitted, receives what came, and waits for outcomes until the deadline.
    ///
    /// Only `interrupt` cuts the wait short, not that of the connection: what is in flight can
    /// then still be waited for. With `Deadline.now` it does what can be done without waiting.
    package func exchange(until deadline: Deadline, interrupt: Interrupt? = nil) -> Exchange {
        state.pointee.outcomes.removeAll()
        var portions = 0
        while closed == nil {
            expireRequests()
            keepAlive()
            guard closed == nil, let direction = send() else {
                break
            }
            let isFull = portions >= Self.portionsPerExchange
            if !state.pointee.outcomes.isEmpty, !wire.mayHoldMore || isFull {
                return .outcomes
            }
            if !wire.mayHoldMore {
                switch wire.wait(until: due(deadline), for: direction, interrupt: interrupt) {
                case .ready: break
                case .timedOut where deadline.hasPassed: return .timedOut
                case .timedOut: continue
                case .interrupted: return .interrupted
                case .failed(let error):
                    end(.transport(.system("waiting for \(peer)", error)))
                    continue
                }
            }
            receive()
            portions += 1
        }
        return .closed
    }

    /// Says GOAWAY and close_notify and closes. Requests still in flight get their outcomes, after
    /// which the session is `closed`; wait for them by `exchange` first to end in good order.
    package func close(deadline: Deadline = .in(.seconds(5))) {
        guard closed == nil else { return }
        state.pointee.outcomes.removeAll()
        nghttp2_session_terminate_session(wire.session, NGHTTP2_NO_ERROR.rawValue)
        wire.finish(deadline: deadline)
        end(HTTP2Close(.byUs, "HTTP/2 with \(peer): closed on this side"))
    }

    /// Sends without waiting; nil when that ended the session, else what to wait for.
    private func send() -> Poll.Direction? {
        switch wire.flush() {
        case .failed(let close):
            end(drain(after: close))
            return nil
        case _ where nghttp2_session_want_read(wire.session) == 0:
            end(libraryEnd())
            return nil
        case .done: return .reading
        case .wait(let direction):
            return direction == .writing ? .either : direction
        }
    }

    private func receive() {
        switch wire.receive() {
        case .bytes(let count):
            silence = HTTP2Silence(settings)
            state.pointee.idleBytes += count
            if state.pointee.idleBytes > settings.maximumIdleBytes {
                nghttp2_session_terminate_session(
                    wire.session, NGHTTP2_ENHANCE_YOUR_CALM.rawValue)
            }
        case .nothing: break
        case .refused(let error):
            nghttp2_session_terminate_session(wire.session, NGHTTP2_ENHANCE_YOUR_CALM.rawValue)
            _ = wire.flush()
            end(.library(error, peer: peer, detail: state.pointee.libraryMessage))
        case .ended(let close):
            end(close)
        }
    }

    /// Takes what came before a write failed with `close`, and says why the session is over: by
    /// the peer's own last word (close_notify, or an alert as for a refused certificate) if there
    /// is one. GOAWAY and answers count as ever.
    private func drain(after close: HTTP2Close) -> HTTP2Close {
        for _ in 0..<Self.portionsPerExchange {
            switch wire.receive() {
            case .bytes: continue
            case .nothing, .refused: return close
            // After a failed write the socket has forgotten its reset and shows a mere end.
            case .ended(let last) where last.code == .byPeer(.cut): return close
            case .ended(let last): return last
            }
        }
        return close
    }

    /// Why nghttp2 has nothing more to read.
    private func libraryEnd() -> HTTP2Close {
        let (frames, bytes) = (state.pointee.idleFrames, state.pointee.idleBytes)
        if frames > settings.maximumIdleFrames || bytes > settings.maximumIdleBytes {
            return .flood(peer: peer, frames: frames, bytes: bytes)
        }
        return .over(
            peer: peer, goAway: inFlight == 0 ? state.pointee.goAway : nil,
            detail: state.pointee.libraryMessage)
    }

    private func end(_ close: HTTP2Close) {
        closed = close
        state.pointee.settleAll(bytesTaken: wire.bytesTaken)
        if close.code != .byUs {
            wire.connection.closeNotify(deadline: .now)
        }
        // close_notify is out, and a second one would wait for the peer's.
        wire.connection.closeAbruptly()
    }

    /// Gives up requests whose time is over; their streams are reset.
    private func expireRequests() {
        while let index = state.pointee.streams.first,
            state.pointee.streams.nextDeadline.hasPassed
        {
            let streamID = state.pointee.streams[index].streamID
            state.pointee.settle(index, .outcomeUnknown(.deadline))
            nghttp2_submit_rst_stream(wire.session, 0, streamID, NGHTTP2_CANCEL.rawValue)
        }
    }

    private func keepAlive() {
        switch silence.step(settings) {
        case .wait: break
        case .ping: nghttp2_submit_ping(wire.session, 0, nil)
        case .giveUp: end(.unresponsive(peer: peer))
        }
    }

    private func due(_ deadline: Deadline) -> Deadline {
        .earlier(of: deadline, .earlier(of: silence.end, state.pointee.streams.nextDeadline))
    }
}
