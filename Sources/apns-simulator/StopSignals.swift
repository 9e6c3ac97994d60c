import Glibc
import SecureTransport

/// Turns SIGTERM and SIGINT into a tripped interrupt.
enum StopSignals {
    /// From now on the signals trip `stop` instead of ending the process.
    ///
    /// A thread waits for them with sigwait(3), so no code runs inside a signal handler. Call
    /// before any other thread starts: threads inherit the mask that keeps the signals for it.
    static func trip(_ stop: Interrupt) throws(TransportFailure) {
        var blocked = signals
        pthread_sigmask(SIG_BLOCK, &blocked, nil)
        _ = try WorkerThread {
            var awaited = signals
            var received: Int32 = 0
            sigwait(&awaited, &received)
            stop.trip()
        }
    }

    private static var signals: sigset_t {
        var set = sigset_t()
        sigemptyset(&set)
        sigaddset(&set, SIGTERM)
        sigaddset(&set, SIGINT)
        return set
    }
}
