import Glibc

/// A failure to connect or to use a connection.
///
/// `code` is for decisions. `description` is a sentence for messages that names the peer, the
/// failed check and the next action.
package struct TransportFailure: Error, Sendable, Equatable, CustomStringConvertible {
    /// The stage of a connection at which the time ran out.
    package enum Stage: Sendable, Equatable {
        /// TCP connect.
        case connect
        /// TLS handshake.
        case handshake
        /// Writing, while the peer does not read.
        case write
    }

    /// The kinds of failure a caller may treat differently.
    package enum Code: Sendable, Equatable {
        /// The host name does not resolve (getaddrinfo(3)).
        case nameNotFound
        /// No program listens at that port.
        case connectionRefused
        /// No route to the host.
        case unreachable
        /// The deadline passed.
        case timedOut(Stage)
        /// The peer reset the connection.
        case reset
        /// The peer closed in the middle of a handshake, or before a write.
        case closedEarly
        /// The peer's certificate has no trusted authority, or another purpose.
        case certificateUntrusted
        /// A certificate of the peer's chain has expired.
        case certificateExpired
        /// A certificate of the peer's chain is not valid yet.
        case certificateNotYetValid
        /// The certificate is for another host.
        case hostNameMismatch
        /// A gateway refused our certificate or requires one; on the server side: the client sent
        /// none. Under TLS 1.3 the first read reports it (RFC 8446 section 4.4.2.4).
        case clientCertificateRefused
        /// The peer does not speak TLS.
        case notTLS
        /// The peer speaks TLS, and another protocol in it than the one that is needed.
        case wrongProtocol
        /// The peer has no TLS version that we accept.
        case protocolVersion
        /// The peer violated the TLS protocol, or sent another alert.
        case protocolError
        /// A local certificate or trust file cannot be used: the settings are wrong.
        case credentialsUnusable
        /// The interrupt was tripped while waiting.
        case interrupted
        /// A local failure of the operating system or of OpenSSL.
        case io
    }

    /// The kind of failure.
    package let code: Code
    /// One line with the action, its object, the failure and the next action.
    package let description: String

    /// Makes a failure.
    package init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }

    /// A deadline that passed at a stage of the connection to a peer.
    static func timedOut(_ stage: Stage, with peer: String) -> TransportFailure {
        let sentence =
            switch stage {
            case .connect:
                "connecting to \(peer): no answer in time; check the address, the route and "
                    + "firewalls"
            case .handshake:
                "TLS handshake with \(peer): no answer in time; check that a TLS server listens "
                    + "at that port"
            case .write:
                "writing to \(peer): the peer took nothing in time; try again later"
            }
        return TransportFailure(.timedOut(stage), sentence)
    }

    /// A wait that an interrupt ended.
    package static func interrupted(while action: String) -> TransportFailure {
        TransportFailure(.interrupted, "\(action): interrupted")
    }

    /// A failed system call: `io` with the system's message for the errno, and advice for some of
    /// them.
    package static func system(_ action: String, _ error: Int32) -> TransportFailure {
        let advice =
            switch error {
            case EMFILE, ENFILE: "; raise the limit of open files"
            case EACCES, EPERM: "; check permissions and firewall rules of this host"
            case EADDRINUSE: "; choose another port or stop the program that has it"
            case EADDRNOTAVAIL: "; choose an address of this host"
            default: ""
            }
        return TransportFailure(.io, "\(action): \(systemMessage(error))\(advice)")
    }

    /// The system's message for an errno, with a lower-case first letter.
    package static func systemMessage(_ error: Int32) -> String {
        var buffer = [CChar](repeating: 0, count: 256)
        guard strerror_r(error, &buffer, buffer.count) == 0 else {
            return "error \(error)"
        }
        let characters = buffer.prefix { $0 != 0 }.map(UInt8.init(bitPattern:))
        let text = String(decoding: characters, as: UTF8.self)
        return text.prefix(1).lowercased() + text.dropFirst()
    }
}
