import CNGHTTP2
import Glibc
import SecureTransport

// The server's side of HTTP/2, for the simulator and tests. It returns complete requests and sends
// answers. It can also violate the protocol: RST_STREAM and GOAWAY of any kind at any time, windows
// that never open, changes of SETTINGS at any time, bytes that are not frames.

/// A server's HTTP/2 session over one TLS connection, confined to its thread.
///
/// Every call except `exchange` and `close` only queues frames. The next exchange sends them in
/// order.
package final class HTTP2ServerSession {
    let wire: HTTP2Wire
    private let state: HTTP2ServerState
    /// The reason for the end of the session; nil before the end.
    package private(set) var closed: HTTP2Close?

    /// The result of an exchange.
    package enum Exchange: Sendable, Equatable {
        /// There are requests; `nextRequest` returns them.
        case requests
        /// The deadline passed first.
        case timedOut
        /// The interrupt was tripped while waiting.
        case interrupted
        /// The session has ended, see `closed`. Complete requests may be left; they cannot be
        /// answered.
        case closed
    }

    /// Starts a session on a connection that negotiated `h2`. Nothing is sent before the first
    /// exchange. Throws `protocolError` for a connection without `h2`, `io` without memory.
    package init(
        _ connection: TLSConnection, settings: HTTP2ServerSettings = HTTP2ServerSettings()
    ) throws(TransportFailure) {
        guard connection.negotiatedProtocol == "h2" else {
            throw TransportFailure(
                .protocolError,
                "starting HTTP/2 with \(connection.peer): the client did not offer h2")
        }
        state = HTTP2ServerState(settings)
        guard let session = HTTP2ServerLibrary.makeSession(state, settings) else {
            throw TransportFailure(
                .io, "starting HTTP/2 with \(connection.peer): out of memory")
        }
        wire = HTTP2Wire(connection, session: session)
        changeSettings(
            maximumStreams: settings.maximumStreams, initialWindow: settings.initialWindow)
        if settings.opensWindows {
            nghttp2_session_set_local_window_size(session, 0, 0, settings.connectionWindow)
        }
    }

    /// The client's name in messages.
    package var peer: String { wire.connection.peer }
    /// The connection, to read its certificate or to reset it.
    package var connection: TLSConnection { wire.connection }
    /// The client's GOAWAY, if it sent one.
    package var goAway: HTTP2GoAway? { state.goAway }
    /// The number of streams that the client has opened so far.
    package var streamsOpened: Int { state.opened }
    /// The number of RST_STREAM frames that the client has sent so far.
    package var resetsReceived: Int { state.resets }

    /// Sends the queued frames, receives bytes, and waits for requests until the deadline.
    package func exchange(until deadline: Deadline, interrupt: Interrupt? = nil) -> Exchange {
        var mayReadAgain = true
        while closed == nil {
            guard let direction = send() else {
                break
            }
            if !state.complete.isEmpty, !(wire.mayHoldMore && mayReadAgain) {
                return .requests
            }
            if !wire.mayHoldMore {
                switch wire.wait(until: deadline, for: direction, interrupt: interrupt) {
                case .ready: break
                case .timedOut: return .timedOut
                case .interrupted: return .interrupted
                case .failed(let error):
                    closed = .transport(.system("waiting for \(peer)", error))
                    continue
                }
            }
            receive()
            mayReadAgain = state.complete.count < 4096
        }
        return .closed
    }

    private func send() -> Poll.Direction? {
        switch wire.flush() {
        case .failed(let close):
            closed = close
            return nil
        case .wait(let direction):
            return direction == .writing ? .either : direction
        case .done where nghttp2_session_want_read(wire.session) == 0:
            closed =
                goAway == nil
                ? HTTP2Close(
                    .peerBrokeProtocol,
                    "HTTP/2 with \(peer): ended after \(state.libraryMessage)")
                : HTTP2Close(.goAway, "HTTP/2 with \(peer): the client sent GOAWAY")
            wire.connection.closeNotify(deadline: .in(.seconds(1)))
            return nil
        case .done:
            return .reading
        }
    }

    private func receive() {
        switch wire.receive() {
        case .bytes, .nothing:
            break
        case .refused(let error):
            _ = wire.flush()
            closed = .library(error, peer: peer, detail: state.libraryMessage)
        case .ended(let close):
            closed = close
        }
    }

    /// Removes and returns the next complete request, in the order of their ends.
    package func nextRequest() -> HTTP2ServerRequest? {
        state.complete.popFirst()
    }

    /// Sends the queued frames and close_notify, waits for the client's end and closes; all by the
    /// deadline.
    package func close(deadline: Deadline = .in(.seconds(5))) {
        wire.finish(deadline: deadline)
        // Unread bytes would cause a reset, which can overtake the last answers.
        wire.connection.discardUntilEnd(deadline: deadline)
        // close_notify was sent, and a second one would wait for that of the client.
        wire.connection.closeAbruptly()
        closed = closed ?? HTTP2Close(.byUs, "HTTP/2 with \(peer): closed on this side")
    }
}

extension HTTP2ServerSession {
    /// Answers a request. False when its stream has ended.
    @discardableResult
    package func answer(_ streamID: Int32, _ answer: ScriptedReply) -> Bool {
        func copy(_ text: String) -> UnsafeMutablePointer<UInt8>? {
            UnsafeMutableRawPointer(strdup(text))?.assumingMemoryBound(to: UInt8.self)
        }
        // nghttp2 copies the fields.
        let fields = ([HTTP2Field(":status", String(answer.status))] + answer.fields).map { field in
            let value = field.value ?? ""
            return nghttp2_nv(
                name: copy(field.name), value: copy(value), namelen: field.name.utf8.count,
                valuelen: value.utf8.count,
                flags: UInt8(field.isIndexed ? 0 : NGHTTP2_NV_FLAG_NO_INDEX.rawValue))
        }
        defer {
            for field in fields {
                free(field.name)
                free(field.value)
            }
        }
        let hasBody = !answer.body.isEmpty || !answer.ends
        if hasBody { state.bodies[streamID] = (answer, 0) }
        var provider = nghttp2_data_provider(
            source: nghttp2_data_source(ptr: nil), read_callback: HTTP2ServerLibrary.readBody)
        let error =
            hasBody
            ? nghttp2_submit_response(wire.session, streamID, fields, fields.count, &provider)
            : nghttp2_submit_response(wire.session, streamID, fields, fields.count, nil)
        if error != 0 {
            state.bodies[streamID] = nil
        }
        return error == 0
    }

    /// Resets a stream with any code. Only `refusedStream` tells a client that its request was not
    /// processed.
    package func reset(_ streamID: Int32, code: HTTP2ErrorCode) {
        nghttp2_submit_rst_stream(wire.session, 0, streamID, code.rawValue)
    }

    /// Sends GOAWAY with any last stream, also one that was never opened or is above an earlier
    /// one. Streams above it get no answer.
    package func goAway(
        lastStreamID: Int32, code: HTTP2ErrorCode = .noError, debug: [UInt8] = []
    ) {
        // nghttp2 never raises the number and stops reading afterwards. A raw frame avoids both.
        var frame = Self.frame(type: UInt8(NGHTTP2_GOAWAY.rawValue), length: 8 + debug.count)
        for number in [UInt32(bitPattern: lastStreamID), code.rawValue] {
            frame += Self.bytes(number)
        }
        sendRaw(frame + debug)
    }

    /// Changes SETTINGS_MAX_CONCURRENT_STREAMS and SETTINGS_INITIAL_WINDOW_SIZE; nil keeps the
    /// present value.
    package func changeSettings(maximumStreams: UInt32? = nil, initialWindow: UInt32? = nil) {
        let entries = [
            (NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, maximumStreams),
            (NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, initialWindow),
        ].compactMap { id, value in
            value.map { nghttp2_settings_entry(settings_id: Int32(id.rawValue), value: $0) }
        }
        nghttp2_submit_settings(wire.session, 0, entries, entries.count)
    }

    /// Sends bytes unchanged, after the frames queued so far.
    package func sendRaw(_ bytes: [UInt8]) {
        wire.addRaw(bytes)
    }

    /// The nine bytes of a frame's header (RFC 9113 section 4.1), for raw frames.
    package static func frame(
        type: UInt8, flags: UInt8 = 0, streamID: Int32 = 0, length: Int
    ) -> [UInt8] {
        [
            UInt8(truncatingIfNeeded: length >> 16), UInt8(truncatingIfNeeded: length >> 8),
            UInt8(truncatingIfNeeded: length), type, flags,
        ] + bytes(UInt32(bitPattern: streamID))
    }

    private static func bytes(_ number: UInt32) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian) { Array($0) }
    }
}

/// The settings and limits of a server's HTTP/2 session, for the simulator and tests.
package struct HTTP2ServerSettings: Sendable {
    /// SETTINGS_MAX_CONCURRENT_STREAMS; nil for no limit.
    package var maximumStreams: UInt32? = 1000
    /// SETTINGS_INITIAL_WINDOW_SIZE: the number of bytes that a client may send on a new stream.
    package var initialWindow: UInt32 = 65_535
    /// The window of the connection; at least 65,535, its initial size.
    package var connectionWindow: Int32 = 4 << 20
    /// Whether WINDOW_UPDATE is sent. Without it a client cannot send more than the initial
    /// windows.
    package var opensWindows = true
    /// The most bytes of a request body; the stream of a longer one is reset.
    package var maximumBodySize = 64 * 1024
    /// The largest header list of a request, in bytes as in RFC 9113 section 10.5.1.
    package var maximumHeaderListSize = 16 * 1024
    package var answersPings = true

    package init() {}
}

/// A complete request of a client.
package struct HTTP2ServerRequest: Sendable {
    /// Its stream, for the answer.
    package let streamID: Int32
    /// Names and values, then the body.
    var bytes: [UInt8] = []
    /// The end of each name and each value.
    var ends: [Int] = []
    var headerListSize = 0
    var bodyStart = 0

    package init(_ streamID: Int32) {
        self.streamID = streamID
        bytes.reserveCapacity(1024)
        ends.reserveCapacity(32)
    }

    /// The values of the fields with a name, as received.
    package func values(_ name: StaticString) -> [ArraySlice<UInt8>] {
        let wanted = UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
        return stride(from: 0, to: ends.count, by: 2).compactMap { place in
            let start = place == 0 ? 0 : ends[place - 1]
            return bytes[start..<ends[place]].elementsEqual(wanted)
                ? bytes[ends[place]..<ends[place + 1]] : nil
        }
    }

    /// The value of the first field with a name; nil without one.
    package func value(_ name: StaticString) -> ArraySlice<UInt8>? { values(name).first }

    package var body: ArraySlice<UInt8> { bytes[bodyStart...] }

    /// Adds a field; false when the header list exceeds `limit`. Trailers count and are dropped.
    package mutating func addField(
        _ name: some Collection<UInt8>, _ value: some Collection<UInt8>, limit: Int
    ) -> Bool {
        headerListSize += name.count + value.count + 32
        guard headerListSize <= limit else {
            return false
        }
        if bytes.count == bodyStart {
            bytes.append(contentsOf: name)
            ends.append(bytes.count)
            bytes.append(contentsOf: value)
            ends.append(bytes.count)
            bodyStart = bytes.count
        }
        return true
    }

    /// Adds bytes of the body; false when it exceeds `limit`.
    package mutating func addBody(_ more: some Collection<UInt8>, limit: Int) -> Bool {
        guard bytes.count - bodyStart + more.count <= limit else {
            return false
        }
        bytes.append(contentsOf: more)
        return true
    }
}

/// An answer of a gateway; that of a script is encoded in advance, so that serving it is cheap.
package struct ScriptedReply: Sendable, Equatable {
    /// The value of `:status`.
    package let status: Int
    /// The fields except `:status`.
    package var fields: [HTTP2Field]
    /// The body, which may differ from any body of APNs; an answer without one ends with its header
    /// list.
    package let body: [UInt8]
    /// The most bytes of body in one DATA frame; nil for as many as fit.
    package let largestPiece: Int?
    /// Whether the answer has an end.
    var ends = true

    package init(
        status: Int, fields: [HTTP2Field] = [], body: [UInt8] = [], largestPiece: Int? = nil
    ) {
        (self.status, self.fields) = (status, fields)
        (self.body, self.largestPiece) = (body, largestPiece)
    }
}
