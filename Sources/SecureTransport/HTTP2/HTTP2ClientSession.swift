import CNGHTTP2

// A client's HTTP/2 connection. The caller submits requests while streams are free, exchanges bytes
// with the peer, reads the outcomes, and repeats this. Each request has a key of the caller and
// gets exactly one outcome, whatever happens to its stream or to the connection. Nothing is thrown.
//
//     while work remains {
//         while session.room > 0, next(into: &request) { session.submit(request, key: key) }
//         switch session.exchange(until: deadline, interrupt: stop) {
//         case .outcomes: for outcome in session.outcomes { ... }
//         case .closed: for outcome in session.outcomes { ... }; session.closed has the reason
//         case .timedOut, .interrupted: ...
//         }
//     }
//
// All calls come from one thread. An exchange ends as soon as there are outcomes, so that the
// caller can use the free streams before the peer has nothing left to do.

/// A client's HTTP/2 session over one TLS connection, confined to its thread.
package final class HTTP2ClientSession {
    let wire: HTTP2Wire
    let state: UnsafeMutablePointer<HTTP2ClientState>
    let settings: HTTP2ClientSettings
    /// The reason for the end of the session; nil before the end.
    package private(set) var closed: HTTP2Close?
    /// When a peer that says nothing is asked by PING, and then given up.
    private var silenceEnds: Deadline
    private var isPinging = false
    /// Asked before bytes are given to TLS; while it says no, an exchange only receives.
    package var maySend: () -> Bool = { true }
    /// Templates whose fields nghttp2 may still read.
    private var retained: [HTTP2RequestTemplate] = []

    /// Starts a session on a connection that negotiated `h2`. Nothing is sent before the first
    /// exchange. Throws `protocolError` for a connection without `h2`, `io` without memory.
    package init(
        _ connection: TLSConnection, settings: HTTP2ClientSettings = HTTP2ClientSettings()
    ) throws(TransportFailure) {
        guard connection.negotiatedProtocol == "h2" else {
            throw TransportFailure(
                .protocolError,
                "starting HTTP/2 with \(connection.peer): the peer did not agree on h2; check the "
                    + "port, and that no proxy answers in its place")
        }
        let output = HTTP2Wire.makeOutput()
        let state = UnsafeMutablePointer<HTTP2ClientState>.allocate(capacity: 1)
        state.initialize(to: HTTP2ClientState(settings, output: output))
        let made = HTTP2ClientLibrary.makeSession(state, settings).map {
            HTTP2Wire(connection, session: $0, output: output)
        }
        guard let wire = made, HTTP2ClientLibrary.open(wire.session, settings) == 0 else {
            state.deinitialize(count: 1)
            state.deallocate()
            if made == nil {
                output.deinitialize(count: 1)
                output.deallocate()
            }
            throw TransportFailure(
                .io, "starting HTTP/2 with \(connection.peer): out of memory")
        }
        (self.state, self.wire, self.settings) = (state, wire, settings)
        silenceEnds = .in(settings.keepAliveInterval)
    }

    deinit {
        state.deinitialize(count: 1)
        state.deallocate()
    }

    /// The peer's name in messages.
    package var peer: String { wire.connection.peer }

    /// The most requests in flight on our side; may change at any time.
    package var maximumStreams: Int {
        get { state.pointee.admission.ownMaximum }
        set { state.pointee.admission.ownMaximum = newValue }
    }

    /// The most requests in flight that the peer allows now.
    package var remoteMaximumStreams: Int { state.pointee.admission.remoteMaximum }

    /// The peer's last GOAWAY. After it no requests are accepted.
    package var goAway: HTTP2GoAway? { state.pointee.goAway }

    /// Whether the session accepts no more requests: exchange until nothing is in flight, close,
    /// and connect again.
    package var isClosing: Bool { closed != nil || state.pointee.admission.isClosing }

    /// Whether the peer has sent something that proves it has read of us. Until then an end of the connection
    /// may be about the connection alone, and no request was looked at.
    package var hasBeenRead: Bool { state.pointee.hasBeenRead }

    /// The number of requests without an outcome, and of streams that are being reset.
    package var inFlight: Int { state.pointee.streams.count }

    /// The number of requests that `submit` accepts now. Where the window of the connection is used up it is none: a
    /// stream whose body is held back gains nothing, and nobody knows what became of it if this process is killed.
    package var room: Int {
        var admission = state.pointee.admission
        admission.backlog = wire.backlog
        return closed == nil && window > 0 ? admission.room : 0
    }

    /// The bytes of bodies that the peer takes now, over all streams; may be below 0.
    package var window: Int {
        Int(nghttp2_session_get_remote_window_size(wire.session))
    }

    /// The outcomes of the last exchange; the next exchange replaces them.
    package var outcomes: HTTP2OutcomeBatch { state.pointee.outcomes }

    /// Accepts a request with the caller's key, which must not be in flight already. Sends nothing
    /// yet. False when no stream is free: the request is not accepted.
    package func submit(_ request: borrowing HTTP2Request, key: UInt64) -> Bool {
        precondition(
            request.ends.count == request.template.valuesPerRequest,
            "a request must have all values that its template leaves open")
        guard room > 0 else { return false }
        // After 2^30 requests there are no stream numbers left.
        guard nghttp2_session_check_request_allowed(wire.session) != 0 else {
            state.pointee.admission.isClosing = true
            return false
        }
        let handle = state.pointee.streams.insert(key: key, deadline: .in(settings.requestTimeout))
        guard let index = state.pointee.streams.index(of: handle) else { return false }
        let streamID = request.bytes.withUnsafeBytes { bytes in
            submit(
                bytes, ends: request.ends, template: request.template, handle: handle,
                index: index)
        }
        if streamID < 0 { state.pointee.streams.remove(index) }
        state.pointee.admission.inFlight = state.pointee.streams.count
        return streamID >= 0
    }

    private func submit(
        _ bytes: UnsafeRawBufferPointer, ends: [Int], template: HTTP2RequestTemplate,
        handle: HTTP2StreamTable.Handle, index: Int
    ) -> Int32 {
        let body = template.fill(bytes, ends)
        state.pointee.streams[index].request.borrow(body)
        // Without a body END_STREAM goes with the header fields.
        if body.isEmpty { state.pointee.streams[index].wholeAt = wire.bytesAdded + 1 }
        let streamID = HTTP2ClientLibrary.submit(
            wire.session, template, hasBody: !body.isEmpty, handle)
        guard streamID > 0 else { return streamID }
        state.pointee.streams[index].streamID = streamID
        // Writing the frames now avoids a copy of the body, unless flow control delays it.
        _ = wire.collectFrames()
        if let index = state.pointee.streams.index(of: handle) {
            state.pointee.streams[index].request.copyRest()
        }
        retain(template)
        return streamID
    }

    /// Retains a template while nghttp2 has frames that read from it.
    private func retain(_ template: HTTP2RequestTemplate) {
        if nghttp2_session_get_outbound_queue_size(wire.session) > 0 {
            retained.append(template)
        } else if !retained.isEmpty {
            retained.removeAll()
        }
    }

    // MARK: Exchanging

    /// The time of one exchange while waiting for the peer's SETTINGS.
    private static let greeting = Duration.milliseconds(20)

    /// Waits for the peer's SETTINGS without a request. False when the session ended, the deadline
    /// passed or the interrupt was tripped before.
    package func awaitSettings(until deadline: Deadline, interrupt: Interrupt? = nil) -> Bool {
        while !state.pointee.hasSettings, closed == nil, !deadline.hasPassed {
            let next = Deadline.earlier(of: deadline, .in(Self.greeting))
            if exchange(until: next, interrupt: interrupt) == .interrupted { break }
        }
        return state.pointee.hasSettings && closed == nil
    }

    /// The result of an exchange.
    package enum Exchange: Sendable, Equatable {
        /// There are outcomes, and the session is open.
        case outcomes
        /// The deadline passed; there are no outcomes.
        case timedOut
        /// The interrupt was tripped while waiting; there are no outcomes. The session stays
        /// usable: exchange without the interrupt to get the outcomes of the requests in flight.
        case interrupted
        /// The session has ended, see `closed`; every open request has its outcome in `outcomes`.
        case closed
    }

    /// The portions of input after which outcomes are returned although more input is there.
    private static let portionsPerExchange = 16

    /// Sends and receives what it can, and waits for outcomes until the deadline.
    ///
    /// Only `interrupt` ends the wait early, not the interrupt of the connection, so the caller can
    /// still wait for the requests in flight. With `Deadline.now` it does not wait.
    /// A caller that `wantsRoom` gets `outcomes`, also without any, once there is some.
    package func exchange(
        until deadline: Deadline, interrupt: Interrupt? = nil, wantsRoom: Bool = false
    ) -> Exchange {
        state.pointee.outcomes.removeAll()
        var portions = 0
        while closed == nil {
            expireRequests()
            keepAlive()
            guard closed == nil, let direction = maySend() ? send() : .reading else { break }
            let isFull = portions >= Self.portionsPerExchange
            let isWorthIt = !state.pointee.outcomes.outcomes.isEmpty || wantsRoom && room > 0
            if isWorthIt, !wire.mayHoldMore || isFull { return .outcomes }
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

    /// Sends GOAWAY and close_notify and closes. Requests in flight get their outcomes, and the
    /// session is `closed`. Call `exchange` before to wait for their answers.
    package func close(deadline: Deadline = .in(.seconds(5))) {
        guard closed == nil else { return }
        state.pointee.outcomes.removeAll()
        nghttp2_session_terminate_session(wire.session, NGHTTP2_NO_ERROR.rawValue)
        wire.finish(deadline: deadline)
        end(HTTP2Close(.byUs, "HTTP/2 with \(peer): closed on this side"))
    }

    /// Closes without another byte to the peer. Requests in flight get their outcomes, and the session is `closed`.
    package func abandon() {
        guard closed == nil else { return }
        state.pointee.outcomes.removeAll()
        end(HTTP2Close(.byUs, "HTTP/2 with \(peer): left on this side"))
    }

    /// Sends without waiting. Returns what to wait for; nil when the session has ended.
    private func send() -> Poll.Direction? {
        switch wire.flush() {
        case .failed(let close):
            end(drain(after: close))
            return nil
        case _ where nghttp2_session_want_read(wire.session) == 0:
            end(closeOfLibrary())
            return nil
        case .done: return .reading
        case .wait(let direction): return direction == .writing ? .either : direction
        }
    }

    private func receive() {
        switch wire.receive() {
        case .bytes(let count):
            (silenceEnds, isPinging) = (.in(settings.keepAliveInterval), false)
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
        case .ended(let close): end(close)
        }
    }

    /// Reads what arrived before a write failed with `close`, and returns the reason for the end of
    /// the session: that of the peer (close_notify, or an alert as for a refused certificate) if
    /// there is one. GOAWAY and answers are processed as usual.
    private func drain(after close: HTTP2Close) -> HTTP2Close {
        for _ in 0..<Self.portionsPerExchange {
            switch wire.receive() {
            case .bytes: continue
            case .nothing, .refused: return close
            // After a failed write the socket no longer reports its reset, only an end.
            case .ended(let last) where last.code == .byPeer(.cut): return close
            case .ended(let last): return last
            }
        }
        return close
    }

    /// The reason why nghttp2 reads no more.
    private func closeOfLibrary() -> HTTP2Close {
        let (frames, bytes) = (state.pointee.idleFrames, state.pointee.idleBytes)
        if frames > settings.maximumIdleFrames || bytes > settings.maximumIdleBytes {
            return .breach(
                "floods us with \(frames) frames and \(bytes) bytes that answer nothing", peer: peer
            )
        }
        guard inFlight == 0, let goAway else {
            return .breach("broke the protocol: \(state.pointee.libraryMessage)", peer: peer)
        }
        return HTTP2Close(
            .goAway, "HTTP/2 with \(peer): the peer said GOAWAY (\(goAway.code)); connect again")
    }

    private func end(_ close: HTTP2Close) {
        closed = close
        state.pointee.completeAll()
        if close.code != .byUs { wire.connection.closeNotify(deadline: .now) }
        // close_notify was sent, and a second one would wait for that of the peer.
        wire.connection.closeAbruptly()
    }

    /// Ends requests whose deadline has passed, and resets their streams. Where the socket has not taken the last
    /// bytes of one in all that time, the connection ends: else they might follow later.
    private func expireRequests() {
        while let index = state.pointee.streams.first,
            state.pointee.streams.nextDeadline.hasPassed
        {
            let stream = state.pointee.streams[index]
            guard stream.wholeAt == .max || stream.isWhole(bytesTaken: wire.bytesTaken) else {
                return end(
                    HTTP2Close(
                        .unresponsive,
                        "HTTP/2 with \(peer): the peer read none of a request in time; connect again"
                    ))
            }
            let isHeldBack = stream.wholeAt == .max
            state.pointee.complete(
                index,
                isHeldBack ? .notProcessed(.incomplete(.heldBack)) : .outcomeUnknown(.deadline))
            nghttp2_submit_rst_stream(
                wire.session, 0, stream.streamID, NGHTTP2_CANCEL.rawValue)
        }
    }

    private func keepAlive() {
        guard closed == nil, silenceEnds.hasPassed else { return }
        guard !isPinging else {
            return end(
                HTTP2Close(
                    .unresponsive, "HTTP/2 with \(peer): no answer to PING in time; connect again"))
        }
        (silenceEnds, isPinging) = (.in(settings.pingTimeout), true)
        nghttp2_submit_ping(wire.session, 0, nil)
    }

    private func due(_ deadline: Deadline) -> Deadline {
        .earlier(of: deadline, .earlier(of: silenceEnds, state.pointee.streams.nextDeadline))
    }
}
