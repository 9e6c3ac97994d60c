import Foundation

// A run may wait for a silent gateway, sort a large feed or pause for a busy server longer than its
// lease lasts. So a thread renews it, over a connection of its own that is opened when it is first
// needed: most runs are over by then. It decides nothing. If it cannot reach the database, or finds
// the lease lost, the next transaction of the run finds out by itself.

/// Renews a lease until told to stop.
package final class LeaseKeeper: Sendable {
    private let stopped = DispatchSemaphore(value: 0)

    /// Starts renewing, three times as often as would do.
    package init(_ lease: Lease, _ settings: StoreSettings, pacing: Pacing = Pacing()) {
        let pause = lease.seconds * 1_000 / 3
        let stopped = stopped
        Thread.detachNewThread {
            Self.keep(lease, settings, pacing) {
                stopped.wait(timeout: .now() + .milliseconds(pause)) == .timedOut
            }
        }
    }

    /// Renews whenever `isDue` comes back with true; ends with its false, or when the lease is lost.
    static func keep(
        _ lease: Lease, _ settings: StoreSettings, _ pacing: Pacing, isDue: () -> Bool
    ) {
        var store: DatabaseSession?
        while isDue() {
            do throws(StoreFailure) {
                if store == nil { store = try DatabaseSession(settings, pacing: pacing) }
                try store?.renew(lease)
            } catch {
                if error.reason == .lease { return }
                store = nil
            }
        }
    }

    /// Ends the renewing. Does not wait for a renewal that is on its way: it finds nothing to renew
    /// once the lease is given back.
    package func stop() { stopped.signal() }
}
