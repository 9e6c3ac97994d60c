import APNsProtocol
import Encodings
import SecureTransport
import Synchronization

/// A signed provider token, as all connections of a team and key send it.
package struct ProviderToken: Hashable, Sendable {
    /// Counts the tokens of one source from 1, so that a refusal can be told from one of an older
    /// token.
    package let serial: Int
    /// The value of the `authorization` header: `bearer` and the token. A secret.
    package let authorization: String
    /// The `iat` in it.
    package let issuedAt: EpochSeconds
}

/// Where the connections of one team and key get their provider token: one text for all of them,
/// signed once and renewed in time. Threads may ask at the same time.
package final class ProviderTokenSource: Sendable {
    /// What the tokens are made with.
    package struct Credential: Sendable {
        fileprivate let key: SigningKey
        /// With a time of no meaning.
        fileprivate let claims: ProviderTokenClaims

        /// Names a key by Apple's ten-character ids of it and of its team. Throws
        /// `ProviderTokenRefusal`.
        package init(key: SigningKey, keyID: String, teamID: String) throws(ProviderTokenRefusal) {
            self.key = key
            claims = try ProviderTokenClaims(
                keyID: keyID, teamID: teamID, issuedAt: EpochSeconds(0))
        }
    }

    /// The clocks asked: one for ages, one for `iat`.
    package struct Clocks: Sendable {
        let monotonic: @Sendable () -> ContinuousClock.Instant
        let wall: @Sendable () -> EpochSeconds

        /// Takes clocks; the monotonic one must go on while the machine sleeps.
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

    /// A source that has made no token yet.
    package init(_ credential: Credential, clocks: Clocks) {
        (self.credential, self.clocks) = (credential, clocks)
    }

    /// The token to send now; made or renewed if due. Throws `SigningFailure`.
    package func token() throws(SigningFailure) -> ProviderToken {
        try held.withLock { (held) throws(SigningFailure) in
            let now = clocks.monotonic()
            if let present = held,
                ProviderTokenPolicy.decision(age: now - present.madeAt) == .keep
            {
                return present.token
            }
            return try renew(&held, now)
        }
    }

    /// The token to go on with after APNs answered ExpiredProviderToken to `refused`. `serverTime`
    /// is the `date` of that answer, where it has one. Throws `ProviderClockFault` when the token
    /// is too young to have expired, or `SigningFailure`.
    package func token(
        afterExpiryOf refused: ProviderToken, serverTime: EpochSeconds?
    ) throws -> ProviderToken {
        try held.withLock { held in
            let now = clocks.monotonic()
            guard let present = held else { return try renew(&held, now) }
            // Answers to requests under way when another connection had it renewed.
            guard present.token.serial == refused.serial else { return present.token }
            guard ProviderTokenPolicy.decision(expiredAtAge: now - present.madeAt) == .renew else {
                throw clockFault(present.token, serverTime)
            }
            return try renew(&held, now)
        }
    }

    private func renew(
        _ held: inout Held?, _ now: ContinuousClock.Instant
    ) throws(SigningFailure) -> ProviderToken {
        let claims = credential.claims.issued(at: clocks.wall())
        let signature = try credential.key.signature(of: claims.signingInput)
        let token = ProviderToken(
            serial: (held?.token.serial ?? 0) + 1,
            authorization: "bearer " + claims.text(signature: signature),
            issuedAt: claims.issuedAt)
        held = Held(token: token, madeAt: now)
        return token
    }

    private func clockFault(
        _ token: ProviderToken, _ serverTime: EpochSeconds?
    ) -> ProviderClockFault {
        let local = RFC3339.text(Int64(clocks.wall().rawValue))
        let server =
            serverTime.map { "APNs' says \(RFC3339.text(Int64($0.rawValue)))" }
            ?? "APNs named no time"
        return ProviderClockFault(
            description:
                "sending with the provider token of key \(credential.claims.keyID): APNs calls it "
                + "expired although it is new; this host's clock says \(local), \(server); "
                + "correct the clock")
    }
}
