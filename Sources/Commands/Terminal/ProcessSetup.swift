// SIGTERM and SIGINT ask the run to finish its chunk, record it and end. A run that waits for a
// stopped database cannot react, so a second thread ends the process after 4.5 seconds; later for a
// sender that has to wait for a gateway's silence. All bytes
// read are in the journal by then, and the server rolls an open transaction back.

import Glibc
import Operations
import SecureTransport
import Synchronization

/// Turns stop signals into the interrupt that every wait of the run watches.
enum StopSignals {
    /// The most time in milliseconds that a run may take to end by itself.
    private static let longestShutdown = Atomic<Int>(4_500)

    /// Gives a run more time to end by itself.
    static func extendShutdown(to time: Duration) {
        let milliseconds = Int(time / .milliseconds(1))
        if milliseconds > longestShutdown.load(ordering: .relaxed) {
            longestShutdown.store(milliseconds, ordering: .relaxed)
        }
    }

    // Set once, before the handlers are installed, and only read afterwards.
    nonisolated(unsafe) private static var interrupt: Interrupt?

    private static let isOver = Atomic<Bool>(false)

    /// Says that the run is recorded and its result printed. From then on a stop signal ends the
    /// process no longer: what follows has its own limit of time, and the exit code is known.
    static func runHasEnded() { isOver.store(true, ordering: .relaxed) }

    /// Whether the caller wants a signal ignored, as nohup(1) does with SIGHUP.
    private static func isIgnored(_ number: Int32) -> Bool {
        var action = sigaction()
        sigaction(number, nil, &action)
        return unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self) == 1
    }

    /// A thread of the parent may have blocked these signals, and its child inherits that.
    private static func unblock() {
        var mask = sigset_t()
        sigemptyset(&mask)
        for number in [SIGTERM, SIGINT, SIGHUP] { sigaddset(&mask, number) }
        sigprocmask(SIG_UNBLOCK, &mask, nil)
    }

    /// Installs the handlers and returns the interrupt that they trip.
    static func install() throws -> Interrupt {
        let made = try Interrupt()
        interrupt = made
        for number in [SIGTERM, SIGINT, SIGHUP] where !isIgnored(number) {
            signal(number) { _ in StopSignals.interrupt?.trip() }
        }
        unblock()
        let never = try Interrupt()
        _ = try WorkerThread {
            _ = made.wait(until: .never)
            _ = never.wait(
                until: .in(.milliseconds(longestShutdown.load(ordering: .relaxed))))
            guard !isOver.load(ordering: .relaxed) else { return }
            StandardStreams.message(
                "pushsweep: error: told to stop, but the database or gateway did not answer in "
                    + "time; what is in the journal is kept, run again to continue")
            StandardStreams.message(
                "code=\(ExitStatus.pending.rawValue) stage=stopped pending=unknown applied=unknown "
                    + "held=unknown next=rerun", .copied)
            _exit(ExitStatus.pending.rawValue)
        }
        return made
    }
}

/// Limits of the system that a job needs.
enum Limits {
    /// The least number of files that may be open at once. A sweep has a dozen open. When another
    /// cannot be opened, libraries may end the process without a message.
    private static let files: rlim_t = 32

    /// Raises the limit of open files for a job.
    ///
    /// - Throws: a failure of the configuration, when even the hard limit is too low.
    static func ensure() throws(RunFailure) {
        // A file that reached its size limit must cause an error message, and not the end of the
        // process.
        signal(SIGXFSZ, SIG_IGN)
        var limit = rlimit()
        let kind = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        guard getrlimit(kind, &limit) == 0, limit.rlim_cur < files else { return }
        let given = limit.rlim_cur
        limit.rlim_cur = min(files, limit.rlim_max)
        guard setrlimit(kind, &limit) == 0, limit.rlim_cur == files else {
            throw RunFailure(
                .configuration, .settings,
                "starting: only \(given) files may be open at once, and \(files) are needed; raise "
                    + "the limit (ulimit -n, LimitNOFILE)")
        }
    }
}
