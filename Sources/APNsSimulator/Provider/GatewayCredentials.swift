import APNsProtocol
import COpenSSL
import Encodings
import SecureTransport

/// The way in which clients of a provider gateway authenticate.
package enum ProviderAuthentication: Sendable {
    /// With a certificate of the simulator's authority; the topic is its UID.
    case certificate
    /// With a provider token signed by one of these keys, which are stored by key id.
    case token([String: TrustedKey])

    /// A public key for the signatures of tokens.
    package struct TrustedKey: Sendable {
        let key: VerificationKey
        let teamID: String
        /// Whether it is bound to the other environment.
        let isForeign: Bool

        package init(key: VerificationKey, teamID: String, isForeign: Bool = false) {
            (self.key, self.teamID, self.isForeign) = (key, teamID, isForeign)
        }
    }
}

/// The credentials that a client has sent on one connection. A token is verified once and then
/// compared as text, which keeps the check of each request cheap.
package struct GatewayCredentials: Sendable {
    /// The seconds for which APNs accepts a token (Apple, "Establishing a token-based connection to
    /// APNs").
    static let longestAge: Int64 = 3_600
    /// The least number of seconds between two tokens.
    static let leastInterval: Int64 = 1_200

    /// The bundle id in the client's certificate; nil without a certificate.
    let certificateTopic: String?
    private var text: ArraySlice<UInt8> = []
    /// The reason why the present token is refused.
    private var tokenRefusal: ProviderReason?
    private var claims: ProviderTokenClaims?
    private var changedAt: Int64?
    /// The first accepted key, which binds the connection.
    private var bound: (keyID: String, teamID: String)?

    /// Makes the credentials of a connection without requests. `certificateTopic` is the bundle id
    /// in the client's certificate.
    package init(certificateTopic: String? = nil) {
        self.certificateTopic = certificateTopic
    }

    /// The reason to refuse a request for its `authorization`; nil for a valid one.
    mutating func refusal(
        of authorization: ArraySlice<UInt8>?, keys: [String: ProviderAuthentication.TrustedKey],
        now: EpochSeconds
    ) -> ProviderReason? {
        guard let authorization else {
            return .missingProviderToken
        }
        if !authorization.elementsEqual(text) {
            if let refusal = replaceToken(authorization, keys, Int64(now.rawValue)) {
                return refusal
            }
        }
        if let tokenRefusal {
            return tokenRefusal
        }
        guard let claims else {
            return .invalidProviderToken
        }
        let age = Int64(now.rawValue) - Int64(claims.issuedAt.rawValue)
        return abs(age) > Self.longestAge ? .expiredProviderToken : nil
    }

    /// Stores a token other than the present one. Only TooManyProviderTokenUpdates leaves the
    /// present one valid.
    private mutating func replaceToken(
        _ authorization: ArraySlice<UInt8>, _ keys: [String: ProviderAuthentication.TrustedKey],
        _ now: Int64
    ) -> ProviderReason? {
        let (found, reason) = Self.verify(authorization, keys)
        if reason == nil, let changedAt, now - changedAt < Self.leastInterval {
            return .tooManyProviderTokenUpdates
        }
        text = authorization
        claims = found
        tokenRefusal = reason
        guard let found, reason == nil else {
            return nil
        }
        if let bound {
            if bound.teamID != found.teamID {
                tokenRefusal = .invalidProviderToken
            } else if bound.keyID != found.keyID {
                tokenRefusal = .unrelatedKeyIDInToken
            }
        } else {
            bound = (found.keyID, found.teamID)
        }
        changedAt = now
        return nil
    }

    private static func verify(
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

/// The public half of a `SigningKey`.
package final class VerificationKey: Sendable {
    // Safe for the same reason as in SigningKey.
    nonisolated(unsafe) private let key: OpaquePointer

    /// The public half of a key.
    fileprivate init(sharing key: SigningKey) {
        EVP_PKEY_up_ref(key.key)
        self.key = key.key
    }

    deinit {
        EVP_PKEY_free(key)
    }

    /// Whether the 64 bytes are a signature of the message by this key. False for any other number
    /// of bytes.
    package func verifies(_ signature: [UInt8], of message: [UInt8]) -> Bool {
        guard let encoded = EllipticKey.encoded(signature), let context = EVP_MD_CTX_new()
        else {
            return false
        }
        defer {
            EVP_MD_CTX_free(context)
            OpenSSLFault.discard()
        }
        return EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key) == 1
            && EVP_DigestVerify(context, encoded, encoded.count, message, message.count) == 1
    }
}

extension SigningKey {
    /// Makes a new key, without a file. Throws `Refusal`.
    package convenience init() throws(Refusal) {
        guard let made = pushsweep_generate_p256_key() else {
            throw Refusal.openSSL("making a signing key")
        }
        self.init(adopting: made)
    }

    /// The public key, to check signatures of this key.
    package var verificationKey: VerificationKey { VerificationKey(sharing: self) }

    /// The key in the form of a `.p8` file (PKCS#8 in PEM, not encrypted). Throws `Refusal`.
    package func pem() throws(Refusal) -> [UInt8] {
        try CertificateMint.written("a signing key") {
            PEM_write_bio_PKCS8PrivateKey($0, key, nil, nil, 0, nil, nil) == 1
        }
    }
}
