import Glibc

/// Why a connection could not be made or used.
///
/// `code` is for decisions, `description` for people: a full sentence that names the peer, the
/// check that failed, and what to do next.
package struct TransportFailure: Error, Sendable, Equatable, CustomStringConvertible {
    /// What was being waited for when the time ran out.
    package enum Stage: Sendable, Equatable {
        /// TCP connect.
        case connect
        /// TLS handshake.
        case handshake
        /// Bytes from the peer.
        case read
        /// Room for bytes to the peer.
        case write
    }

    /// The kinds of failure a caller may treat differently.
    package enum Code: Sendable, Equatable {
        /// The host name does not resolve (getaddrinfo(3)).
        case nameNotFound
        /// Nothing listens at that port.
        case connectionRefused
        /// No route to the host.
        case unreachable
        /// The deadline came first.
        case timedOut(Stage)
        /// The peer reset the connection.
        case reset
        /// The peer closed in the middle of a handshake, or before a write.
        case closedEarly
        /// The peer's certificate does not lead to a trusted authority, or may not be used so.
        case certificateUntrusted
        /// A certificate of the peer's chain has expired.
        case certificateExpired
        /// A certificate of the peer's chain is not valid yet.
        case certificateNotYetValid
        /// The certificate is for another host.
        case hostNameMismatch
        /// A gateway refused our certificate or missed one; on the server side: the client sent
        /// none. Under TLS 1.3 it comes with the first read (RFC 8446 section 4.4.2.4).
        case clientCertificateRefused
        /// The peer does not speak TLS.
        case notTLS
        /// The peer speaks no TLS version that we accept.
        case protocolVersion
        /// The peer broke the TLS protocol, or sent another alert.
        case protocolError
        /// A certificate or trust file of ours cannot be used: a matter of settings.
        case credentialsUnusable
        /// The interrupt was tripped while waiting.
        case interrupted
        /// The operating system or OpenSSL refused something local.
        case io
    }

    /// The kind of failure.
    package let code: Code
    /// One line: what was done, to what, what happened, what to do next.
    package let description: String

    /// States a failure.
    package init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }

    /// A wait that an interrupt cut short.
    package static func interrupted(while action: String) -> TransportFailure {
        TransportFailure(.interrupted, "\(action): interrupted")
    }

    /// A failed system call: `io` with the system's words for the errno and advice where there is some.
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

    /// The system's words for an errno, lower-case start.
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
