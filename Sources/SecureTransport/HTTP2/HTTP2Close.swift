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

    /// For a failure of TLS or of the socket.
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

    /// For a session that nghttp2 has nothing more to read for: after a GOAWAY whose streams are all over,
    /// or because the peer broke the protocol; `detail` is what nghttp2 said about it.
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

    /// For a peer that sends too much which brings no request forward.
    static func flood(peer: String, frames: Int, bytes: Int) -> HTTP2Close {
        HTTP2Close(
            .peerBrokeProtocol,
            "HTTP/2 with \(peer): the peer floods us with \(frames) frames "
                + "and \(bytes) bytes that answer nothing; ask its owner")
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

/// Why an HTTP/2 peer ended a stream or a connection (RFC 9113 section 7).
package struct HTTP2ErrorCode: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
    /// The number on the wire; unknown ones are kept as they are.
    package let rawValue: UInt32

    /// Takes any number a peer may send.
    package init(rawValue: UInt32) {
        self.rawValue = rawValue
    }

    /// Nothing is wrong.
    package static let noError = HTTP2ErrorCode(rawValue: 0x0)
    /// The peer saw a breach of the protocol.
    package static let protocolError = HTTP2ErrorCode(rawValue: 0x1)
    /// The peer failed by itself.
    package static let internalError = HTTP2ErrorCode(rawValue: 0x2)
    /// Flow control was not kept.
    package static let flowControlError = HTTP2ErrorCode(rawValue: 0x3)
    /// SETTINGS were not acknowledged in time.
    package static let settingsTimeout = HTTP2ErrorCode(rawValue: 0x4)
    /// A frame came for a stream that was closed.
    package static let streamClosed = HTTP2ErrorCode(rawValue: 0x5)
    /// A frame had a wrong size.
    package static let frameSizeError = HTTP2ErrorCode(rawValue: 0x6)
    /// The stream was refused before any processing: the request may be sent again.
    package static let refusedStream = HTTP2ErrorCode(rawValue: 0x7)
    /// The stream is no longer wanted.
    package static let cancel = HTTP2ErrorCode(rawValue: 0x8)
    /// The state of header compression was lost.
    package static let compressionError = HTTP2ErrorCode(rawValue: 0x9)
    /// A CONNECT tunnel broke.
    package static let connectError = HTTP2ErrorCode(rawValue: 0xa)
    /// The other side asks for too much.
    package static let enhanceYourCalm = HTTP2ErrorCode(rawValue: 0xb)
    /// TLS does not meet the peer's demands.
    package static let inadequateSecurity = HTTP2ErrorCode(rawValue: 0xc)
    /// The peer wants HTTP/1.1.
    package static let http11Required = HTTP2ErrorCode(rawValue: 0xd)

    private static let names = [
        "NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT",
        "STREAM_CLOSED", "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR",
        "CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
    ]

    /// The name that the standard gives it, else the number.
    package var description: String {
        rawValue < Self.names.count ? Self.names[Int(rawValue)] : "error \(rawValue)"
    }
}
