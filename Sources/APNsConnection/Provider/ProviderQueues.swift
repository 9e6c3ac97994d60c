// Two queues between the thread that reads push_queue and the threads of the connections: one of
// notifications and one of outcomes. Both work in batches, because waking a thread costs as much as
// sending a notification. A thread that finds several batches takes all of them.

import Dispatch
import Synchronization

/// The queues of one provider, and the state of its threads.
final class ProviderQueues: Sendable {
    private struct State {
        /// The lists as the caller gave them, so that no notification is copied.
        var waiting: [ArraySlice<ProviderNotification>] = []
        /// The number of leading lists of `waiting` that are already taken.
        var taken = 0
        /// The number of notifications in the other ones.
        var count = 0
        var outcomes: [ProviderOutcome] = []
        var isStopping = false
        var failure: ProviderFailure?
        /// The number of threads with a connection.
        var threads = 0
        /// The number of threads that gave up connecting and have had no answer since.
        var resting = 0
        /// Whether a connection was made, now or before.
        var hasConnected = false
    }

    private let state: Mutex<State>
    private let notificationsReady = DispatchSemaphore(value: 0)
    private let outcomesReady = DispatchSemaphore(value: 0)

    /// Makes empty queues; `hasConnected` says whether a connection was made before.
    init(hasConnected: Bool = false) { state = Mutex(State(hasConnected: hasConnected)) }

    /// Whether a connection with these settings was made in this run.
    var hasConnected: Bool { state.withLock { $0.hasConnected } }

    /// Notes that a connection was made.
    func noteConnected() { state.withLock { $0.hasConnected = true } }

    /// Counts the thread of a connection.
    func addThread() { state.withLock { $0.threads += 1 } }

    /// Removes the thread of a connection, with the failure that ended it.
    func removeThread(_ failure: ProviderFailure?) {
        state.withLock {
            $0.threads -= 1
            $0.failure = $0.failure ?? failure
        }
        outcomesReady.signal()
    }

    /// Lets a connection's thread wait while others work; false if all others wait or have ended. A
    /// thread that `isResting` has had no answer since its last rest, so it counts as waiting while
    /// it tries again. Otherwise two threads that wait in turn would never end.
    func beginRest(isResting: Bool) -> Bool {
        state.withLock { state in
            let resting = state.resting + (isResting ? 0 : 1)
            guard resting < state.threads else { return false }
            state.resting = resting
            return true
        }
    }

    /// Ends the rest of a thread that has an answer, or that ends.
    func endRest() { state.withLock { $0.resting -= 1 } }

    /// For the caller: adds notifications.
    func add(_ notifications: [ProviderNotification]) {
        guard !notifications.isEmpty else { return }
        let threads = state.withLock { state in
            // Taken lists are removed as soon as they are half of all, so each list moves once.
            if state.taken > state.waiting.count / 2 {
                state.waiting.removeFirst(state.taken)
                state.taken = 0
            }
            state.waiting.append(notifications[...])
            state.count += notifications.count
            return max(1, state.threads)
        }
        for _ in 0..<min(threads, notifications.count) { notificationsReady.signal() }
    }

    /// For the caller: removes and returns the notifications that no connection has taken.
    func withdraw() -> [ProviderNotification] {
        state.withLock { state in
            defer { (state.waiting, state.taken, state.count) = ([], 0, 0) }
            return Array(state.waiting[state.taken...].joined())
        }
    }

    /// For the caller: declares that no more notifications follow; the threads end when nothing is
    /// in flight.
    func stop() {
        let threads = state.withLock { state in
            state.isStopping = true
            return state.threads
        }
        for _ in 0..<max(1, threads) { notificationsReady.signal() }
    }

    /// For the caller: waits for outcomes; empty when the time ran out or a thread ended.
    func outcomes(within milliseconds: Int) -> [ProviderOutcome] {
        let ready = takeOutcomes()
        if !ready.isEmpty || milliseconds <= 0 { return ready }
        _ = outcomesReady.wait(timeout: .now() + .milliseconds(milliseconds))
        return takeOutcomes()
    }

    private func takeOutcomes() -> [ProviderOutcome] {
        state.withLock { state in
            guard !state.outcomes.isEmpty else { return [] }
            defer { state.outcomes.removeAll(keepingCapacity: false) }
            return state.outcomes
        }
    }

    /// The failure that ended the threads; nil while one of them works.
    var failure: ProviderFailure? {
        state.withLock { $0.threads == $0.resting ? $0.failure : nil }
    }

    /// For a connection: the number of waiting notifications.
    var count: Int { state.withLock { $0.count } }

    /// Whether the caller has called `stop`.
    var isStopping: Bool { state.withLock { $0.isStopping } }

    /// For a connection: takes the next notifications of one list, at most `limit`; more may wait.
    /// Empty when none waits.
    func takeNotifications(_ limit: Int) -> ArraySlice<ProviderNotification> {
        guard limit > 0 else { return [] }
        return state.withLock { state in
            guard state.taken < state.waiting.count else { return [] }
            let list = state.waiting[state.taken]
            let part = list.prefix(limit)
            // Taken notifications and their payloads leave the queue.
            state.waiting[state.taken] = list[part.endIndex...]
            if part.count == list.count {
                state.waiting[state.taken] = []
                state.taken += 1
                if state.taken == state.waiting.count { (state.waiting, state.taken) = ([], 0) }
            }
            state.count -= part.count
            return part
        }
    }

    /// For a connection without work: waits until there may be notifications.
    func awaitNotifications(within milliseconds: Int) {
        _ = notificationsReady.wait(timeout: .now() + .milliseconds(milliseconds))
    }

    /// For a connection: passes outcomes to the caller.
    func deliver(_ outcomes: [ProviderOutcome]) {
        guard !outcomes.isEmpty else { return }
        let wasEmpty = state.withLock { state in
            guard state.outcomes.isEmpty else {
                state.outcomes += outcomes
                return false
            }
            state.outcomes = outcomes
            return true
        }
        if wasEmpty { outcomesReady.signal() }
    }
}
