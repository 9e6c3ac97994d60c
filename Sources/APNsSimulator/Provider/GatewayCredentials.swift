import APNsProtocol
import SecureTransport

/// How clients of a provider gateway show who they are.
package enum ProviderAuthentication: Sendable {
    /// By a certificate of the simulator's authority; the topic is its UID.
    case certificate
    /// By a provider token signed with one of these keys, by key id.
    case token([String: TrustedKey])

    /// A key that tokens may be signed with.
    package struct TrustedKey: Sendable {
        let key: VerificationKey
        let teamID: String
        /// Whether it is bound to the other environment.
        let isForeign: Bool

        /// Names a key.
        package init(key: VerificationKey, teamID: String, isForeign: Bool = false) {
            (self.key, self.teamID, self.isForeign) = (key, teamID, isForeign)
        }
    }
}

/// What one connection has shown so far. A token is verified once and then compared as text: that
/// is what makes checking every request affordable.
struct GatewayCredentials {
    /// How long APNs takes a token (Apple, "Establishing a token-based connection to APNs").
    static let longestAge: Int64 = 3_600
    /// How soon another may follow.
    static let leastInterval: Int64 = 1_200

    /// The bundle id in the client's certificate, if it has shown one.
    let certificateTopic: String?
    private var text: ArraySlice<UInt8> = []
    private var verdict: ProviderReason?
    private var claims: ProviderTokenClaims?
    private var changedAt: Int64?
    /// The first accepted key, which binds the connection.
    private var bound: (keyID: String, teamID: String)?

    init(certificateTopic: String?) {
        self.certificateTopic = certificateTopic
    }

    /// Why a request is refused for its `authorization`; nil when it is good.
    mutating func refusal(
        of authorization: ArraySlice<UInt8>?, keys: [String: ProviderAuthentication.TrustedKey],
        now: EpochSeconds
    ) -> ProviderReason? {
        guard let authorization else {
            return .missingProviderToken
        }
        if !authorization.elementsEqual(text) {
            if let refusal = take(authorization, keys, Int64(now.rawValue)) {
                return refusal
            }
        }
        if let verdict {
            return verdict
        }
        guard let claims else {
            return .invalidProviderToken
        }
        let age = Int64(now.rawValue) - Int64(claims.issuedAt.rawValue)
        return abs(age) > Self.longestAge ? .expiredProviderToken : nil
    }

    /// A token that was not the last one. Only TooManyProviderTokenUpdates leaves the last one
    /// valid.
    private mutating func take(
        _ authorization: ArraySlice<UInt8>, _ keys: [String: ProviderAuthentication.TrustedKey],
        _ now: Int64
    ) -> ProviderReason? {
        let (found, reason) = Self.examine(authorization, keys)
        if reason == nil, let changedAt, now - changedAt < Self.leastInterval {
            return .tooManyProviderTokenUpdates
        }
        text = authorization
        claims = found
        verdict = reason
        guard let found, reason == nil else {
            return nil
        }
        if let bound {
            if bound.teamID != found.teamID {
                verdict = .invalidProviderToken
            } else if bound.keyID != found.keyID {
                verdict = .unrelatedKeyIDInToken
            }
        } else {
            bound = (found.keyID, found.teamID)
        }
        changedAt = now
        return nil
    }

    private static func examine(
        _ authorization: ArraySlice<UInt8>, _ keys: [String: ProviderAuthentication.TrustedKey]
    ) -> (ProviderTokenClaims?, ProviderReason?) {
        let scheme = "bearer "
        let isBearer = authorization.prefix(scheme.utf8.count).map { $0 | 0x20 }
            .elementsEqual(scheme.utf8)
        guard isBearer else {
            return (nil, .missingProviderToken)
        }
        let text = Array(authorization.dropFirst(scheme.utf8.count))
        guard let token = ReceivedProviderToken(text), let trusted = keys[token.claims.keyID],
            trusted.teamID == token.claims.teamID,
            trusted.key.verifies(token.signature, of: token.signingInput)
        else {
            return (nil, .invalidProviderToken)
        }
        return (token.claims, trusted.isForeign ? .badEnvironmentKeyIDInToken : nil)
    }
}
