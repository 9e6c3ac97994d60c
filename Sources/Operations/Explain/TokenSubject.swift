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
