import SecureTransport

/// How a feedback gateway serves. The default is what Apple's did: the list at once after the
/// handshake, once, then close_notify.
package struct FeedbackBehaviour: Sendable, Equatable {
    /// What happens before any list.
    package enum Opening: String, Sendable, CaseIterable {
        /// TLS, then the list.
        case normal
        /// TCP only: the client's hello is never answered.
        case silentBeforeHandshake = "silent-before-handshake"
        /// TLS, then nothing; the list stays for the next connection.
        case silentAfterHandshake = "silent-after-handshake"
        /// The list without TLS, as far as the socket takes it at once.
        case plaintext
    }

    /// What happens after the last byte.
    package enum Ending: String, Sendable, CaseIterable {
        /// A complete list (RFC 8446 section 6.1).
        case closeNotify = "close-notify"
        /// The stream just ends, so the client cannot know that it has all.
        case noCloseNotify = "no-close-notify"
        /// Never ends; some gateways did this.
        case holdOpen = "hold-open"
        /// TCP reset. Bytes that the client has not read yet may be lost with it.
        case reset
    }

    /// Which certificate the gateway shows.
    package enum Certificate: String, Sendable, CaseIterable {
        /// A good one.
        case valid
        /// Expired an hour ago.
        case expired
        /// Valid from tomorrow.
        case notYetValid = "not-yet-valid"
        /// Of an authority that the client does not trust.
        case foreign
        /// For another host name.
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

    /// A silence in the middle.
    package struct Pause: Sendable, Equatable {
        /// After so many bytes of the list.
        package var afterByte: Int
        /// How long.
        package var duration: Duration

        /// Makes a pause.
        package init(afterByte: Int, duration: Duration) {
            self.afterByte = afterByte
            self.duration = duration
        }
    }

    /// What happens before any list.
    package var opening = Opening.normal
    /// What happens after the last byte, also one forced by `closeAfter`.
    package var ending = Ending.closeNotify
    /// Bytes per write, so per TLS record: 1 is a drip. Nil for as many as fit.
    package var writeSize: Int?
    /// Waiting time between two writes.
    package var delay = Duration.zero
    /// A silence in the middle.
    package var pause: Pause?
    /// Ends the list after so many bytes, be it inside a tuple.
    package var closeAfter: Int?
    /// Resets after so many bytes.
    package var resetAfter: Int?
    /// Bytes sent in place of the list, which is lost.
    package var replacement: [UInt8]?
    /// Bytes sent after the list.
    package var appendix: [UInt8] = []
    /// Starts the list over and over on the same connection, until the client leaves.
    package var isEndless = false
    /// Serves the lists again, in turn, instead of each once.
    package var repeats = false
    /// Which certificate the gateway shows.
    package var certificate = Certificate.valid
    /// Calls every client certificate bad, with an alert.
    package var refusesClients = false
    /// TLS versions it accepts.
    package var versions = TLSServerContext.Version.tls12 ... .tls13

    /// Apple's behaviour.
    package init() {}

    /// Bytes spelled in hex, for `replacement` and `appendix`; spaces and line ends are ignored.
    package static func bytes(hex: String) throws(SimulatorFailure) -> [UInt8] {
        try HexText.bytes(hex)
    }
}
