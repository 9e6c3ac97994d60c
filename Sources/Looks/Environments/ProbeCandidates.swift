import APNsProtocol
import TokenHygiene
import TokenTable

/// The tokens to ask about, in their order. Each group is looked for when it is asked, so that a device that registered
/// meanwhile is not among them.
struct ProbeCandidates {
    private let search: EnvironmentSearch
    private let again: Bool
    private var last: DeviceToken?

    init(_ pair: EnvironmentPair, _ store: TokenTable, _ terms: ProbeTerms) throws {
        search = try EnvironmentSearch(store, of: pair.stored)
        again = terms.again
    }

    /// The next tokens, at most `limit`; nil at the end.
    mutating func next(_ limit: Int) throws -> [DeviceToken]? {
        var tokens: [DeviceToken] = []
        while tokens.count < limit, let page = try search.next(after: last) {
            last = page.last
            for token in page.found
            where !token.isElsewhereToo
                && (token.standing == .notAsked || again && token.standing == .neither)
            {
                tokens.append(token.token)
                guard tokens.count == limit else { continue }
                last = token.token
                return tokens
            }
        }
        return tokens.isEmpty ? nil : tokens
    }
}
