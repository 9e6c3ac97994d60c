import CNGHTTP2
import SecureTransport

/// The state of a server session. nghttp2's callbacks change it.
final class HTTP2ServerState {
    /// Incomplete requests by stream.
    var arriving: [Int32: HTTP2ServerRequest] = [:]
    /// Complete requests that are not returned yet.
    var complete: ArraySlice<HTTP2ServerRequest> = []
    /// The answers whose bodies are being sent, with the number of bytes sent.
    var bodies: [Int32: (answer: ScriptedReply, sent: Int)] = [:]
    var goAway: HTTP2GoAway?
    var libraryMessage = ""
    /// The number of streams that the client has opened.
    var opened = 0
    /// The number of RST_STREAM frames that the client has sent.
    var resets = 0
    let settings: HTTP2ServerSettings

    init(_ settings: HTTP2ServerSettings) { self.settings = settings }

    func begin(_ streamID: Int32) {
        opened += 1
        arriving[streamID] = HTTP2ServerRequest(streamID)
    }

    /// Changes a request that is arriving, in place; false when it has become too large.
    func change(_ streamID: Int32, _ add: (inout HTTP2ServerRequest) -> Bool) -> Bool {
        guard let place = arriving.index(forKey: streamID) else { return true }
        let fits = add(&arriving.values[place])
        if !fits { arriving.remove(at: place) }
        return fits
    }

    func received(_ frame: UnsafePointer<nghttp2_frame>) {
        let header = frame.pointee.hd
        switch nghttp2_frame_type(UInt32(header.type)) {
        case NGHTTP2_HEADERS, NGHTTP2_DATA:
            if header.flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0,
                let request = arriving.removeValue(forKey: header.stream_id)
            {
                complete.append(request)
            }
        case NGHTTP2_RST_STREAM:
            resets += 1
        case NGHTTP2_GOAWAY:
            goAway = HTTP2GoAway(frame.pointee.goaway)
        default:
            break
        }
    }

    func closed(_ streamID: Int32) {
        arriving[streamID] = nil
        bodies[streamID] = nil
    }

    /// Copies the next piece of an answer's body to `target`. The count is -1 for a body without
    /// end when all of its bytes are sent.
    func read(
        _ streamID: Int32, into target: UnsafeMutablePointer<UInt8>, _ length: Int
    ) -> (count: Int, isLast: Bool) {
        guard let (answer, sent) = bodies[streamID] else { return (0, true) }
        let count = min(
            length, answer.body.count - sent, max(1, answer.largestPiece ?? .max))
        if count == 0, !answer.ends { return (-1, false) }
        answer.body.withUnsafeBufferPointer { bytes in
            if let start = bytes.baseAddress {
                target.update(from: start + sent, count: count)
            }
        }
        let isLast = sent + count == answer.body.count && answer.ends
        bodies[streamID] = isLast ? nil : (answer, sent + count)
        return (count, isLast)
    }
}

// The callbacks of nghttp2 for a server's session.

extension UnsafeMutableRawPointer {
    fileprivate var server: HTTP2ServerState {
        Unmanaged<HTTP2ServerState>.fromOpaque(self).takeUnretainedValue()
    }
}

/// A server's session in nghttp2, with its callbacks.
enum HTTP2ServerLibrary {
    /// Makes a session; nil without memory.
    static func makeSession(
        _ state: HTTP2ServerState, _ settings: HTTP2ServerSettings
    ) -> OpaquePointer? {
        HTTP2Library.makeSession { session, callbacks, options in
            nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, onBeginHeaders)
            nghttp2_session_callbacks_set_on_header_callback(callbacks, onHeader)
            nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, onData)
            nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, onFrame)
            nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, onStreamClose)
            nghttp2_session_callbacks_set_error_callback2(callbacks, onError)
            nghttp2_option_set_no_closed_streams(options, 1)
            // The limit on resets by a client would end tests of resets.
            nghttp2_option_set_stream_reset_rate_limit(options, 1 << 30, 1 << 30)
            if !settings.opensWindows {
                nghttp2_option_set_no_auto_window_update(options, 1)
            }
            if !settings.answersPings {
                nghttp2_option_set_no_auto_ping_ack(options, 1)
            }
            return nghttp2_session_server_new2(
                &session, callbacks, Unmanaged.passUnretained(state).toOpaque(), options)
        }
    }

    /// Passes an answer's body to nghttp2, as flow control allows.
    static let readBody: nghttp2_data_source_read_callback = {
        _, streamID, target, length, flags, _, user in
        guard let user, let target, let flags else {
            return Int(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue)
        }
        let (count, isLast) = user.server.read(streamID, into: target, length)
        if count < 0 {
            return Int(NGHTTP2_ERR_DEFERRED.rawValue)
        }
        if isLast {
            flags.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue
        }
        return count
    }
}

private let onBeginHeaders: nghttp2_on_begin_headers_callback = { _, frame, user in
    if let frame, let user, frame.pointee.headers.cat == NGHTTP2_HCAT_REQUEST {
        user.server.begin(frame.pointee.hd.stream_id)
    }
    return 0
}

private let onHeader: nghttp2_on_header_callback = {
    _, frame, name, nameLength, value, valueLength, _, user in
    guard let frame, let user else {
        return 0
    }
    let state = user.server
    let fits = state.change(frame.pointee.hd.stream_id) {
        $0.addField(
            UnsafeBufferPointer(start: name, count: nameLength),
            UnsafeBufferPointer(start: value, count: valueLength),
            limit: state.settings.maximumHeaderListSize)
    }
    return fits ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue
}

private let onData: nghttp2_on_data_chunk_recv_callback = {
    session, _, streamID, bytes, length, user in
    guard let session, let user else {
        return 0
    }
    let state = user.server
    let fits = state.change(streamID) {
        $0.addBody(
            UnsafeBufferPointer(start: bytes, count: length),
            limit: state.settings.maximumBodySize)
    }
    if !fits {
        nghttp2_submit_rst_stream(session, 0, streamID, NGHTTP2_CANCEL.rawValue)
    }
    return 0
}

private let onFrame: nghttp2_on_frame_recv_callback = { _, frame, user in
    if let frame, let user {
        user.server.received(frame)
    }
    return 0
}

private let onStreamClose: nghttp2_on_stream_close_callback = { _, streamID, _, user in
    user?.server.closed(streamID)
    return 0
}

private let onError: nghttp2_error_callback2 = { _, _, message, length, user in
    if let user, let message {
        let bytes = UnsafeRawBufferPointer(start: message, count: min(length, 200))
        user.server.libraryMessage = String(decoding: bytes, as: UTF8.self)
    }
    return 0
}
