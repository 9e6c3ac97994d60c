import COpenSSL
import Glibc
import Synchronization

/// Wakes every wait that was given it, from any thread or from a signal handler.
///
/// A wait in poll(2) also watches the interrupt's eventfd(2). The descriptor stays readable once
/// tripped, so one trip ends the waits of all threads, now and later; there is no way back.
package final class Interrupt: Sendable {
    /// What poll watches; readable once tripped.
    let descriptor: Int32
    private let tripped = Atomic<Bool>(false)

    /// Makes an interrupt that has not been tripped. Throws `io` when the process is out of
    /// descriptors.
    package init() throws(TransportFailure) {
        descriptor = pushsweep_eventfd()
        guard descriptor >= 0 else {
            throw .system("making an interrupt", errno)
        }
    }

    deinit {
        close(descriptor)
    }

    /// Whether `trip` was called.
    package var isTripped: Bool {
        tripped.load(ordering: .acquiring)
    }

    /// Ends all waits. An atomic store and one write(2), so a signal handler may call it.
    package func trip() {
        tripped.store(true, ordering: .releasing)
        var one: UInt64 = 1
        // EAGAIN means that the counter is full, so the descriptor is readable already.
        _ = write(descriptor, &one, MemoryLayout<UInt64>.size)
    }

    /// Waits until tripped; false when the deadline came first.
    package func wait(until deadline: Deadline) -> Bool {
        if case .ready = Poll.wait(descriptor, for: .reading, deadline: deadline, interrupt: nil) {
            return true
        }
        return false
    }
}
