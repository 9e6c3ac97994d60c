// Detects a wrong environment, topic or credential from APNs' answers, before it causes two million
// wrong verdicts.
//
// A certificate of the wrong environment, or a topic of another app, makes every token look bad.
// Acting on such answers would invalidate the whole population. A single answer does not show the
// mistake, but the share of bad answers does. So answers are counted per environment, topic and
// credential. Sending stops when the share of bad tokens is, beyond reasonable doubt, higher than
// in any healthy population.
//
// "Beyond reasonable doubt" is the lower end of Wilson's interval (E. B. Wilson, 1927) at 99.9 %:
// with 12 bad of 50 the true share exceeds 10 % with that confidence, with 11 it need not. Unlike
// the plain share or its normal approximation, the interval holds for small numbers. A test after
// every answer would give chance a new try each time and add up to many false alarms. So the
// detector tests when the count has doubled: at 50, 100, 200, 400 and so on.
//
// A second rule needs no statistics: at least one of the first 50 answers must show that APNs knows
// one of the tokens.

/// The evidence of one answer about the setting under which it was given.
package enum TokenAcceptance: Hashable, Sendable, CaseIterable {
    /// APNs knew the token: it accepted the notification, or the token was valid once and is gone
    /// now.
    case known
    /// The token is wrong, or the environment or topic is: BadDeviceToken, DeviceTokenNotForTopic,
    /// binary status 8.
    case bad
    /// APNs refused the request for another reason. This does not show that the setting is right.
    case refused
}

/// The reason why the detector suspects a mismatch; sending stops then.
package enum EnvironmentMismatch: Hashable, Sendable, CustomStringConvertible {
    /// So many bad tokens that the host, credential or topic must be wrong.
    case badShare(bad: Int, answers: Int)
    /// APNs knew none of the tokens in the first answers.
    case nothingKnown(bad: Int, answers: Int)

    /// One clause for messages and reports.
    package var description: String {
        switch self {
        case .badShare(let bad, let answers):
            "environment mismatch suspected: APNs called \(bad) of \(answers) tokens bad"
        case .nothingKnown(let bad, let answers):
            "environment mismatch suspected: APNs knew none of the first \(answers) tokens and "
                + "called \(bad) of them bad"
        }
    }
}

/// Counts the answers under one environment, topic and credential, and decides when to stop.
///
/// Server errors (5xx), throttling (429) and unknown outcomes give no evidence about the setting
/// and are not counted.
package struct MismatchDetector: Hashable, Sendable {
    /// The number of answers at which the detector tests for the first time.
    package static let firstTest = 50
    /// The share of bad tokens that a healthy population may have.
    package static let tolerance = 0.1
    /// The 99.9 % quantile of the normal distribution.
    private static let quantile = 3.090_232_306_167_813

    /// The number of answers counted.
    package private(set) var answers = 0
    /// The number of answers about bad tokens.
    package private(set) var bad = 0
    /// The number of answers about tokens that APNs knew.
    package private(set) var known = 0
    /// The suspicion; nil without one. A suspicion stays.
    package private(set) var suspicion: EnvironmentMismatch?

    private var nextTest = MismatchDetector.firstTest

    /// A detector with all counts at 0.
    package init() {}

    /// Counts one answer. Returns the suspicion if this answer raises it, nil before and after.
    package mutating func record(_ acceptance: TokenAcceptance) -> EnvironmentMismatch? {
        answers += 1
        switch acceptance {
        case .known: known += 1
        case .bad: bad += 1
        case .refused: break
        }
        guard answers == nextTest, suspicion == nil else { return nil }
        nextTest *= 2
        if known == 0 {
            suspicion = .nothingKnown(bad: bad, answers: answers)
        } else if Self.leastShare(of: bad, in: answers) > Self.tolerance {
            suspicion = .badShare(bad: bad, answers: answers)
        }
        return suspicion
    }

    /// The number of requests that may be without an answer; nil for any. Before the first test
    /// only as many as the test still needs are allowed, so that a wrong setting costs at most 50
    /// notifications.
    package var allowance: Int? {
        answers < Self.firstTest ? Self.firstTest - answers : nil
    }

    /// The lower end of Wilson's 99.9 % interval for the share of `count` in `total`, from 0 to 1;
    /// 0 when `total` is 0.
    package static func leastShare(of count: Int, in total: Int) -> Double {
        guard total > 0 else { return 0 }
        let (share, size) = (Double(count) / Double(total), Double(total))
        let square = quantile * quantile
        let spread = (share * (1 - share) / size + square / (4 * size * size)).squareRoot()
        return max(0, (share + square / (2 * size) - quantile * spread) / (1 + square / size))
    }
}
