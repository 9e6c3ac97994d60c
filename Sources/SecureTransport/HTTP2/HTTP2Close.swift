import CNGHTTP2

/// The reason for the end of an HTTP/2 connection.
package struct HTTP2Close: Sendable, Equatable, CustomStringConvertible {
    /// The kinds of end.
    package enum Code: Sendable, Equatable {
        /// This side called `close`.
        case byUs
        /// The peer sent GOAWAY, and all streams up to its last one have ended.
        case goAway
        /// The peer closed in this way, with or without a GOAWAY before.
        case byPeer(ConnectionEnd)
        /// The peer violated the protocol, or exceeded a limit of ours.
        case peerBrokeProtocol
        /// The peer did not answer PING in time.
        case unresponsive
        /// TLS or the socket failed; see `failure`.
        case transport
        /// A local failure of nghttp2.
        case local
    }

    /// The kind of end.
    package let code: Code
    /// One line with the peer, the event and the next action.
    package let description: String
    /// The failure of TLS or of the socket, where there is one.
    package let failure: TransportFailure?

    /// Makes an end.
    package init(_ code: Code, _ description: String, failure: TransportFailure? = nil) {
        (self.code, self.description, self.failure) = (code, description, failure)
    }

    /// The end by a failure of TLS or of the socket.
    package static func transport(_ failure: TransportFailure) -> HTTP2Close {
        HTTP2Close(.transport, failure.description, failure: failure)
    }

    static func unresponsive(peer: String) -> HTTP2Close {
        HTTP2Close(
            .unresponsive, "HTTP/2 with \(peer): no answer to PING in time; connect again")
    }

    static func ended(_ end: ConnectionEnd, peer: String) -> HTTP2Close {
        let how =
            switch end {
            case .closeNotify: "closed the connection"
            case .cut: "closed the connection without close_notify"
            case .reset: "reset the connection"
            }
        return HTTP2Close(
            .byPeer(end), "HTTP/2 with \(peer): the peer \(how); connect again")
    }

    /// The end of a session for which nghttp2 reads no more: after a GOAWAY whose streams have all
    /// ended, or after a violation of the protocol. `detail` is nghttp2's message.
    static func over(peer: String, goAway: HTTP2GoAway?, detail: String) -> HTTP2Close {
        if let goAway {
            return HTTP2Close(
                .goAway,
                "HTTP/2 with \(peer): the peer said GOAWAY (\(goAway.code)); connect again")
        }
        return HTTP2Close(
            .peerBrokeProtocol,
            "HTTP/2 with \(peer): the peer broke the protocol: \(detail); ask its owner")
    }

    /// The end by a peer that sends too many frames or bytes that advance no request.
    static func flood(peer: String, frames: Int, bytes: Int) -> HTTP2Close {
        HTTP2Close(
            .peerBrokeProtocol,
            "HTTP/2 with \(peer): the peer floods us with \(frames) frames "
                + "and \(bytes) bytes that answer nothing; ask its owner")
    }

    /// The end by an error code of nghttp2; `detail` is nghttp2's message.
    package static func library(_ error: Int32, peer: String, detail: String) -> HTTP2Close {
        let reason = nghttp2_strerror(error).map { String(cString: $0) } ?? "error \(error)"
        let text = detail.isEmpty ? reason : detail
        switch nghttp2_error(rawValue: error) {
        case NGHTTP2_ERR_NOMEM, NGHTTP2_ERR_CALLBACK_FAILURE, NGHTTP2_ERR_INVALID_ARGUMENT:
            return HTTP2Close(.local, "HTTP/2 with \(peer): libnghttp2 failed: \(text)")
        default:
            return HTTP2Close(
                .peerBrokeProtocol,
                "HTTP/2 with \(peer): the peer broke the protocol: \(text); ask its owner")
        }
    }
}

/// A GOAWAY of the peer (RFC 9113 section 6.8).
package struct HTTP2GoAway: Sendable, Equatable {
    /// The last stream that the peer has processed or may still process.
    package let lastStreamID: Int32
    /// Its error code.
    package let code: HTTP2ErrorCode
    /// Its debug data, truncated to 1024 bytes; APNs sends a JSON object with a reason here.
    package let debug: [UInt8]

    static let longestDebug = 1024

    /// Copies the frame.
    package init(_ frame: nghttp2_goaway) {
        lastStreamID = frame.last_stream_id
        code = HTTP2ErrorCode(rawValue: frame.error_code)
        let length = min(frame.opaque_data_len, Self.longestDebug)
        debug = Array(UnsafeBufferPointer(start: frame.opaque_data, count: length))
    }
}

/// The error code of a reset stream or an ended connection (RFC 9113 section 7).
package struct HTTP2ErrorCode: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
    /// The number on the wire; unknown ones are kept unchanged.
    package let rawValue: UInt32

    /// Makes a code of any number.
    package init(rawValue: UInt32) {
        self.rawValue = rawValue
    }

    /// No error.
    package static let noError = HTTP2ErrorCode(rawValue: 0x0)
    /// The peer detected a violation of the protocol.
    package static let protocolError = HTTP2ErrorCode(rawValue: 0x1)
    /// The peer has an internal error.
    package static let internalError = HTTP2ErrorCode(rawValue: 0x2)
    /// The stream was refused before any processing: the request may be sent again.
    package static let refusedStream = HTTP2ErrorCode(rawValue: 0x7)
    /// The stream is no longer wanted.
    package static let cancel = HTTP2ErrorCode(rawValue: 0x8)

    private static let names = [
        "NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT",
        "STREAM_CLOSED", "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR",
        "CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
    ]

    /// The name in the standard, else the number.
    package var description: String {
        rawValue < Self.names.count ? Self.names[Int(rawValue)] : "error \(rawValue)"
    }
}
