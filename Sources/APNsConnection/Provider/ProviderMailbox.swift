// Between the thread that reads the queue and those that hold connections: notifications go one
// way, outcomes the other, both in batches, because waking a thread costs as much as sending a
// notification. Whoever finds more than one batch waiting takes all of it.

import Dispatch
import Synchronization

/// What the threads of one provider share.
final class ProviderMailbox: Sendable {
    private struct State {
        var waiting: [ProviderItem] = []
        /// Of `waiting`, those taken already.
        var taken = 0
        var outcomes: [ProviderOutcome] = []
        var isStopping = false
        var failure: ProviderFailure?
        var workers = 0
        /// Of the workers, those that gave up connecting and have had no answer since.
        var resting = 0
    }

    private let state = Mutex(State())
    private let itemsReady = DispatchSemaphore(value: 0)
    private let outcomesReady = DispatchSemaphore(value: 0)

    /// A connection's thread begins.
    func enter() { state.withLock { $0.workers += 1 } }

    /// A connection's thread ends, with the failure that ended it.
    func leave(_ failure: ProviderFailure?) {
        state.withLock {
            $0.workers -= 1
            $0.failure = $0.failure ?? failure
        }
        outcomesReady.signal()
    }

    /// A connection's thread waits while others go on; false if all others wait or have ended. One that
    /// `isResting` already has had no answer since, so it counts as waiting while it tries again: two
    /// that wait by turns would otherwise go on for ever.
    func rest(isResting: Bool) -> Bool {
        state.withLock { state in
            let resting = state.resting + (isResting ? 0 : 1)
            guard resting < state.workers else { return false }
            state.resting = resting
            return true
        }
    }

    /// A thread that rested has an answer, or ends.
    func resume() { state.withLock { $0.resting -= 1 } }

    /// For the caller: gives notifications.
    func give(_ items: [ProviderItem]) {
        let workers = state.withLock { state in
            // What was taken goes as soon as that is half of it, so the list stays as long as what
            // waits, and moving the rest costs each notification one move.
            if state.taken >= state.waiting.count / 2 {
                state.waiting.removeFirst(state.taken)
                state.taken = 0
            }
            state.waiting += items
            return max(1, state.workers)
        }
        for _ in 0..<min(workers, items.count) { itemsReady.signal() }
    }

    /// For the caller: takes back what no connection has taken.
    func withdraw() -> [ProviderItem] {
        state.withLock { state in
            defer {
                state.waiting = []
                state.taken = 0
            }
            return Array(state.waiting[state.taken...])
        }
    }

    /// For the caller: no more will be given; the threads end when nothing is in flight.
    func stop() {
        let workers = state.withLock { state in
            state.isStopping = true
            return state.workers
        }
        for _ in 0..<max(1, workers) { itemsReady.signal() }
    }

    /// For the caller: waits for outcomes; empty when the time came first or a thread ended.
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

    /// Why the threads ended, once none goes on.
    var failure: ProviderFailure? {
        state.withLock { $0.workers == $0.resting ? $0.failure : nil }
    }

    /// For a connection: how many notifications wait.
    var count: Int { state.withLock { $0.waiting.count - $0.taken } }

    /// Whether the threads shall end.
    var isStopping: Bool { state.withLock { $0.isStopping } }

    /// For a connection: takes at most so many notifications.
    func take(_ limit: Int) -> [ProviderItem] {
        guard limit > 0 else { return [] }
        return state.withLock { state in
            let end = min(state.waiting.count, state.taken + limit)
            defer {
                state.taken = end
                // What was taken is nobody's here any more, nor are its payloads.
                if end == state.waiting.count { (state.waiting, state.taken) = ([], 0) }
            }
            return Array(state.waiting[state.taken..<end])
        }
    }

    /// For a connection with nothing to do: waits until there may be something.
    func awaitItems(within milliseconds: Int) {
        _ = itemsReady.wait(timeout: .now() + .milliseconds(milliseconds))
    }

    /// For a connection: hands outcomes over.
    func deliver(_ outcomes: [ProviderOutcome]) {
        guard !outcomes.isEmpty else { return }
        let wasEmpty = state.withLock { state in
            defer { state.outcomes += outcomes }
            return state.outcomes.isEmpty
        }
        if wasEmpty { outcomesReady.signal() }
    }
}
