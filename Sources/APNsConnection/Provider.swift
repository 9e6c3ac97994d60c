import APNsProtocol
import Dispatch
import SecureTransport
import Synchronization

// A gateway as a sender uses it: notifications in, outcomes out. Each notification has the caller's key and
// gets exactly one outcome, even when connections fail. It consists of two queues and a few threads, each
// with its own connection.

/// The connections to one gateway under one credential.
package final class Provider: Sendable {
    package let plan: ProviderPlan
    private let queues: ProviderQueues
    private let interrupt: Interrupt
    private let threads: [WorkerThread]

    /// Starts the threads. A thread connects when there is a notification to send. `hasConnected` is that
    /// of the gateway which this one replaces. While `mayGive` says no, no byte is given to TLS; it is asked from
    /// each thread.
    ///
    /// - Throws: `io` where no thread can be started.
    package init(
        _ plan: ProviderPlan, hasConnected: Bool = false,
        mayGive: @escaping @Sendable () -> Bool = { true }
    ) throws(TransportFailure) {
        let interrupt = try Interrupt()
        let queues = ProviderQueues(hasConnected: hasConnected, mayGive: mayGive)
        var count = 1
        if case .http2(_, let connections) = plan.interface { count = max(1, connections) }
        var threads: [WorkerThread] = []
        for _ in 0..<count {
            queues.addThread()
            do throws(TransportFailure) {
                threads.append(
                    try WorkerThread { queues.removeThread(Self.work(plan, queues, interrupt)) })
            } catch {
                queues.removeThread(nil)
                queues.stop()
                interrupt.trip()
                for thread in threads { thread.join() }
                throw error
            }
        }
        (self.plan, self.queues, self.interrupt, self.threads) = (plan, queues, interrupt, threads)
    }

    private static func work(
        _ plan: ProviderPlan, _ queues: ProviderQueues, _ interrupt: Interrupt
    ) -> ProviderFailure? {
        if let command = plan.command {
            var connection = BinaryConnection(plan, command, queues, interrupt)
            return connection.run()
        }
        var connection = ProviderConnection(plan, queues, interrupt)
        return connection.run()
    }

    /// Passes notifications to the connections. Their keys must differ from those of all
    /// notifications without an outcome.
    package func submit(_ notifications: [PushNotification]) { queues.add(notifications) }

    /// Waits for outcomes; empty when `milliseconds` pass without one.
    package func outcomes(within milliseconds: Int) -> [ProviderOutcome] {
        queues.outcomes(within: milliseconds)
    }

    /// How many notifications the connections would have on the wire at once now: the streams that they use, or
    /// may use once they are open; over the binary interface the frames whose fate may be open.
    package var streams: Int { queues.streams }

    /// Removes and returns the notifications that no connection has taken.
    package func withdraw() -> [PushNotification] { queues.withdraw() }

    /// The reason why no connection works; nil while one does.
    package var failure: ProviderFailure? { queues.failure }

    /// Whether a connection with these settings was made in this run.
    package var hasConnected: Bool { queues.hasConnected }

    /// Notifications that were called accepted and that a late error packet proved dropped. Always 0
    /// over HTTP/2, where each notification has its answer.
    package var settledTooEarly: Int { queues.settledTooEarly }

    /// Ends all connections: orderly once nothing is in flight, or immediately with `abruptly`.
    /// Afterwards every notification that was not withdrawn has its outcome.
    package func stop(abruptly: Bool = false) {
        queues.stop()
        if abruptly { interrupt.trip() }
        for thread in threads { thread.join() }
    }
}

/// The outcome of one notification.
package struct ProviderOutcome: Hashable, Sendable {
    /// What the gateway made known of it; only `answered` and `refusedBinary` are about the token.
    package enum Kind: Hashable, Sendable {
        /// APNs answered over HTTP/2.
        case answered(ProviderAnswer)
        /// The binary interface took it: silence or a later identifier confirmed that.
        case accepted
        /// The binary interface refused it with this status.
        case refusedBinary(BinaryStatus)
        /// It was not sent: the gateway would have refused it for this reason.
        case unsendable(String)
        /// It was on the wire and got no answer, so its outcome is unknown; the value is the reason
        /// as a short clause.
        case unknown(String)
        /// It was on the wire, and in place of an answer the gateway broke HTTP/2; the value is the
        /// breach as a short clause.
        case garbled(String)
        /// The gateway took it whole at no try, and did not process it; the value is how, as a short clause.
        case refused(String)
        /// It certainly was not processed, whatever the number of tries.
        case untouched
    }

    /// The key from `PushNotification`.
    package let key: UInt64
    package let kind: Kind
}

/// The header values of notifications, checked once for neighbours that share them.
struct AttributeReader {
    let topic: String
    private var last: (headers: NotificationHeaders, attributes: NotificationAttributes)?

    init(_ topic: String) { self.topic = topic }

    /// Checks a notification that APNs would certainly refuse.
    mutating func attributes(
        of notification: PushNotification
    ) throws(RequestRefusal) -> NotificationAttributes {
        let attributes: NotificationAttributes
        if let last, last.headers == notification.headers {
            attributes = last.attributes
        } else {
            attributes = try NotificationAttributes(bundleID: topic, notification.headers)
            last = (notification.headers, attributes)
        }
        try attributes.checkPayload(bytes: notification.payload.count)
        return attributes
    }
}

/// The queues between the caller and the threads, and the state of the threads. Both work in batches,
/// because waking a thread costs as much as sending a notification. A thread that finds several batches
/// takes all of them.
final class ProviderQueues: Sendable {
    private struct State {
        /// The lists as the caller gave them, so that no notification is copied.
        var waiting: [ArraySlice<PushNotification>] = []
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
        var settledTooEarly = 0
        /// The streams of all connections together.
        var streams = 0
    }

    private let state: Mutex<State>
    private let notificationsReady = DispatchSemaphore(value: 0)
    private let outcomesReady = DispatchSemaphore(value: 0)

    /// Whether what waits may be given to TLS now.
    let mayGive: @Sendable () -> Bool

    /// Makes empty queues; `hasConnected` says whether a connection was made before.
    init(hasConnected: Bool = false, mayGive: @escaping @Sendable () -> Bool = { true }) {
        state = Mutex(State(hasConnected: hasConnected))
        self.mayGive = mayGive
    }

    /// The streams of all connections together.
    var streams: Int { state.withLock { $0.streams } }

    /// For a connection: its streams are `more` more than it said before.
    func addStreams(_ more: Int) {
        if more != 0 { state.withLock { $0.streams += more } }
    }

    /// Whether a connection with these settings was made in this run.
    var hasConnected: Bool { state.withLock { $0.hasConnected } }

    /// Notes that a connection was made.
    func noteConnected() { state.withLock { $0.hasConnected = true } }

    var settledTooEarly: Int { state.withLock { $0.settledTooEarly } }

    /// Adds notifications that were called accepted and were not, at the least.
    func addSettledTooEarly(_ count: Int) { state.withLock { $0.settledTooEarly += count } }

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
    func add(_ notifications: [PushNotification]) {
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
    func withdraw() -> [PushNotification] {
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
    func takeNotifications(_ limit: Int) -> ArraySlice<PushNotification> {
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
