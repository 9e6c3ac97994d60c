// A sender may be stopped for minutes: SIGSTOP, a suspended host, a database that answers late. When it goes on, its
// lease may have ended, and another sender may have decided about its rows. A byte that it gives to TLS then may be
// a second notification. So whoever gives bytes asks first, on every thread. The lease counts from the beginning of
// the statement that renewed it, so it ends here before it ends in the database, and by a clock that goes on while
// the host sleeps (clock_gettime(2), CLOCK_BOOTTIME). In a virtual machine that was paused it stands still, and only
// the wall clock is set; so where that has gone on too far, the database is asked, too.
//
//   valid --time passes--> ended --renewed--> valid, but lost to each app of which a claim is not ours any more
//     ^                                                    |
//     +------------- the app has left its connections -----+

import Glibc
import Synchronization

/// How long the rows of a run are certainly its own. All apps of the run and all their threads share it.
final class SenderLease: Sendable {
    private struct State {
        /// By both clocks.
        var ends: [Double]
        /// The open claims, each with the number of its app in the run.
        var claims: [Int64: Int] = [:]
        var lost: Set<Int> = []
    }

    private let seconds: Double
    private let clocks: @Sendable () -> [Double]
    private let state: Mutex<State>

    /// Seconds of a clock that counts also while the host is suspended, and of the wall clock.
    static func now() -> [Double] {
        [CLOCK_BOOTTIME, CLOCK_REALTIME].map { clock in
            var time = timespec()
            clock_gettime(clock, &time)
            return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
        }
    }

    /// A lease of so many seconds from now, by clocks that are read together.
    init(seconds: Int, clocks: @escaping @Sendable () -> [Double] = SenderLease.now) {
        (self.seconds, self.clocks) = (Double(seconds), clocks)
        state = Mutex(State(ends: clocks().map { $0 + Double(seconds) }))
    }

    private func isBefore(_ ends: [Double], less seconds: Double = 0) -> Bool {
        zip(clocks(), ends).allSatisfy { $0 < $1 - seconds }
    }

    /// Whether the rows of an app are certainly ours.
    func isValid(for app: Int) -> Bool {
        state.withLock { isBefore($0.ends) && !$0.lost.contains(app) }
    }

    /// Whether another sender has rows that an app had claimed.
    func isLost(for app: Int) -> Bool { state.withLock { $0.lost.contains(app) } }

    /// Whether a third of the lease has passed.
    var isDue: Bool { state.withLock { !isBefore($0.ends, less: seconds * 2 / 3) } }

    /// The app has left its connections, and holds none of those claims.
    func release(_ app: Int) {
        state.withLock { state in
            state.claims = state.claims.filter { $0.value != app }
            state.lost.remove(app)
        }
    }

    /// Notes the open claims of an app, in place of those before.
    func hold(_ claims: Set<Int64>, for app: Int) {
        state.withLock { state in
            state.claims = state.claims.filter { $0.value != app }
            for claim in claims { state.claims[claim] = app }
        }
    }

    /// Renews the lease; `renew` does so in the database, and returns the claims that are still ours.
    func renew(_ renew: () throws -> Set<Int64>) rethrows {
        let start = clocks()
        let open = try renew()
        state.withLock { state in
            state.ends = start.map { $0 + seconds }
            for (claim, app) in state.claims where !open.contains(claim) { state.lost.insert(app) }
        }
    }
}
