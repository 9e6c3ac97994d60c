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
    fileprivate let madeAt: ContinuousClock.Instant
    /// Its `iat`.
    fileprivate let issuedAt: EpochSeconds
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
// the run with both times in the message. A virtual machine that was paused has clocks that stood still, and then
// only its wall clock is set; so an old `iat` by that clock is age, too, once APNs calls the token expired.

/// The source of the provider tokens of one team and key. All connections share one text, signed
/// once and renewed in time. Safe to call from several threads.
package final class ProviderTokenSource: Sendable {
    /// The minimum age of a token before it is replaced, for any reason.
    private static let leastAge = Duration.seconds(20 * 60)
    /// The age at which a token is replaced.
    private static let renewalAge = Duration.seconds(50 * 60)

    private let key: SigningKey
    /// The claims with a placeholder for the time.
    private let claims: ProviderTokenClaims
    private let wall: @Sendable () -> EpochSeconds
    private let monotonic: @Sendable () -> ContinuousClock.Instant
    private let held = Mutex<ProviderToken?>(nil)

    /// Makes a source from a key, its ten-character id and that of its team. `wall` is for `iat`,
    /// `monotonic` for ages: it must advance while the machine sleeps.
    package init(
        key: SigningKey, keyID: String, teamID: String,
        wall: @escaping @Sendable () -> EpochSeconds,
        monotonic: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
    ) throws(RequestRefusal) {
        claims = try ProviderTokenClaims(keyID: keyID, teamID: teamID, issuedAt: EpochSeconds(0))
        (self.key, self.wall, self.monotonic) = (key, wall, monotonic)
    }

    /// The token to send now; signed or renewed if due. Throws `configuration` where libcrypto cannot
    /// sign.
    package func token() throws(ProviderFailure) -> ProviderToken {
        try held.withLock { (held) throws(ProviderFailure) in
            if let held, monotonic() - held.madeAt < Self.renewalAge { return held }
            return try renew(&held)
        }
    }

    /// The token to use after APNs answered ExpiredProviderToken to `refused`. `serverTime` is the
    /// `date` of that answer, where it has one. Throws `configuration` when the token is
    /// too young to have expired, because the clock of this host is then wrong, and where libcrypto
    /// cannot sign.
    package func token(
        afterExpiryOf refused: ProviderToken, serverTime: EpochSeconds?
    ) throws(ProviderFailure) -> ProviderToken {
        try held.withLock { (held) throws(ProviderFailure) in
            if let present = held {
                // These answer requests that were in flight when another connection had it renewed.
                guard present.serial == refused.serial else { return present }
                let age = Int64(wall().rawValue) - Int64(present.issuedAt.rawValue)
                guard
                    monotonic() - present.madeAt >= Self.leastAge
                        || age >= Self.renewalAge.components.seconds
                else { throw clockFault(serverTime) }
            }
            return try renew(&held)
        }
    }

    private func renew(_ held: inout ProviderToken?) throws(ProviderFailure) -> ProviderToken {
        let now = wall()
        let claims = claims.issued(at: now)
        do {
            let signature = try key.signature(of: claims.signingInput)
            let token = ProviderToken(
                serial: (held?.serial ?? 0) + 1,
                authorization: "bearer " + claims.text(signature: signature), madeAt: monotonic(),
                issuedAt: now)
            held = token
            return token
        } catch {
            throw ProviderFailure(.configuration, error.description)
        }
    }

    private func clockFault(_ serverTime: EpochSeconds?) -> ProviderFailure {
        let local = RFC3339.text(Int64(wall().rawValue))
        let server =
            serverTime.map { "APNs' says \(RFC3339.text(Int64($0.rawValue)))" }
            ?? "APNs named no time"
        return ProviderFailure(
            .configuration,
            "sending with the provider token of key \(claims.keyID): APNs calls it "
                + "expired although it is new; this host's clock says \(local), \(server); "
                + "correct the clock")
    }
}
