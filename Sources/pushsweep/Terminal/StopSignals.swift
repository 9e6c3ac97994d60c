// SIGTERM and SIGINT ask the run to finish its chunk, record it and end. A run that waits for a
// stopped database cannot react, so a second thread ends the process after 4.5 seconds. All bytes
// read are in the journal by then, and the server rolls an open transaction back.

import Glibc
import Operations
import SecureTransport

/// Turns stop signals into the interrupt that every wait of the run watches.
enum StopSignals {
    /// The most time that a run may take to end by itself.
    private static let longestShutdown = Duration.milliseconds(4_500)

    // Set once, before the handlers are installed, and only read afterwards.
    nonisolated(unsafe) private static var interrupt: Interrupt?

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
            _ = never.wait(until: .in(longestShutdown))
            StandardStreams.story(
                "pushsweep: error: told to stop, but the database or gateway did not answer in "
                    + "time; what was read is in the journal, run again to continue")
            StandardStreams.story(
                "code=\(ExitStatus.pending.rawValue) stage=stopped pending=unknown applied=unknown "
                    + "held=unknown next=rerun")
            _exit(ExitStatus.pending.rawValue)
        }
        return made
    }
}
