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
    package internal(set) var closed: HTTP2Close?
    /// When silence makes us act: send a PING, or give the peer up.
    var aliveUntil: Deadline
    var isPinging = false
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
        aliveUntil = .in(settings.keepAliveInterval)
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
        guard room > 0 else {
            return false
        }
        // After 2^30 requests the numbers for streams are used up.
        guard nghttp2_session_check_request_allowed(wire.session) != 0 else {
            state.pointee.admission.isClosing = true
            return false
        }
        let handle = state.pointee.streams.insert(key: key, deadline: .in(settings.requestTimeout))
        guard let index = state.pointee.streams.index(of: handle) else {
            return false
        }
        state.pointee.streams[index].firstByte = wire.bytesAdded
        let streamID = request.bytes.withUnsafeBytes { bytes in
            submit(bytes, request.ends, request.template, handle, index)
        }
        state.pointee.admission.inFlight = state.pointee.streams.count
        if streamID < 0 {
            state.pointee.streams.remove(index)
            state.pointee.admission.inFlight = state.pointee.streams.count
            return false
        }
        return true
    }

    private func submit(
        _ bytes: UnsafeRawBufferPointer, _ ends: [Int], _ template: HTTP2RequestTemplate,
        _ handle: HTTP2StreamTable.Handle, _ index: Int
    ) -> Int32 {
        var start = 0
        for place in ends.indices {
            let field = template.fields + template.open[place]
            // nghttp2 copies these values and does not write to them.
            field.pointee.value = UnsafeMutableRawPointer(
                mutating: bytes.baseAddress.map { $0 + start })?
                .assumingMemoryBound(to: UInt8.self)
            field.pointee.valuelen = ends[place] - start
            start = ends[place]
        }
        let body = UnsafeRawBufferPointer(rebasing: bytes[start...])
        state.pointee.streams[index].request.lend(body)
        let stream = UnsafeMutableRawPointer(bitPattern: handle)
        var provider = nghttp2_data_provider(
            source: nghttp2_data_source(ptr: stream), read_callback: HTTP2ClientLibrary.readBody)
        let streamID =
            body.isEmpty
            ? nghttp2_submit_request(
                wire.session, nil, template.fields, template.count, nil, stream)
            : nghttp2_submit_request(
                wire.session, nil, template.fields, template.count, &provider, stream)
        guard streamID > 0 else {
            return streamID
        }
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
}
