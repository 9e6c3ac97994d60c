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
