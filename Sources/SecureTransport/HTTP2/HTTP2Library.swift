import CNGHTTP2

// The callbacks of nghttp2. Each one gets the state from its user data and the slot from the
// stream's user data, and returns the decision of the state as a number of nghttp2.

/// The common part of clients and servers in nghttp2.
package enum HTTP2Library {
    /// The version of the loaded nghttp2.
    package static var version: String {
        nghttp2_version(0).map { String(cString: $0.pointee.version_str) } ?? "unknown"
    }

    /// Makes a session, with callbacks and options that are freed afterwards.
    ///
    /// - Parameter make: sets both, and makes the session with them; it returns an error code
    ///   of nghttp2, or 0.
    /// - Returns: nil without memory.
    package static func makeSession(
        _ make: (
            _ session: inout OpaquePointer?, _ callbacks: OpaquePointer?, _ options: OpaquePointer?
        ) -> Int32
    ) -> OpaquePointer? {
        var callbacks: OpaquePointer?
        var options: OpaquePointer?
        defer {
            nghttp2_session_callbacks_del(callbacks)
            nghttp2_option_del(options)
        }
        guard nghttp2_session_callbacks_new(&callbacks) == 0, nghttp2_option_new(&options) == 0
        else { return nil }
        var session: OpaquePointer?
        return make(&session, callbacks, options) == 0 ? session : nil
    }
}

/// A client's session in nghttp2, with its limits and callbacks.
enum HTTP2ClientLibrary {
    /// Makes a session; nil without memory.
    static func makeSession(
        _ state: UnsafeMutablePointer<HTTP2ClientState>, _ settings: HTTP2ClientSettings
    ) -> OpaquePointer? {
        HTTP2Library.makeSession { session, callbacks, options in
            nghttp2_session_callbacks_set_on_header_callback(callbacks, onHeader)
            nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, onData)
            nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, onFrame)
            nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, onStreamClose)
            nghttp2_session_callbacks_set_error_callback2(callbacks, onError)
            // Valid until the peer's SETTINGS arrive.
            nghttp2_option_set_peer_max_concurrent_streams(
                options, UInt32(clamping: settings.streamsBeforeSettings))
            nghttp2_option_set_max_reserved_remote_streams(options, 0)
            nghttp2_option_set_no_closed_streams(options, 1)
            // Acknowledgements of PING and SETTINGS that one portion of input may cause.
            nghttp2_option_set_max_outbound_ack(options, 512)
            nghttp2_option_set_max_settings(options, 32)
            return nghttp2_session_client_new2(&session, callbacks, state, options)
        }
    }

    /// The receiving window of the connection. With bodies of at most a few KiB it is never used
    /// up, so a server never waits for this side.
    static let connectionWindow: Int32 = 16 << 20

    /// Queues the first frames. Returns 0, or an error code of nghttp2.
    static func open(_ session: OpaquePointer, _ settings: HTTP2ClientSettings) -> Int32 {
        func entry(_ id: nghttp2_settings_id, _ value: Int) -> nghttp2_settings_entry {
            nghttp2_settings_entry(
                settings_id: Int32(id.rawValue), value: UInt32(clamping: value))
        }
        let entries = [
            entry(NGHTTP2_SETTINGS_ENABLE_PUSH, 0),
            entry(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, settings.maximumHeaderListSize),
        ]
        let error = nghttp2_submit_settings(session, 0, entries, entries.count)
        return error != 0
            ? error : nghttp2_session_set_local_window_size(session, 0, 0, connectionWindow)
    }

    /// Queues a request with the fields of the template; the body of the stream follows as flow
    /// control allows. Returns the stream's number, or an error code of nghttp2 below 0.
    static func submit(
        _ session: OpaquePointer, _ template: HTTP2RequestTemplate, hasBody: Bool,
        _ handle: HTTP2StreamTable.Handle
    ) -> Int32 {
        let stream = UnsafeMutableRawPointer(bitPattern: handle)
        guard hasBody else {
            return nghttp2_submit_request(
                session, nil, template.fields, template.count, nil, stream)
        }
        var provider = nghttp2_data_provider(
            source: nghttp2_data_source(ptr: stream), read_callback: readBody)
        return nghttp2_submit_request(
            session, nil, template.fields, template.count, &provider, stream)
    }

    /// Passes a request's body to nghttp2; `length` is the number of bytes that flow control
    /// allows.
    private static let readBody: nghttp2_data_source_read_callback = {
        _, _, target, length, flags, source, user in
        guard let user, let target, let source, let flags else {
            return Int(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue)
        }
        let state = user.client
        guard let index = state.pointee.streams.index(of: UInt(bitPattern: source.pointee.ptr))
        else {
            return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue)
        }
        let count = state.pointee.streams[index].request.move(length, to: target)
        if state.pointee.streams[index].request.left == 0 {
            flags.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue
        }
        return count
    }
}

// MARK: Callbacks

extension UnsafeMutableRawPointer {
    fileprivate var client: UnsafeMutablePointer<HTTP2ClientState> {
        assumingMemoryBound(to: HTTP2ClientState.self)
    }
}

private func handle(_ session: OpaquePointer, _ streamID: Int32) -> HTTP2StreamTable.Handle {
    UInt(bitPattern: nghttp2_session_get_stream_user_data(session, streamID))
}

private let onHeader: nghttp2_on_header_callback = {
    session, frame, name, nameLength, value, valueLength, _, user in
    guard let session, let frame, let name, let user else {
        return 0
    }
    let fits = user.client.pointee.addHeader(
        handle(session, frame.pointee.hd.stream_id),
        name: UnsafeBufferPointer(start: name, count: nameLength),
        value: UnsafeBufferPointer(start: value, count: valueLength))
    return fits ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue
}

private let onData: nghttp2_on_data_chunk_recv_callback = {
    session, _, streamID, bytes, length, user in
    guard let session, let user else {
        return 0
    }
    if !user.client.pointee.addBody(handle(session, streamID), bytes, length) {
        nghttp2_submit_rst_stream(session, 0, streamID, NGHTTP2_CANCEL.rawValue)
    }
    return 0
}

private let onFrame: nghttp2_on_frame_recv_callback = { session, frame, user in
    guard let session, let frame, let user else {
        return 0
    }
    let stream = frame.pointee.hd.stream_id
    let goesOn = user.client.pointee.received(
        frame, stream == 0 ? 0 : handle(session, stream), session)
    if !goesOn {
        nghttp2_session_terminate_session(session, NGHTTP2_ENHANCE_YOUR_CALM.rawValue)
    }
    return 0
}

private let onStreamClose: nghttp2_on_stream_close_callback = { session, streamID, code, user in
    if let session, let user {
        user.client.pointee.closed(handle(session, streamID), HTTP2ErrorCode(rawValue: code))
    }
    return 0
}

private let onError: nghttp2_error_callback2 = { _, _, message, length, user in
    if let user, let message {
        let bytes = UnsafeRawBufferPointer(start: message, count: min(length, 200))
        user.client.pointee.libraryMessage = String(decoding: bytes, as: UTF8.self)
    }
    return 0
}
