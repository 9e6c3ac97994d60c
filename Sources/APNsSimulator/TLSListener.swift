import COpenSSL
import Glibc
import SecureTransport
import Synchronization

/// A listening TCP socket. Several threads may accept on it at the same time.
package final class TLSListener: Sendable {
    private let descriptor: Int32
    /// The address it listens on, with the port that the system chose.
    package let address: SocketAddress

    /// Listens on a host of this machine; port 0 takes a free one. Throws `nameNotFound` or `io`.
    package init(host: String = "127.0.0.1", port: UInt16 = 0) throws(TransportFailure) {
        guard let wanted = try NameResolution.resolve(host: host, port: port).first else {
            throw TransportFailure(.nameNotFound, "listening on \(host): it has no address")
        }
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        let descriptor = socket(wanted.family, kind, 0)
        guard descriptor >= 0 else {
            throw .system("opening a socket", errno)
        }
        var one: Int32 = 1
        // A restarted simulator can use its port again while old connections linger.
        setsockopt(
            descriptor, SOL_SOCKET, SO_REUSEADDR, &one, socklen_t(MemoryLayout<Int32>.size))
        guard wanted.withPointer({ bind(descriptor, $0, $1) }) == 0,
            listen(descriptor, 1024) == 0, let bound = SocketAddress.bound(to: descriptor)
        else {
            let error = errno
            close(descriptor)
            throw .system("listening on \(wanted)", error)
        }
        self.descriptor = descriptor
        address = bound
    }

    deinit {
        close(descriptor)
    }

    /// The port it listens on.
    package var port: UInt16 { address.port }

    /// Waits for the next client; nil where the deadline passed or the interrupt was tripped first.
    /// Throws `io`, for example without free descriptors.
    package func accept(
        deadline: Deadline, interrupt: Interrupt? = nil
    ) throws(TransportFailure) -> AcceptedConnection? {
        while true {
            switch Poll.wait(descriptor, for: .reading, deadline: deadline, interrupt: interrupt) {
            case .ready: break
            case .timedOut, .interrupted: return nil
            case .failed(let error): throw .system("waiting for clients on \(address)", error)
            }
            if let client = try acceptWaiting() { return client }
        }
    }

    /// Nil when the client has closed, or another thread has accepted it.
    private func acceptWaiting() throws(TransportFailure) -> AcceptedConnection? {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let (accepted, error, peer) = withUnsafeMutablePointer(to: &storage) { storage in
            storage.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                let accepted = pushsweep_accept(descriptor, address, &length)
                return (accepted, errno, SocketAddress(address, length: length))
            }
        }
        if accepted >= 0 {
            return AcceptedConnection(descriptor: accepted, peer: peer?.description ?? "client")
        }
        switch error {
        // Errors of the connection, not of the listener (accept(2)).
        case EAGAIN, EINTR, ECONNABORTED, EPROTO, ENETDOWN, EHOSTDOWN, ENETUNREACH, EHOSTUNREACH:
            return nil
        default:
            throw .system("accepting a client on \(address)", error)
        }
    }
}

/// Accepts the clients of a listener on one thread, and serves each client on a thread of its own,
/// until it is stopped.
package final class ClientAcceptor: Sendable {
    let listener: TLSListener
    private let stopping: Interrupt
    private let running: Watched<Int>
    private let acceptor: WorkerThread

    /// Starts to accept; port 0 takes a free one. `serve` is called on the client's thread with the
    /// client's number, counted from 1, and must return soon after `stopping` was tripped. A client for
    /// which no thread can be started is reset.
    init(
        host: String, port: UInt16, stopping: Interrupt,
        serve: @escaping @Sendable (AcceptedConnection, Int) -> Void
    ) throws(TransportFailure) {
        let listener = try TLSListener(host: host, port: port)
        let running = Watched(0)
        (self.listener, self.stopping, self.running) = (listener, stopping, running)
        // The thread does not retain self, so the deinit of the owner can end it.
        acceptor = try WorkerThread {
            var number = 0
            while !stopping.isTripped {
                guard let client = try? listener.accept(deadline: .never, interrupt: stopping)
                else {
                    // Usually no free descriptor: wait until connections have ended.
                    _ = stopping.wait(until: .in(.milliseconds(50)))
                    continue
                }
                number += 1
                let connection = number
                running.change { $0 += 1 }
                do throws(TransportFailure) {
                    _ = try WorkerThread {
                        serve(client, connection)
                        running.change { $0 -= 1 }
                    }
                } catch {
                    client.reset()
                    running.change { $0 -= 1 }
                }
            }
        }
    }

    /// Trips the interrupt and waits for all threads.
    func stop() {
        stopping.trip()
        acceptor.join()
        running.wait(until: .never) { $0 == 0 }
    }

    deinit { stop() }
}

/// A gateway on this machine. It serves from its init until `stop` or its deinit. One thread accepts
/// connections, and each connection has a thread of its own.
package protocol LocalGateway: AnyObject, Sendable {
    var acceptor: ClientAcceptor { get }
}

extension LocalGateway {
    /// The address it listens on.
    package var address: SocketAddress { acceptor.listener.address }

    /// The port it listens on.
    package var port: UInt16 { acceptor.listener.port }

    /// Ends all connections and waits for them. What is being sent stays unfinished.
    package func stop() { acceptor.stop() }
}

/// A client's TCP connection before TLS, to be passed to the thread that serves it.
///
/// Usually the next step is `handshake`. A misbehaving gateway sends no byte, sends plaintext or
/// closes instead. The deinit closes a connection that is still open.
package final class AcceptedConnection: Sendable {
    /// -1 after the handshake began or the connection was closed.
    private let descriptor: Mutex<Int32>
    /// The client's address and port.
    package let peer: String

    init(descriptor: Int32, peer: String) {
        self.descriptor = Mutex(descriptor)
        self.peer = peer
    }

    deinit {
        takeSocket()?.close()
    }

    private func takeSocket() -> sending Socket? {
        let taken = descriptor.withLock { descriptor in
            let taken = descriptor
            descriptor = -1
            return taken
        }
        return taken < 0 ? nil : Socket(adopting: taken)
    }

    /// The time limit for a handshake, so that no client blocks a thread for ever.
    package static let usualTimeout = Duration.seconds(30)

    /// Completes the server's side of the handshake within `timeout`.
    ///
    /// Throws like `TLSConnection.accept`, and `io` when this connection was used already.
    package func handshake(
        context: TLSServerContext, timeout: Duration = usualTimeout, interrupt: Interrupt? = nil
    ) throws(TransportFailure) -> TLSConnection {
        guard let socket = takeSocket() else {
            throw TransportFailure(
                .io, "TLS handshake with \(peer): the connection was used already")
        }
        return try .accept(
            socket, context: context.pointer, verifying: context.verifying, peer: peer,
            timeout: timeout, interrupt: interrupt)
    }

    /// Sends bytes without TLS, as many as the socket accepts at once, and returns their number.
    package func sendPlaintext(_ bytes: [UInt8]) -> Int {
        descriptor.withLock { descriptor in
            bytes.withUnsafeBytes { max(0, write(descriptor, $0.baseAddress, $0.count)) }
        }
    }

    /// Reads exactly `count` bytes before TLS, as in protocols with a request for TLS. Nil when the
    /// client closed or the deadline passed before all had arrived. Reads no further byte.
    package func readPlaintext(_ count: Int, deadline: Deadline) -> [UInt8]? {
        let watched = descriptor.withLock { $0 }
        var bytes: [UInt8] = []
        while watched >= 0 && bytes.count < count {
            guard
                case .ready = Poll.wait(watched, for: .reading, deadline: deadline, interrupt: nil)
            else { return nil }
            var rest = [UInt8](repeating: 0, count: count - bytes.count)
            let taken = read(watched, &rest, rest.count)
            guard taken > 0 || errno == EAGAIN || errno == EINTR else { return nil }
            bytes += rest.prefix(max(0, taken))
            guard taken != 0 else { return nil }
        }
        return bytes.count == count ? bytes : nil
    }

    /// Drops the bytes of the client, without an answer, until it closes. True when it closed,
    /// false when the deadline passed or the interrupt was tripped.
    package func staySilent(deadline: Deadline, interrupt: Interrupt? = nil) -> Bool {
        let watched = descriptor.withLock { $0 }
        guard watched >= 0 else {
            return true
        }
        var scratch = [UInt8](repeating: 0, count: 4096)
        while true {
            guard
                case .ready = Poll.wait(
                    watched, for: .reading, deadline: deadline, interrupt: interrupt)
            else {
                return false
            }
            let count = read(watched, &scratch, scratch.count)
            if count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR) {
                return true
            }
        }
    }

    /// Closes with FIN.
    package func close() {
        takeSocket()?.closeWithEnd()
    }

    /// Closes with RST.
    package func reset() {
        takeSocket()?.closeWithReset()
    }
}
