import APNsProtocol

// When to make a new provider token.
//
// APNs takes a token for an hour after its `iat`, and takes a new one at most every 20 minutes
// (Apple, "Establishing a token-based connection to APNs"). Between the two limits lies the time in
// which to renew; we do so after 50 minutes, which leaves ten for clocks that differ and requests
// that wait.
//
// The age is measured on the monotonic clock, because the wall clock may be set at any moment; the
// wall clock is asked once per token, for `iat`. If APNs calls a token expired that is younger than
// 20 minutes, the token is not old but our clock is wrong, and another one would be refused too:
// so would every one after it, until APNs answers TooManyProviderTokenUpdates. That ends the run
// with both times in the message.

/// What to do with the present provider token.
package enum ProviderTokenDecision: Hashable, Sendable {
    /// Go on with it.
    case keep
    /// Make a new one.
    case renew
}

/// The rules of renewal.
package enum ProviderTokenPolicy {
    /// No token is replaced before this age, whatever happens.
    package static let leastAge = Duration.seconds(20 * 60)
    /// The age at which a token is replaced.
    package static let renewalAge = Duration.seconds(50 * 60)

    /// What to do with a token of this age before the next request.
    package static func decision(age: Duration) -> ProviderTokenDecision {
        age >= renewalAge ? .renew : .keep
    }

    /// What to do about a token of this age that APNs called expired; nil when a new one would
    /// not help, because the clock is wrong.
    package static func decision(expiredAtAge age: Duration) -> ProviderTokenDecision? {
        age >= leastAge ? .renew : nil
    }
}

/// APNs called a young provider token expired: this host's clock is wrong.
package struct ProviderClockFault: Error, Hashable, Sendable, CustomStringConvertible {
    /// One line with both times.
    package let description: String
}
