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

    deinit {
        close()
    }

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
    func endSending() {
        shutdown(descriptor, Int32(SHUT_WR))
    }

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
        guard descriptor >= 0 else {
            throw .system("opening a socket for \(peer)", errno)
        }
        let socket = Socket(adopting: descriptor)
        let result = address.withPointer { Glibc.connect(descriptor, $0, $1) }
        // After EINTR the connection continues, as after EINPROGRESS (connect(2)).
        if result == 0 {
            return socket
        }
        guard errno == EINPROGRESS || errno == EINTR else {
            throw refusal(errno, peer)
        }
        switch Poll.wait(descriptor, for: .writing, deadline: deadline, interrupt: interrupt) {
        case .ready:
            break
        case .timedOut:
            throw .timedOut(.connect, with: peer)
        case .interrupted:
            throw .interrupted(while: "connecting to \(peer)")
        case .failed(let error):
            throw .system("waiting to connect to \(peer)", error)
        }
        var error: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length)
        guard error == 0 else {
            throw refusal(error, peer)
        }
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
            .timedOut(.connect, with: peer)
        case ECONNRESET:
            TransportFailure(
                .reset, "\(action): the peer reset the connection; check what listens there")
        default:
            .system(action, error)
        }
    }
}
