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
        guard let user, let target, let source, let flags
        else { return Int(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue) }
        let state = user.client
        guard let index = state.pointee.streams.index(of: UInt(bitPattern: source.pointee.ptr))
        else { return Int(NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue) }
        let (count, isLast) = state.pointee.moveBody(index, length, to: target)
        if isLast { flags.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue }
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
    guard let session, let frame, let name, let user else { return 0 }
    let fits = user.client.pointee.addHeader(
        handle(session, frame.pointee.hd.stream_id),
        name: UnsafeBufferPointer(start: name, count: nameLength),
        value: UnsafeBufferPointer(start: value, count: valueLength))
    return fits ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue
}

private let onData: nghttp2_on_data_chunk_recv_callback = {
    session, _, streamID, bytes, length, user in
    guard let session, let user else { return 0 }
    if !user.client.pointee.addBody(handle(session, streamID), bytes, length) {
        nghttp2_submit_rst_stream(session, 0, streamID, NGHTTP2_CANCEL.rawValue)
    }
    return 0
}

private let onFrame: nghttp2_on_frame_recv_callback = { session, frame, user in
    guard let session, let frame, let user else { return 0 }
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

// The requests of a sender are similar: of some 700 bytes only the path, an id and the payload
// differ. So the common fields are stored once, in the form that nghttp2 reads, and a request has
// only its own values. One HTTP2Request is reused for all requests and allocates no memory once it
// has grown.

/// A header field with its treatment by header compression.
package struct HTTP2Field: Sendable, Equatable {
    /// The name in lower case; that of a pseudo-header field begins with a colon.
    package var name: String
    /// The value; nil in a template for a value of each request.
    package var value: String?
    /// Whether the table may keep it (RFC 7541 section 6.2); never, here or by an intermediary, for secrets
    /// and for values that occur once.
    package var isIndexed: Bool

    package init(_ name: String, _ value: String, isIndexed: Bool = true) {
        (self.name, self.value, self.isIndexed) = (name, value, isIndexed)
    }

    /// Makes a field with a value of each request.
    package static func perRequest(_ name: String) -> HTTP2Field {
        var field = HTTP2Field(name, "", isIndexed: false)
        field.value = nil
        return field
    }
}

/// The common header fields of many requests. Confined to one thread, like its sessions.
package final class HTTP2RequestTemplate {
    /// The number of values of each request.
    let valuesPerRequest: Int
    let count: Int
    /// All fields in order; each submission sets the values of the open ones.
    let fields: UnsafeMutablePointer<nghttp2_nv>
    /// The positions of the open fields.
    let open: UnsafeMutablePointer<Int>
    private let text: UnsafeMutablePointer<UInt8>

    /// Stores the fields of `list` in its order; pseudo-header fields must be first (RFC 9113
    /// section 8.3). A request has the open values in the same order.
    package init(_ list: [HTTP2Field]) {
        count = list.count
        fields = .allocate(capacity: max(count, 1))
        let openPositions = list.indices.filter { list[$0].value == nil }
        valuesPerRequest = openPositions.count
        open = .allocate(capacity: max(valuesPerRequest, 1))
        open.initialize(from: openPositions, count: valuesPerRequest)
        let size = list.reduce(0) { $0 + $1.name.utf8.count + ($1.value?.utf8.count ?? 0) }
        text = .allocate(capacity: max(size, 1))
        var end = text
        func store(_ words: String) -> (UnsafeMutablePointer<UInt8>, Int) {
            let start = end
            for byte in words.utf8 {
                end.initialize(to: byte)
                end += 1
            }
            return (start, end - start)
        }
        for (position, field) in list.enumerated() {
            let (name, nameLength) = store(field.name)
            let (value, valueLength) = store(field.value ?? "")
            var flags = NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue
            // The template lives as long as nghttp2 reads from it; the values of a request do not.
            if field.value != nil { flags |= NGHTTP2_NV_FLAG_NO_COPY_VALUE.rawValue }
            if !field.isIndexed { flags |= NGHTTP2_NV_FLAG_NO_INDEX.rawValue }
            (fields + position).initialize(
                to: nghttp2_nv(
                    name: name, value: value, namelen: nameLength, valuelen: valueLength,
                    flags: UInt8(flags)))
        }
    }

    /// Sets the open fields to the values in `bytes`, each from the end of the previous one to its
    /// own in `ends`. Returns the body, which follows the last value.
    func fill(
        _ bytes: UnsafeRawBufferPointer, _ ends: [Int]
    ) -> UnsafeRawBufferPointer {
        var start = 0
        for place in ends.indices {
            let field = fields + open[place]
            // nghttp2 copies these values and does not write to them.
            field.pointee.value = UnsafeMutableRawPointer(
                mutating: bytes.baseAddress.map { $0 + start })?
                .assumingMemoryBound(to: UInt8.self)
            field.pointee.valuelen = ends[place] - start
            start = ends[place]
        }
        return UnsafeRawBufferPointer(rebasing: bytes[start...])
    }

    deinit {
        fields.deallocate()
        open.deallocate()
        text.deallocate()
    }
}

/// One request, reused for each submission.
///
/// Call `append` and `endValue` for each open value of the template, then `append` for the body.
package struct HTTP2Request {
    /// The common fields.
    package private(set) var template: HTTP2RequestTemplate
    private(set) var bytes: [UInt8] = []
    /// The end of each value in `bytes`; the body follows the last one.
    private(set) var ends: [Int] = []

    package init(_ template: HTTP2RequestTemplate) {
        self.template = template
        bytes.reserveCapacity(8 * 1024)
        ends.reserveCapacity(template.valuesPerRequest)
    }

    /// Removes values and body and keeps the memory; `other` replaces the template.
    package mutating func reset(_ other: HTTP2RequestTemplate? = nil) {
        if let other { template = other }
        bytes.removeAll(keepingCapacity: true)
        ends.removeAll(keepingCapacity: true)
    }

    /// Appends to the present value or to the body.
    package mutating func append(_ more: some Collection<UInt8>) { bytes.append(contentsOf: more) }

    /// Ends the present value.
    package mutating func endValue() { ends.append(bytes.count) }
}
