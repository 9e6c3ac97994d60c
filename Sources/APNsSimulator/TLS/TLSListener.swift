import COpenSSL
import Foundation
import Glibc
import SecureTransport

/// A listening TCP socket. Several threads may accept on it at the same time.
package final class TLSListener: Sendable {
    private let descriptor: Int32
    /// The address it listens on, with the port that the system chose.
    package let address: SocketAddress

    /// The result of waiting for a client.
    package enum Outcome: Sendable {
        /// A client, before TLS.
        case connection(AcceptedConnection)
        /// No client connected by the deadline.
        case timedOut
        /// The interrupt was tripped.
        case interrupted
    }

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

    /// Waits for the next client. Throws `io`, for example without free descriptors.
    package func accept(
        deadline: Deadline, interrupt: Interrupt? = nil
    ) throws(TransportFailure) -> Outcome {
        while true {
            switch Poll.wait(descriptor, for: .reading, deadline: deadline, interrupt: interrupt) {
            case .ready: break
            case .timedOut: return .timedOut
            case .interrupted: return .interrupted
            case .failed(let error): throw .system("waiting for clients on \(address)", error)
            }
            if let connection = try acceptWaiting() {
                return .connection(connection)
            }
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
final class ClientAcceptor: Sendable {
    let listener: TLSListener
    private let stopping: Interrupt
    private let clients: RunningThreads
    private let acceptor: WorkerThread

    /// Starts to accept; port 0 takes a free one. `serve` is called on the client's thread with the
    /// client's number, counted from 1, and must return soon after `stopping` was tripped. `refuse`
    /// is called for a client for which no thread can be started.
    init(
        host: String, port: UInt16, stopping: Interrupt,
        serve: @escaping @Sendable (AcceptedConnection, Int) -> Void,
        refuse: @escaping @Sendable (AcceptedConnection, Int, TransportFailure) -> Void
    ) throws(TransportFailure) {
        let listener = try TLSListener(host: host, port: port)
        let clients = RunningThreads()
        (self.listener, self.stopping, self.clients) = (listener, stopping, clients)
        // The thread does not retain self, so the deinit of the owner can end it.
        acceptor = try WorkerThread {
            var number = 0
            while !stopping.isTripped {
                guard let outcome = try? listener.accept(deadline: .never, interrupt: stopping)
                else {
                    // Usually no free descriptor: wait until connections have ended.
                    _ = stopping.wait(until: .in(.milliseconds(50)))
                    continue
                }
                guard case .connection(let client) = outcome else {
                    continue
                }
                number += 1
                let connection = number
                clients.add()
                do throws(TransportFailure) {
                    _ = try WorkerThread {
                        serve(client, connection)
                        clients.remove()
                    }
                } catch {
                    refuse(client, connection, error)
                    clients.remove()
                }
            }
        }
    }

    /// Trips the interrupt and waits for all threads.
    func stop() {
        stopping.trip()
        acceptor.join()
        clients.waitUntilNone()
    }
}

/// Counts running threads; a caller can wait until none runs.
// Unchecked because the compiler cannot see that every access below holds the condition's lock.
final class RunningThreads: @unchecked Sendable {
    private let changed = NSCondition()
    private var running = 0

    /// Counts a thread that starts.
    func add() {
        changed.withLock { running += 1 }
    }

    /// Removes a thread that ends.
    func remove() {
        changed.withLock {
            running -= 1
            changed.broadcast()
        }
    }

    /// Waits until no thread runs.
    func waitUntilNone() {
        changed.withLock {
            while running > 0 {
                changed.wait()
            }
        }
    }
}
