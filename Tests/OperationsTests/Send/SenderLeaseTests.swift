import Synchronization
import Testing

@testable import Operations

@Suite("The lease of a sender")
struct SenderLeaseTests {
    private final class Clock: Sendable {
        let now = Mutex(1_000.0)
        func go(_ seconds: Double) { now.withLock { $0 += seconds } }
    }

    @Test("ends after its seconds, is due after a third of them, and is valid again once renewed")
    func course() {
        let clock = Clock()
        let lease = SenderLease(seconds: 30) { [clock.now.withLock { $0 }, 0] }
        lease.hold([1], for: 0)
        #expect(lease.isValid(for: 0) && !lease.isDue)
        clock.go(11)
        #expect(lease.isValid(for: 0) && lease.isDue)
        clock.go(19)
        #expect(!lease.isValid(for: 0))
        lease.renew { [1, 2] }
        #expect(lease.isValid(for: 0) && !lease.isDue && !lease.isLost(for: 0))
    }

    @Test("counts from the beginning of the statement that renews it, however long that takes")
    func slowRenewal() {
        let clock = Clock()
        let lease = SenderLease(seconds: 30) { [clock.now.withLock { $0 }, 0] }
        lease.renew {
            clock.go(29)
            return []
        }
        #expect(lease.isValid(for: 0) && lease.isDue)
        clock.go(1)
        #expect(!lease.isValid(for: 0))
    }

    @Test(
        "after a pause of the machine that only the wall clock shows, the database is asked first")
    func pausedMachine() {
        let wall = Clock()
        let lease = SenderLease(seconds: 30) { [5, wall.now.withLock { $0 }] }
        wall.go(-3_600)
        #expect(lease.isValid(for: 0), "a clock that is set back ends nothing")
        wall.go(3_640)
        #expect(!lease.isValid(for: 0) && lease.isDue)
        lease.renew { [] }
        #expect(lease.isValid(for: 0))
    }

    @Test(
        "is lost to the app of which another sender has a claim, and to no other, until it has left"
    )
    func lost() {
        let lease = SenderLease(seconds: 30)
        lease.hold([1, 2], for: 0)
        lease.hold([3], for: 1)
        lease.renew { [1, 3] }
        #expect(lease.isLost(for: 0) && !lease.isValid(for: 0))
        #expect(!lease.isLost(for: 1) && lease.isValid(for: 1))
        lease.renew { [1, 2, 3] }
        #expect(lease.isLost(for: 0) && lease.isValid(for: 1))
        lease.release(0)
        lease.renew { [3] }
        #expect(!lease.isLost(for: 0) && lease.isValid(for: 0))
    }

    @Test("does not miss a claim whose results are written")
    func settled() {
        let lease = SenderLease(seconds: 30)
        lease.hold([1, 2], for: 0)
        lease.hold([2], for: 0)
        lease.renew { [2] }
        #expect(!lease.isLost(for: 0))
    }
}
