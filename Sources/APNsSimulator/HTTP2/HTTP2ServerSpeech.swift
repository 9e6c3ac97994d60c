import CNGHTTP2
import SecureTransport

extension HTTP2ServerSession {
    /// Answers a request. False when its stream is gone.
    @discardableResult
    package func answer(_ streamID: Int32, _ answer: HTTP2Answer) -> Bool {
        var text: [UInt8] = []
        var spans: [(name: Range<Int>, value: Range<Int>, isSecret: Bool)] = []
        func lay(_ words: String) -> Range<Int> {
            let start = text.count
            text.append(contentsOf: words.utf8)
            return start..<text.count
        }
        spans.append((lay(":status"), lay(String(answer.status)), false))
        for field in answer.fields {
            spans.append((lay(field.name), lay(field.value ?? ""), field.indexing == .never))
        }
        let hasBody = !answer.body.isEmpty || !answer.ends
        if hasBody {
            state.pointee.bodies[streamID] = HTTP2ServerState.Body(
                bytes: answer.body, largestPiece: max(1, answer.largestPiece ?? .max),
                ends: answer.ends)
        }
        let error = text.withUnsafeMutableBufferPointer { text in
            let fields = spans.map { span in
                nghttp2_nv(
                    name: text.baseAddress.map { $0 + span.name.lowerBound },
                    value: text.baseAddress.map { $0 + span.value.lowerBound },
                    namelen: span.name.count, valuelen: span.value.count,
                    flags: UInt8(span.isSecret ? NGHTTP2_NV_FLAG_NO_INDEX.rawValue : 0))
            }
            var provider = nghttp2_data_provider(
                source: nghttp2_data_source(ptr: nil), read_callback: HTTP2ServerLibrary.readBody)
            return hasBody
                ? nghttp2_submit_response(
                    wire.session, streamID, fields, fields.count, &provider)
                : nghttp2_submit_response(wire.session, streamID, fields, fields.count, nil)
        }
        if error != 0 {
            state.pointee.bodies[streamID] = nil
        }
        return error == 0
    }

    /// Resets a stream with any code. A client that broke nothing calls it unprocessed only for
    /// `refusedStream`.
    package func reset(_ streamID: Int32, code: HTTP2ErrorCode) {
        nghttp2_submit_rst_stream(wire.session, 0, streamID, code.rawValue)
    }

    /// Says GOAWAY with any last stream, also one that was never opened or is above an earlier
    /// one. Streams above it are not answered any more.
    package func goAway(
        lastStreamID: Int32, code: HTTP2ErrorCode = .noError, debug: [UInt8] = []
    ) {
        // nghttp2 only ever lowers the number and stops reading afterwards; a raw frame does
        // neither.
        var frame = Self.frame(type: UInt8(NGHTTP2_GOAWAY.rawValue), length: 8 + debug.count)
        for number in [UInt32(bitPattern: lastStreamID), code.rawValue] {
            frame += Self.bytes(number)
        }
        sendRaw(frame + debug)
    }

    /// Changes SETTINGS_MAX_CONCURRENT_STREAMS and SETTINGS_INITIAL_WINDOW_SIZE; nil keeps one.
    package func changeSettings(maximumStreams: UInt32? = nil, initialWindow: UInt32? = nil) {
        var entries: [nghttp2_settings_entry] = []
        if let maximumStreams {
            entries.append(
                nghttp2_settings_entry(
                    settings_id: Int32(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS.rawValue),
                    value: maximumStreams))
        }
        if let initialWindow {
            entries.append(
                nghttp2_settings_entry(
                    settings_id: Int32(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE.rawValue),
                    value: initialWindow))
        }
        nghttp2_submit_settings(wire.session, 0, entries, entries.count)
    }

    /// Sends a PING.
    package func ping() {
        nghttp2_submit_ping(wire.session, 0, nil)
    }

    /// Sends bytes as they are, behind the frames queued so far.
    package func sendRaw(_ bytes: [UInt8]) {
        wire.addRaw(bytes)
    }

    /// The nine bytes before a frame's payload (RFC 9113 section 4.1), to build raw frames with.
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
