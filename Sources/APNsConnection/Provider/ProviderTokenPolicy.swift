import APNsProtocol

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

/// The decision about the present provider token.
package enum ProviderTokenDecision: Hashable, Sendable {
    /// Continue to use it.
    case keep
    /// Make a new one.
    case renew
}

/// The rules for renewing provider tokens.
package enum ProviderTokenPolicy {
    /// The minimum age of a token before it is replaced, for any reason.
    package static let leastAge = Duration.seconds(20 * 60)
    /// The age at which a token is replaced.
    package static let renewalAge = Duration.seconds(50 * 60)

    /// The decision before the next request, for a token of this age.
    package static func decision(age: Duration) -> ProviderTokenDecision {
        age >= renewalAge ? .renew : .keep
    }

    /// The decision about a token of this age that APNs called expired; nil when a new one would
    /// not help, because the clock is wrong.
    package static func decision(expiredAtAge age: Duration) -> ProviderTokenDecision? {
        age >= leastAge ? .renew : nil
    }
}

/// APNs called a young provider token expired: this host's clock is wrong.
package struct ProviderClockFault: Error, Hashable, Sendable, CustomStringConvertible {
    /// One line with the time of this host and that of APNs.
    package let description: String
}
