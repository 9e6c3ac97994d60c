import Glibc
import Synchronization

/// A thread of its own for one connection.
///
/// Connections block in poll, so they must not run on Swift's cooperative pool, whose few threads
/// have to make progress for everyone.
package final class WorkerThread: Sendable {
    private let handle: Mutex<pthread_t?>

    private final class Body: Sendable {
        let run: @Sendable () -> Void

        init(_ run: @escaping @Sendable () -> Void) {
            self.run = run
        }
    }

    /// Starts `body` on a new thread. Throws `io` when the system has none left
    /// (pthread_create(3)).
    package init(_ body: @escaping @Sendable () -> Void) throws(TransportFailure) {
        let box = Unmanaged.passRetained(Body(body))
        var thread = pthread_t()
        let result = pthread_create(
            &thread, nil,
            { argument in
                if let argument {
                    Unmanaged<Body>.fromOpaque(argument).takeRetainedValue().run()
                }
                return nil
            }, box.toOpaque())
        guard result == 0 else {
            box.release()
            throw .system("starting a thread for a connection", result)
        }
        handle = Mutex(thread)
    }

    deinit {
        if let thread = handle.withLock({ $0 }) {
            pthread_detach(thread)
        }
    }

    /// Waits until the body has returned. The second call returns at once.
    package func join() {
        let thread = handle.withLock { handle in
            let taken = handle
            handle = nil
            return taken
        }
        if let thread {
            pthread_join(thread, nil)
        }
    }
}
