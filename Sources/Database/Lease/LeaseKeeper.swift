import Foundation

// A run may wait for a silent gateway, sort a large feed or pause for a busy server for longer than
// its lease lasts. So a thread renews the lease, over its own connection, which is opened at the
// first renewal: most runs have ended by then. The thread decides nothing. If it cannot reach the
// database, or finds the lease lost, the next transaction of the run detects that by itself.

/// Renews a lease until `stop`.
package final class LeaseKeeper: Sendable {
    private let stopped = DispatchSemaphore(value: 0)

    /// Starts the thread. It renews after each third of the lease's time.
    package init(_ lease: Lease, _ settings: StoreSettings, pacing: Pacing = Pacing()) {
        let pause = lease.seconds * 1_000 / 3
        let stopped = stopped
        Thread.detachNewThread {
            Self.keep(lease, settings, pacing) {
                stopped.wait(timeout: .now() + .milliseconds(pause)) == .timedOut
            }
        }
    }

    /// Renews whenever `isDue` returns true; ends when it returns false, or when the lease is lost.
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

    /// Ends the renewing. Does not wait for a renewal in progress, which finds no row after the
    /// lease is given back.
    package func stop() { stopped.signal() }
}
