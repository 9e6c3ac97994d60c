import APNsProtocol
import PushQueue
import TokenTable

/// The tokens that a person asks about.
package enum TokenSubject: Hashable, Sendable {
    /// One token.
    case token(DeviceToken)
    /// All tokens of a user, as the user column has it.
    case user(String)

    /// The most tokens of a user.
    package static let mostTokens = 50

    /// The tokens, those of a user in byte order, and whether the user has more than `mostTokens`.
    ///
    /// - Throws: `configuration` where there is no user column; any failure of a query.
    func tokens(_ store: TokenTable) throws -> (tokens: [DeviceToken], isCut: Bool) {
        switch self {
        case .token(let token): return ([token], false)
        case .user(let user):
            let found = try store.allTokens(ofUser: user, limit: Self.mostTokens + 1)
            return (found.prefix(Self.mostTokens).sorted(), found.count > Self.mostTokens)
        }
    }
}

/// What is said where a table about the queue's rows cannot be read.
enum QueueGap {
    /// About the claims of senders.
    static let claims =
        "pushsweep_claim: the account may not read it, so a row that a sender holds looks pending; "
        + "grant SELECT on it"
    /// About the states of rows beside the queue.
    static let states =
        "pushsweep_delivery: the account may not read it or there is none, so only the time of sending "
        + "tells the state of a row; grant SELECT on it, or run `pushsweep schema apply`"
    /// About the column of the time of queueing.
    static let times =
        "the time of queueing: the account may not read the column; grant SELECT on it, as `pushsweep "
        + "check --grants` says"
}
