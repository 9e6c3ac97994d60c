import Glibc

/// A TCP socket. Its deinit closes the descriptor.
///
/// Every socket is non-blocking (poll does the waiting) and close-on-exec.
package final class Socket {
    /// The open descriptor; -1 once closed.
    package private(set) var descriptor: Int32

    /// Takes over an open descriptor.
    package init(adopting descriptor: Int32) {
        self.descriptor = descriptor
        // Requests are sent in batches, so a wait for more bytes only adds latency.
        var one: Int32 = 1
        setsockopt(
            descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
    }

    deinit { close() }

    /// Closes with FIN, or with RST if bytes of the peer are unread.
    package func close() {
        if descriptor >= 0 {
            Glibc.close(descriptor)
            descriptor = -1
        }
    }

    /// Sends FIN before closing, so that unread bytes do not cause a reset.
    package func closeWithEnd() {
        if descriptor >= 0 {
            endSending()
            close()
        }
    }

    /// Sends FIN; reading continues.
    func endSending() { shutdown(descriptor, Int32(SHUT_WR)) }

    /// Closes with RST: SO_LINGER with time 0 (socket(7)).
    package func closeWithReset() {
        if descriptor >= 0 {
            var abort = linger(l_onoff: 1, l_linger: 0)
            setsockopt(
                descriptor, SOL_SOCKET, SO_LINGER, &abort,
                socklen_t(MemoryLayout<linger>.size))
            close()
        }
    }

    /// Connects by the deadline. `peer` names it in messages.
    static func connect(
        to address: SocketAddress, peer: String, deadline: Deadline, interrupt: Interrupt?
    ) throws(TransportFailure) -> Socket {
        let kind = Int32(
            SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        let descriptor = Glibc.socket(address.family, kind, 0)
        guard descriptor >= 0 else { throw .system("opening a socket for \(peer)", errno) }
        let socket = Socket(adopting: descriptor)
        let result = address.withPointer { Glibc.connect(descriptor, $0, $1) }
        // After EINTR the connection continues, as after EINPROGRESS (connect(2)).
        if result == 0 { return socket }
        guard errno == EINPROGRESS || errno == EINTR else { throw refusal(errno, peer) }
        let isReady = try Poll.isReady(
            descriptor, for: .writing, deadline: deadline, interrupt: interrupt,
            "connecting to \(peer)")
        guard isReady else { throw refusal(ETIMEDOUT, peer) }
        var error: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length)
        guard error == 0 else { throw refusal(error, peer) }
        return socket
    }

    private static func refusal(_ error: Int32, _ peer: String) -> TransportFailure {
        let action = "connecting to \(peer)"
        return switch error {
        case ECONNREFUSED:
            TransportFailure(
                .connectionRefused,
                "\(action): connection refused; check that the gateway listens at that port")
        case ENETUNREACH, EHOSTUNREACH, EHOSTDOWN, ENETDOWN, EADDRNOTAVAIL, EAFNOSUPPORT:
            TransportFailure(
                .unreachable,
                "\(action): \(TransportFailure.systemMessage(error)); check the route and firewalls"
            )
        case ETIMEDOUT:
            TransportFailure(
                .timedOut,
                "\(action): no answer in time; check the address, the route and firewalls")
        case ECONNRESET:
            TransportFailure(
                .reset, "\(action): the peer reset the connection; check what listens there")
        default:
            .system(action, error)
        }
    }
}

/// An IPv4 or IPv6 address with a port, in the form of the system.
package struct SocketAddress: Sendable, Hashable, CustomStringConvertible {
    /// A sockaddr_in or sockaddr_in6, byte for byte.
    private let bytes: [UInt8]

    /// Copies an address of the system; nil for another family.
    package init?(_ address: UnsafePointer<sockaddr>?, length: socklen_t) {
        guard let address, length >= MemoryLayout<sockaddr_in>.size,
            [AF_INET, AF_INET6].contains(Int32(address.pointee.sa_family))
        else { return nil }
        bytes = Array(UnsafeRawBufferPointer(start: address, count: Int(length)))
    }

    /// AF_INET or AF_INET6.
    package var family: Int32 {
        withPointer { address, _ in address.map { Int32($0.pointee.sa_family) } ?? AF_INET }
    }

    /// The port, in host byte order.
    package var port: UInt16 {
        // Both families store it in bytes 2 and 3, in network order (ip(7), ipv6(7)).
        UInt16(bytes[2]) << 8 | UInt16(bytes[3])
    }

    /// `127.0.0.1:2196` or `[::1]:2196`.
    package var description: String {
        var host = [CChar](repeating: 0, count: Int(NI_MAXHOST))
        let result = withPointer { address, length in
            getnameinfo(
                address, length, &host, socklen_t(host.count), nil, 0, Int32(NI_NUMERICHOST))
        }
        let text = result == 0 ? host.withUnsafeBufferPointer(Self.text) : "?"
        return family == AF_INET6 ? "[\(text)]:\(port)" : "\(text):\(port)"
    }

    /// Passes the address to a system call.
    package func withPointer<Result>(
        _ body: (UnsafePointer<sockaddr>?, socklen_t) -> Result
    ) -> Result {
        bytes.withUnsafeBytes { raw in
            body(
                raw.baseAddress?.assumingMemoryBound(to: sockaddr.self), socklen_t(raw.count))
        }
    }

    private static func text(_ characters: UnsafeBufferPointer<CChar>) -> String {
        String(decoding: characters.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// The local address of a bound socket; nil where the system returns none.
    package static func bound(to descriptor: Int32) -> SocketAddress? {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return withUnsafeMutablePointer(to: &storage) { storage in
            storage.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                getsockname(descriptor, address, &length) == 0
                    ? SocketAddress(address, length: length) : nil
            }
        }
    }
}

/// Resolves names with the system's resolver.
package enum NameResolution {
    /// Calls `connect` with one address of a host after the other, until one succeeds or the deadline
    /// has passed. Throws `nameNotFound`, or the failure of an address: the first final
    /// one, else the last.
    package static func first<Connected>(
        of host: String, _ port: UInt16, until deadline: Deadline = .never,
        _ connect: (SocketAddress) throws(TransportFailure) -> Connected
    ) throws(TransportFailure) -> Connected {
        let addresses = try resolve(host: host, port: port)
        if let connected = try first(of: addresses, until: deadline, connect) { return connected }
        throw TransportFailure(
            .nameNotFound, "connecting to \(host):\(port): it has no address; check the name")
    }

    /// The same for addresses; nil where there are none.
    static func first<Connected>(
        of addresses: [SocketAddress], until deadline: Deadline,
        _ connect: (SocketAddress) throws(TransportFailure) -> Connected
    ) throws(TransportFailure) -> Connected? {
        var failure: TransportFailure?
        for address in addresses {
            if failure != nil, deadline.hasPassed { break }
            do throws(TransportFailure) {
                return try connect(address)
            } catch {
                guard error.code != .interrupted else { throw error }
                // A peer that cannot be trusted tells more than one that does not answer.
                if failure?.isFinal != true { failure = error }
            }
        }
        if let failure { throw failure }
        return nil
    }

    /// The addresses of a host, in the order to try them (getaddrinfo(3), RFC 6724).
    ///
    /// An IP literal resolves to itself. The resolver has its own timeouts (resolv.conf(5)) and
    /// cannot be interrupted. Throws `nameNotFound`.
    package static func resolve(
        host: String, port: UInt16
    ) throws(TransportFailure) -> [SocketAddress] {
        let name = HostName(host)
        guard name.isUsable else {
            throw TransportFailure(
                .nameNotFound, "looking up a host: the name is empty or has a zero byte")
        }
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        hints.ai_flags = AI_NUMERICSERV
        var list: UnsafeMutablePointer<addrinfo>?
        let result = getaddrinfo(name.text, String(port), &hints, &list)
        guard result == 0, let first = list else {
            throw TransportFailure(
                .nameNotFound,
                "looking up \(name.text): \(reason(result)); check the host name in the settings "
                    + "and this host's DNS")
        }
        defer { freeaddrinfo(first) }
        return sequence(first: first, next: { $0.pointee.ai_next }).compactMap {
            SocketAddress($0.pointee.ai_addr, length: $0.pointee.ai_addrlen)
        }
    }

    private static func reason(_ code: Int32) -> String {
        guard let message = gai_strerror(code) else { return "resolver error \(code)" }
        let text = String(cString: message)
        return text.prefix(1).lowercased() + text.dropFirst()
    }
}

/// A host in the settings: a name, with or without the root's dot, or an IP literal, with or
/// without brackets.
struct HostName: Sendable {
    /// The host without brackets and without the root's dot, which certificates and SNI do not have
    /// (RFC 6066 section 3).
    let text: String

    init(_ spelled: String) {
        var name = Substring(spelled)
        if name.hasPrefix("["), name.hasSuffix("]") {
            name = name.dropFirst().dropLast()
        } else if name.hasSuffix(".") {
            name = name.dropLast()
        }
        text = String(name)
    }

    var isUsable: Bool { !text.isEmpty && !text.utf8.contains(0) }

    /// Whether it is an address: compared with the certificate's IP addresses, and not sent as SNI.
    var isLiteral: Bool {
        var address = in6_addr()
        return inet_pton(AF_INET, text, &address) == 1 || inet_pton(AF_INET6, text, &address) == 1
    }
}

/// A failure to connect or to use a connection.
///
/// `code` is for decisions. `description` is a sentence for messages that names the peer, the
/// failed check and the next action.
package struct TransportFailure: Error, Sendable, Equatable, CustomStringConvertible {
    /// The kinds of failure a caller may treat differently.
    package enum Code: Sendable, Equatable {
        /// The host name does not resolve (getaddrinfo(3)).
        case nameNotFound
        /// No program listens at that port.
        case connectionRefused
        /// No route to the host.
        case unreachable
        /// The deadline passed.
        case timedOut
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
        /// A certificate or key of ours cannot be used: the settings are wrong.
        case credentialsUnusable
        /// The certificate authorities cannot be loaded: the settings name a wrong file, or none.
        case trustUnusable
        /// The interrupt was tripped while waiting.
        case interrupted
        /// A local failure of the operating system or of OpenSSL.
        case io
    }

    /// The kind of failure.
    package let code: Code
    /// One line with the action, its object, the failure and the next action.
    package let description: String

    package init(_ code: Code, _ description: String) {
        (self.code, self.description) = (code, description)
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
        guard strerror_r(error, &buffer, buffer.count) == 0 else { return "error \(error)" }
        let characters = buffer.prefix { $0 != 0 }.map(UInt8.init(bitPattern:))
        let text = String(decoding: characters, as: UTF8.self)
        return text.prefix(1).lowercased() + text.dropFirst()
    }
}

extension TransportFailure {
    /// Whether another try cannot help until a certificate, a name or a setting changes.
    package var isFinal: Bool {
        switch code {
        case .nameNotFound, .connectionRefused, .unreachable, .timedOut, .reset, .closedEarly,
            .protocolError, .io:
            false
        default: true
        }
    }
}
