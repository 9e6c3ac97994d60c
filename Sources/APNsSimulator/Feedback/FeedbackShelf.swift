import Synchronization

/// The lists a gateway still has to give away.
///
/// Reading is destructive, as it was with Apple's service (Binary Provider API, "The Feedback
/// Service"): a list is taken by the connection that gets it, whether or not the client reads it
/// to its end.
final class FeedbackShelf: Sendable {
    private struct State {
        var feeds: [FeedSource]
        var taken = 0
    }

    private let state: Mutex<State>
    private let repeats: Bool

    init(_ feeds: [FeedSource], repeats: Bool) {
        state = Mutex(State(feeds: feeds))
        self.repeats = repeats
    }

    func add(_ feed: FeedSource) {
        state.withLock { $0.feeds.append(feed) }
    }

    /// The next list with its number, nil when all are gone.
    func take() -> (number: Int, feed: FeedSource)? {
        state.withLock { state in
            guard !state.feeds.isEmpty, repeats || state.taken < state.feeds.count else {
                return nil
            }
            let number = state.taken % state.feeds.count
            state.taken += 1
            let feed = state.feeds[number]
            if !repeats {
                // A long list must not stay in memory once it is gone.
                state.feeds[number] = .bytes([])
            }
            return (number, feed)
        }
    }
}
