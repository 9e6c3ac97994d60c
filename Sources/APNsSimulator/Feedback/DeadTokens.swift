import APNsProtocol
import Synchronization

/// The tokens whose app is gone, as the gateways of one simulator know them. What is sent to a dead
/// token over the binary interface is accepted and never delivered; the token goes to the list that
/// the feedback service gives to its next client, with the time of the sending. Source: Apple,
/// "Binary Provider API" (archived), "The Feedback Service".
package final class DeadTokens: Sendable {
    private struct State {
        var dead: Set<DeviceToken> = []
        /// Notifications so far to tokens that die after some.
        var delivered: [DeviceToken: Int] = [:]
        var listed: [DeviceToken: EpochSeconds] = [:]
        var order: [DeviceToken] = []
    }

    private let state = Mutex(State())

    /// Makes a set without dead tokens and an empty list.
    package init() {}

    /// From now on the token is dead.
    package func kill(_ token: DeviceToken) {
        state.withLock { _ = $0.dead.insert(token) }
    }

    /// The app was installed again: the token is alive, and leaves the list where it is there.
    package func revive(_ token: DeviceToken) {
        state.withLock { state in
            state.dead.remove(token)
            state.delivered[token] = nil
            if state.listed.removeValue(forKey: token) != nil {
                state.order.removeAll { $0 == token }
            }
        }
    }

    /// The tokens on the list that wait for the next client.
    package var waiting: Int { state.withLock { $0.order.count } }

    /// Takes the list in the order of the first sending to each token, with the time of the last;
    /// it is empty afterwards.
    package func take() -> [FeedbackTuple] {
        state.withLock { state in
            let tuples = state.order.compactMap { token in
                state.listed[token].map { FeedbackTuple(time: $0, token: token) }
            }
            state.order = []
            state.listed = [:]
            return tuples
        }
    }

    /// Notes that a notification was sent to a token, and returns whether the token is dead. A token
    /// with `lives` dies after that many notifications; nil: only `kill` ends it.
    func send(to token: DeviceToken, at time: EpochSeconds, lives: Int?) -> Bool {
        state.withLock { state in
            if let lives, !state.dead.contains(token) {
                let count = state.delivered[token, default: 0]
                if count < lives {
                    state.delivered[token] = count + 1
                    return false
                }
                state.delivered[token] = nil
                state.dead.insert(token)
            }
            guard state.dead.contains(token) else { return false }
            if state.listed.updateValue(time, forKey: token) == nil { state.order.append(token) }
            return true
        }
    }
}
