// The mailbox between the thread that reads the queue and those that hold connections.
// Notifications go one way and outcomes the other, both in batches, because waking a thread costs
// as much as sending a notification. A thread that finds several batches takes all of them.

import Dispatch
import Synchronization

/// The state that the threads of one provider share.
final class ProviderMailbox: Sendable {
    private struct State {
        var waiting: [ProviderItem] = []
        /// The number of leading elements of `waiting` that are already taken.
        var taken = 0
        var outcomes: [ProviderOutcome] = []
        var isStopping = false
        var failure: ProviderFailure?
        var workers = 0
        /// The number of workers that gave up connecting and have had no answer since.
        var resting = 0
    }

    private let state = Mutex(State())
    private let itemsReady = DispatchSemaphore(value: 0)
    private let outcomesReady = DispatchSemaphore(value: 0)

    /// Registers the thread of a connection.
    func enter() { state.withLock { $0.workers += 1 } }

    /// Removes the thread of a connection, with the failure that ended it.
    func leave(_ failure: ProviderFailure?) {
        state.withLock {
            $0.workers -= 1
            $0.failure = $0.failure ?? failure
        }
        outcomesReady.signal()
    }

    /// Lets a connection's thread wait while others work; false if all others wait or have ended. A
    /// thread that `isResting` has had no answer since its last rest, so it counts as waiting while
    /// it tries again. Otherwise two threads that wait in turn would never end.
    func rest(isResting: Bool) -> Bool {
        state.withLock { state in
            let resting = state.resting + (isResting ? 0 : 1)
            guard resting < state.workers else { return false }
            state.resting = resting
            return true
        }
    }

    /// Ends the rest of a thread that has an answer, or that ends.
    func resume() { state.withLock { $0.resting -= 1 } }

    /// For the caller: adds notifications.
    func give(_ items: [ProviderItem]) {
        let workers = state.withLock { state in
            // Taken elements are removed as soon as they are half of the list. So the list stays as
            // long as the waiting ones, and moving the rest costs each notification one move.
            if state.taken >= state.waiting.count / 2 {
                state.waiting.removeFirst(state.taken)
                state.taken = 0
            }
            state.waiting += items
            return max(1, state.workers)
        }
        for _ in 0..<min(workers, items.count) { itemsReady.signal() }
    }

    /// For the caller: removes and returns the notifications that no connection has taken.
    func withdraw() -> [ProviderItem] {
        state.withLock { state in
            defer {
                state.waiting = []
                state.taken = 0
            }
            return Array(state.waiting[state.taken...])
        }
    }

    /// For the caller: declares that no more notifications follow; the threads end when nothing is
    /// in flight.
    func stop() {
        let workers = state.withLock { state in
            state.isStopping = true
            return state.workers
        }
        for _ in 0..<max(1, workers) { itemsReady.signal() }
    }

    /// For the caller: waits for outcomes; empty when the time ran out or a thread ended.
    func outcomes(within milliseconds: Int) -> [ProviderOutcome] {
        let ready = take()
        if !ready.isEmpty || milliseconds <= 0 { return ready }
        _ = outcomesReady.wait(timeout: .now() + .milliseconds(milliseconds))
        return take()
    }

    private func take() -> [ProviderOutcome] {
        state.withLock { state in
            guard !state.outcomes.isEmpty else { return [] }
            defer { state.outcomes.removeAll(keepingCapacity: false) }
            return state.outcomes
        }
    }

    /// The failure that ended the threads; nil while one of them works.
    var failure: ProviderFailure? {
        state.withLock { $0.workers == $0.resting ? $0.failure : nil }
    }

    /// For a connection: the number of waiting notifications.
    var count: Int { state.withLock { $0.waiting.count - $0.taken } }

    /// Whether the caller has called `stop`.
    var isStopping: Bool { state.withLock { $0.isStopping } }

    /// For a connection: takes notifications, at most `limit`.
    func take(_ limit: Int) -> [ProviderItem] {
        guard limit > 0 else { return [] }
        return state.withLock { state in
            let end = min(state.waiting.count, state.taken + limit)
            defer {
                state.taken = end
                // Taken notifications and their payloads leave the mailbox.
                if end == state.waiting.count { (state.waiting, state.taken) = ([], 0) }
            }
            return Array(state.waiting[state.taken..<end])
        }
    }

    /// For a connection without work: waits until there may be some.
    func awaitItems(within milliseconds: Int) {
        _ = itemsReady.wait(timeout: .now() + .milliseconds(milliseconds))
    }

    /// For a connection: passes outcomes to the caller.
    func deliver(_ outcomes: [ProviderOutcome]) {
        guard !outcomes.isEmpty else { return }
        let wasEmpty = state.withLock { state in
            defer { state.outcomes += outcomes }
            return state.outcomes.isEmpty
        }
        if wasEmpty { outcomesReady.signal() }
    }
}
