import APNsProtocol
import Encodings
import SecureTransport
import Synchronization

/// A signed provider token, as all connections of a team and key send it.
package struct ProviderToken: Hashable, Sendable {
    /// The number of the token within its source, from 1. It distinguishes the refusal of this
    /// token from that of an older one.
    package let serial: Int
    /// The value of the `authorization` header: `bearer` and the token. A secret.
    package let authorization: String
    /// The claim `iat` of the token.
    package let issuedAt: EpochSeconds
}

/// The source of the provider tokens of one team and key. All connections share one text, signed
/// once and renewed in time. Safe to call from several threads.
package final class ProviderTokenSource: Sendable {
    /// The signing key and the ids of key and team.
    package struct Credential: Sendable {
        fileprivate let key: SigningKey
        /// The claims with a placeholder for the time.
        fileprivate let claims: ProviderTokenClaims

        /// Makes a credential from a key, its ten-character id and that of its team. Throws
        /// `ProviderTokenRefusal`.
        package init(key: SigningKey, keyID: String, teamID: String) throws(ProviderTokenRefusal) {
            self.key = key
            claims = try ProviderTokenClaims(
                keyID: keyID, teamID: teamID, issuedAt: EpochSeconds(0))
        }
    }

    /// The clocks of a source: one for ages, one for `iat`.
    package struct Clocks: Sendable {
        let monotonic: @Sendable () -> ContinuousClock.Instant
        let wall: @Sendable () -> EpochSeconds

        /// Makes the pair of clocks; the monotonic one must advance while the machine sleeps.
        package init(
            monotonic: @escaping @Sendable () -> ContinuousClock.Instant = {
                ContinuousClock.now
            },
            wall: @escaping @Sendable () -> EpochSeconds
        ) {
            (self.monotonic, self.wall) = (monotonic, wall)
        }
    }

    private struct Held {
        var token: ProviderToken
        var madeAt: ContinuousClock.Instant
    }

    private let credential: Credential
    private let clocks: Clocks
    private let held = Mutex<Held?>(nil)

    package init(_ credential: Credential, clocks: Clocks) {
        (self.credential, self.clocks) = (credential, clocks)
    }

    /// The token to send now; signed or renewed if due. Throws `credential` where libcrypto cannot
    /// sign.
    package func token() throws(ProviderFailure) -> ProviderToken {
        try held.withLock { (held) throws(ProviderFailure) in
            let now = clocks.monotonic()
            if let present = held,
                !ProviderTokenPolicy.mustRenew(age: now - present.madeAt)
            {
                return present.token
            }
            return try renew(&held, now)
        }
    }

    /// The token to use after APNs answered ExpiredProviderToken to `refused`. `serverTime` is the
    /// `date` of that answer, where it has one. Throws `credential` when the token is
    /// too young to have expired, because the clock of this host is then wrong, and where libcrypto
    /// cannot sign.
    package func token(
        afterExpiryOf refused: ProviderToken, serverTime: EpochSeconds?
    ) throws(ProviderFailure) -> ProviderToken {
        try held.withLock { (held) throws(ProviderFailure) in
            let now = clocks.monotonic()
            guard let present = held else { return try renew(&held, now) }
            // These answer requests that were in flight when another connection had it renewed.
            guard present.token.serial == refused.serial else { return present.token }
            guard ProviderTokenPolicy.mayReplace(age: now - present.madeAt) else {
                throw clockFault(present.token, serverTime)
            }
            return try renew(&held, now)
        }
    }

    private func renew(
        _ held: inout Held?, _ now: ContinuousClock.Instant
    ) throws(ProviderFailure) -> ProviderToken {
        let claims = credential.claims.issued(at: clocks.wall())
        let signature: [UInt8]
        do {
            signature = try credential.key.signature(of: claims.signingInput)
        } catch {
            throw ProviderFailure(.configuration, error.description)
        }
        let token = ProviderToken(
            serial: (held?.token.serial ?? 0) + 1,
            authorization: "bearer " + claims.text(signature: signature),
            issuedAt: claims.issuedAt)
        held = Held(token: token, madeAt: now)
        return token
    }

    private func clockFault(
        _ token: ProviderToken, _ serverTime: EpochSeconds?
    ) -> ProviderFailure {
        let local = RFC3339.text(Int64(clocks.wall().rawValue))
        let server =
            serverTime.map { "APNs' says \(RFC3339.text(Int64($0.rawValue)))" }
            ?? "APNs named no time"
        return ProviderFailure(
            .configuration,
            "sending with the provider token of key \(credential.claims.keyID): APNs calls it "
                + "expired although it is new; this host's clock says \(local), \(server); "
                + "correct the clock")
    }
}

// The times at which a new provider token is made.
//
// APNs accepts a token for an hour after its `iat`, and accepts a new one at most every 20 minutes
// (Apple, "Establishing a token-based connection to APNs"). Renewal has to fall between the two
// limits. Tokens are renewed after 50 minutes, which leaves ten for clocks that differ and requests
// that wait.
//
// The age is measured on the monotonic clock, because the wall clock may be set at any moment. The
// wall clock is read once per token, for `iat`. If APNs calls a token expired that is younger than
// 20 minutes, the token is not old but this host's clock is wrong. Another token would be refused
// too, and so would every one after it, until APNs answers TooManyProviderTokenUpdates. That ends
// the run with both times in the message.

/// The rules for renewing provider tokens.
package enum ProviderTokenPolicy {
    /// The minimum age of a token before it is replaced, for any reason.
    static let leastAge = Duration.seconds(20 * 60)
    /// The age at which a token is replaced.
    static let renewalAge = Duration.seconds(50 * 60)

    /// Whether a token of this age has to be renewed before the next request.
    package static func mustRenew(age: Duration) -> Bool { age >= renewalAge }

    /// Whether a token of this age that APNs called expired can be replaced. A younger one shows
    /// that the clock is wrong, and another token would not help.
    package static func mayReplace(age: Duration) -> Bool { age >= leastAge }
}
