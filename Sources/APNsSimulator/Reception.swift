import SecureTransport

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
