import APNsProtocol
import TokenHygiene
import TokenTable

/// The tokens to ask about, in their order.
struct ProbeCandidates {
    private let search: EnvironmentSearch
    private let again: Bool
    private var last: DeviceToken?
    private var waiting: ArraySlice<DeviceToken> = []

    init(_ pair: EnvironmentPair, _ store: TokenTable, _ terms: ProbeTerms) throws {
        search = try EnvironmentSearch(store, of: pair.stored)
        again = terms.again
    }

    /// The next tokens, at most `limit`; nil at the end.
    mutating func next(_ limit: Int) throws -> [DeviceToken]? {
        guard limit > 0 else { return nil }
        while waiting.count < limit, let page = try search.next(after: last) {
            last = page.last
            waiting += page.found.filter { token in
                !token.isElsewhereToo
                    && (token.standing == .notAsked || again && token.standing == .neither)
            }.map(\.token)
        }
        defer { waiting = waiting.dropFirst(limit) }
        return waiting.isEmpty ? nil : Array(waiting.prefix(limit))
    }
}
