import COpenSSL
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

private let ignored: Void = {
    signal(SIGPIPE, SIG_IGN)
}()

/// Makes a write to a closed connection an error instead of the end of the process.
///
/// OpenSSL writes with write(2), which has no MSG_NOSIGNAL, so SIGPIPE is ignored for the whole
/// process (signal(7)). Both contexts call this; calling it again changes nothing.
package func ignoreBrokenPipes() {
    _ = ignored
}

// The memory of a run holds private keys, the database password and whole tokens, and a core file
// would hold them too, readable long after the run. Two locks, since each leaves a gap: a limit of
// zero bytes keeps the kernel from writing a core file, but not from handing the image to a program
// such as systemd-coredump; a process that is not dumpable is handed to nobody, and other processes
// of the user cannot attach to it or read its environment, where the password may stand.

/// Keeps the kernel from writing or handing out this process's memory after a crash. Where it cannot
/// be done the run goes on: it would be no safer for not running.
///
/// Source: core(5), prctl(2) PR_SET_DUMPABLE.
package func forbidCoreDumps() {
    var limit = rlimit(rlim_cur: 0, rlim_max: 0)
    _ = setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit)
    _ = pushsweep_forbid_dumps()
}
