import CNGHTTP2

/// Why an HTTP/2 connection is over.
package struct HTTP2Close: Sendable, Equatable, CustomStringConvertible {
    /// The kinds of end a caller may treat differently.
    package enum Code: Sendable, Equatable {
        /// Closed by `close`.
        case byUs
        /// The peer said GOAWAY and every stream it would still serve is over.
        case goAway
        /// The peer closed, in this way, with or without a GOAWAY before.
        case byPeer(ConnectionEnd)
        /// The peer broke the protocol, or sent more of something than we accept.
        case peerBrokeProtocol
        /// No sign of life from the peer within the time for an answer to PING.
        case unresponsive
        /// TLS or the socket failed: see `failure`.
        case transport
        /// nghttp2 refused something local.
        case local
    }

    /// The kind of end.
    package let code: Code
    /// One line: with whom, what happened, what to do next.
    package let description: String
    /// The failure of TLS or socket, for its code.
    package let failure: TransportFailure?

    /// States an end.
    package init(_ code: Code, _ description: String, failure: TransportFailure? = nil) {
        (self.code, self.description, self.failure) = (code, description, failure)
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

    /// For a write that failed: the peer's reset or end may show there before it shows in a read.
    static func writing(_ failure: TransportFailure) -> HTTP2Close {
        let code: Code =
            switch failure.code {
            case .reset: .byPeer(.reset)
            case .closedEarly: .byPeer(.cut)
            default: .transport
            }
        return HTTP2Close(code, failure.description, failure: failure)
    }

    /// For an error code of nghttp2; `detail` is what nghttp2 said about it.
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
    /// Why it goes.
    package let code: HTTP2ErrorCode
    /// What it says about it, cut after 1024 bytes; APNs puts a JSON object with a reason here.
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
