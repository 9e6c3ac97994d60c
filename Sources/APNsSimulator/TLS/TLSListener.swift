import COpenSSL
import Foundation
import Glibc
import SecureTransport

/// A listening TCP socket. Threads may accept on it at the same time.
package final class TLSListener: Sendable {
    private let descriptor: Int32
    /// Where it listens, with the port that the system chose.
    package let address: SocketAddress

    /// What waiting for a client brought.
    package enum Outcome: Sendable {
        /// A client, TLS not begun.
        case connection(AcceptedConnection)
        /// Nobody came by the deadline.
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
        // A restarted simulator gets its port back while old connections linger.
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

    /// Waits for the next client. Throws `io`, for one when descriptors ran out.
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

    /// Nil when the client left, or another thread took it.
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

/// Where a listener's clients arrive: one thread accepts, and each client is served on its own,
/// until stopped.
final class Reception: Sendable {
    let listener: TLSListener
    private let stopping: Interrupt
    private let workers: WorkerCount
    private let acceptor: WorkerThread

    /// Begins to accept; port 0 takes a free one. `serve` is called on the client's thread with its
    /// number, counted from 1, and is to return soon after `stopping` was tripped; `turnAway` is
    /// called for a client for which there is no thread. Throws `TransportFailure`.
    init(
        host: String, port: UInt16, stopping: Interrupt,
        serve: @escaping @Sendable (AcceptedConnection, Int) -> Void,
        turnAway: @escaping @Sendable (AcceptedConnection, Int, TransportFailure) -> Void
    ) throws(TransportFailure) {
        let listener = try TLSListener(host: host, port: port)
        let workers = WorkerCount()
        (self.listener, self.stopping, self.workers) = (listener, stopping, workers)
        // Holds none of self, so that dropping the owner ends the thread.
        acceptor = try WorkerThread {
            var number = 0
            while !stopping.isTripped {
                guard let outcome = try? listener.accept(deadline: .never, interrupt: stopping)
                else {
                    // Out of descriptors, most likely: give connections time to end.
                    _ = stopping.wait(until: .in(.milliseconds(50)))
                    continue
                }
                guard case .connection(let client) = outcome else {
                    continue
                }
                number += 1
                let connection = number
                workers.began()
                do throws(TransportFailure) {
                    _ = try WorkerThread {
                        serve(client, connection)
                        workers.left()
                    }
                } catch {
                    turnAway(client, connection, error)
                    workers.left()
                }
            }
        }
    }

    /// Trips the interrupt and waits for all threads.
    func stop() {
        stopping.trip()
        acceptor.join()
        workers.waitUntilIdle()
    }
}

/// The number of connection threads at work, to be waited on.
// Unchecked because the compiler cannot see that every access below holds the condition's lock.
final class WorkerCount: @unchecked Sendable {
    private let changed = NSCondition()
    private var working = 0

    /// A thread is about to start.
    func began() {
        changed.withLock { working += 1 }
    }

    /// A thread is about to end.
    func left() {
        changed.withLock {
            working -= 1
            changed.broadcast()
        }
    }

    /// Waits until none is at work.
    func waitUntilIdle() {
        changed.withLock {
            while working > 0 {
                changed.wait()
            }
        }
    }
}
