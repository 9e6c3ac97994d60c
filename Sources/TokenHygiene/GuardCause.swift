/// The gate that holds a batch. The raw value is its name in the journal, in reports and in
/// settings.
package enum GuardGate: String, Hashable, Sendable, CaseIterable {
    /// The batch would remove far more rows in an hour than usual.
    case volume
    /// The batch would remove too large a share of the living rows in an hour.
    case partitionShare = "partition-percent"
    /// The batch would remove too large a share of the living rows in 24 hours.
    case dayShare = "day-percent"
    /// Most of the tokens are in no row.
    case unknownTokens = "unknown-tokens"
    /// Most of the tokens registered after the signal.
    case registeredLater = "registered-later"
    /// Nearly all signals have the same time.
    case oneTime = "one-time"
    /// Some times are out of `EvidenceBounds`.
    case outOfBounds = "out-of-bounds"
    /// Not a limit of its own: an earlier batch of the partition is held.
    case behind
}

/// The reason why a batch is held, with the numbers behind the decision.
package enum GuardCause: Hashable, Sendable, CustomStringConvertible {
    /// Rows within an hour, and the 99th percentile of the last 30 days' hours.
    case volume(removals: Int, usualPeak: Int)
    /// Rows within an hour of a partition without enough history, and its living rows.
    case volumeWithoutHistory(removals: Int, living: Int)
    /// Rows within an hour, the partition's living rows, and the limit in percent.
    case partitionShare(removals: Int, living: Int, percent: Double)
    /// Rows within 24 hours, the partition's living rows, and the limit in percent.
    case dayShare(removals: Int, living: Int, percent: Double)
    /// Tuples of unknown tokens, and all tuples judged.
    case unknownTokens(count: Int, tuples: Int)
    /// Tuples of tokens that registered later, and all tuples of known tokens.
    case registeredLater(count: Int, known: Int)
    /// Tokens with the most frequent time, and all tokens.
    case oneTime(count: Int, tokens: Int)
    /// Tuples with impossible times, and all tuples.
    case outOfBounds(count: Int, tuples: Int)
    /// The earlier batch of the partition that is held.
    case behind(batch: String)

    /// The gate to which this cause belongs.
    package var gate: GuardGate {
        switch self {
        case .volume, .volumeWithoutHistory: .volume
        case .partitionShare: .partitionShare
        case .dayShare: .dayShare
        case .unknownTokens: .unknownTokens
        case .registeredLater: .registeredLater
        case .oneTime: .oneTime
        case .outOfBounds: .outOfBounds
        case .behind: .behind
        }
    }

    /// One sentence with the numbers, for messages and reports.
    package var description: String {
        switch self {
        case .volume(let removals, let peak):
            "\(removals) rows would have become invalid within an hour, more than "
                + "\(RemovalGuard.peakFactor) times the usual peak of \(peak)"
        case .volumeWithoutHistory(let removals, let living):
            "\(removals) of \(living) living rows would have become invalid within an hour, more than "
                + "\(Self.text(RemovalGuard.youngPercent)) %, and there is too little history to "
                + "call that usual"
        case .partitionShare(let removals, let living, let percent):
            "\(removals) of \(living) living rows would have become invalid within an hour, more than "
                + "\(Self.text(percent)) % (guard.partition-percent)"
        case .dayShare(let removals, let living, let percent):
            "\(removals) of \(living) living rows would have become invalid within 24 hours, more than "
                + "\(Self.text(percent)) % (guard.day-percent)"
        case .unknownTokens(let count, let tuples):
            "\(count) of \(tuples) tuples name a token that no row has: another table, or the list of "
                + "another app or environment, is suspected; check store.active-users.table, the app's "
                + "value and environment, its gateway and certificate"
        case .registeredLater(let count, let known):
            "\(count) of \(known) tuples about known tokens are older than the registration: a "
                + "wrong clock or time zone is suspected"
        case .oneTime(let count, let tokens):
            "\(count) of \(tokens) tokens are said to be dead since the same moment: the gateway "
                + "does not seem to know when"
        case .outOfBounds(let count, let tuples):
            "\(count) of \(tuples) tuples carry a time that cannot be: a wrong clock or unit is "
                + "suspected"
        case .behind(let batch):
            "it waits behind batch \(batch), which holds its app and environment"
        }
    }

    private static func text(_ percent: Double) -> String {
        percent == percent.rounded() ? "\(Int(percent))" : "\(percent)"
    }
}
