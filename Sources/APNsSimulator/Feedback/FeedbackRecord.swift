/// What became of one connection to the feedback listener.
package struct FeedbackRecord: Sendable, Equatable, Encodable {
    /// How a connection ended.
    package enum End: String, Sendable, Encodable {
        /// Served and closed with close_notify.
        case closeNotify = "close-notify"
        /// Closed without close_notify.
        case noCloseNotify = "no-close-notify"
        /// Reset by the gateway.
        case reset
        /// Held open or silent until the client left or the gateway stopped.
        case heldOpen = "held-open"
        /// Answered without TLS.
        case plaintext
        /// The handshake failed; `error` says why.
        case handshakeFailed = "handshake-failed"
        /// The client went away, or the gateway stopped, before the end; `error` says more.
        case unfinished
    }

    /// Counts accepted connections from 1.
    package let connection: Int
    /// The client's address and port.
    package let peer: String
    /// The subject of the client's certificate; nil before a handshake.
    package internal(set) var subject: String?
    /// The version agreed on.
    package internal(set) var tls: String?
    /// Which list it was given, from 0; nil when there was none left.
    package internal(set) var list: Int?
    /// Bytes handed out: to TLS, or to the socket in plaintext.
    package internal(set) var bytes = 0
    /// How it ended.
    package internal(set) var end = End.unfinished
    /// The sentence of a failure.
    package internal(set) var error: String?

    init(connection: Int, peer: String) {
        self.connection = connection
        self.peer = peer
    }
}
