import SecureTransport

/// The behaviour of a feedback gateway. By default as Apple's: it sends the list once, directly
/// after the handshake, then close_notify.
package struct FeedbackBehaviour: Sendable, Equatable {
    /// The beginning of a connection, before any list.
    package enum Opening: String, Sendable, CaseIterable {
        /// TLS, then the list.
        case normal
        /// TCP only: the gateway never answers the client's hello.
        case silentBeforeHandshake = "silent-before-handshake"
        /// TLS and no byte of a list; the list stays for the next connection.
        case silentAfterHandshake = "silent-after-handshake"
        /// The list without TLS, as many bytes as the socket accepts at once.
        case plaintext
    }

    /// The end of a connection, after the last byte.
    package enum Ending: String, Sendable, CaseIterable {
        /// A complete list (RFC 8446 section 6.1).
        case closeNotify = "close-notify"
        /// The stream ends without close_notify, so the client cannot know whether the list is
        /// complete.
        case noCloseNotify = "no-close-notify"
        /// The connection stays open; some gateways did this.
        case holdOpen = "hold-open"
        /// A TCP reset. The client may lose bytes that it has not read yet.
        case reset
    }

    /// The certificate that the gateway sends.
    package enum Certificate: String, Sendable, CaseIterable {
        /// A valid one.
        case valid
        /// One that expired an hour ago.
        case expired
        /// One that is valid from tomorrow.
        case notYetValid = "not-yet-valid"
        /// One of an authority that the client does not trust.
        case foreign
        /// One for another host name.
        case wrongHost = "wrong-host"

        var name: SimulatorCertificates.Name {
            switch self {
            case .valid: .server
            case .expired: .expiredServer
            case .notYetValid: .notYetValidServer
            case .foreign: .foreignServer
            case .wrongHost: .wrongHostServer
            }
        }
    }

    /// A pause during the list.
    package struct Pause: Sendable, Equatable {
        /// The number of bytes of the list after which it begins.
        package var afterByte: Int
        /// Its duration.
        package var duration: Duration

        /// Makes a pause.
        package init(afterByte: Int, duration: Duration) {
            self.afterByte = afterByte
            self.duration = duration
        }
    }

    /// The beginning of a connection, before any list.
    package var opening = Opening.normal
    /// The end of a connection, after the last byte or at `closeAfter`.
    package var ending = Ending.closeNotify
    /// The number of bytes per write and TLS record; nil for as many as fit.
    package var writeSize: Int?
    /// The time between two writes.
    package var delay = Duration.zero
    /// A pause during the list.
    package var pause: Pause?
    /// The number of bytes after which the list ends, even inside a tuple; nil for all.
    package var closeAfter: Int?
    /// The number of bytes after which the connection is reset; nil for never.
    package var resetAfter: Int?
    /// Bytes sent instead of the list, which is lost.
    package var replacement: [UInt8]?
    /// Bytes sent after the list.
    package var appendix: [UInt8] = []
    /// Whether the list is repeated on the same connection until the client closes it.
    package var isEndless = false
    /// Whether the lists are served again, in turn, instead of once each.
    package var repeats = false
    /// The certificate that the gateway sends.
    package var certificate = Certificate.valid
    /// Whether every client certificate is refused with an alert.
    package var refusesClients = false
    /// The TLS versions that it accepts.
    package var versions = TLSServerContext.Version.tls12 ... .tls13

    /// The behaviour of Apple's gateway.
    package init() {}

    /// Parses bytes in hex, for `replacement` and `appendix`; spaces and line ends are ignored.
    package static func bytes(hex: String) throws(SimulatorFailure) -> [UInt8] {
        try HexText.bytes(hex)
    }
}
