import APNsProtocol

/// The app and the environment of APNs that a token belongs to. A token has no meaning outside its
/// partition: tokens of production and sandbox are not interchangeable, and each belongs to one
/// topic (Apple, Binary Provider API). Evidence changes rows of its own partition only.
package struct Partition: Hashable, Sendable, CustomStringConvertible {
    /// The app's name in the settings.
    package let app: String
    /// `production` or `sandbox`.
    package let environment: String

    /// Makes the partition of an app's name in the settings and an environment, without checking
    /// them.
    package init(app: String, environment: String) {
        self.app = app
        self.environment = environment
    }

    /// `app/environment`, as in messages and reports.
    package var description: String { "\(app)/\(environment)" }
}

/// The source of a statement that a token is dead. The raw value is stored with the mark.
package enum EvidenceSource: String, Hashable, Sendable, CaseIterable {
    /// A tuple of the feedback service, port 2196.
    case feedback
    /// HTTP/2 answer 410 with reason Unregistered.
    case unregistered = "Unregistered"
    /// HTTP/2 answer 410 with reason ExpiredToken.
    case expiredToken = "ExpiredToken"
}

/// The combined evidence about one token from all its statements in one feed. The latest time wins.
/// The number of statements is kept so that each one is accounted for.
package struct TokenEvidence: Hashable, Sendable {
    /// The token that the statements name.
    package let token: DeviceToken
    /// The latest time at which APNs found the token dead.
    package let time: EpochMilliseconds
    /// The number of combined statements, at least 1.
    package let statements: Int

    /// Makes the evidence about one token from its latest time and its number of statements.
    package init(token: DeviceToken, time: EpochMilliseconds, statements: Int = 1) {
        self.token = token
        self.time = time
        self.statements = statements
    }
}

/// Evidence in token order, each token once, in batches. Two passes over it give the same tokens in
/// the same order, so a pass can stop after a token and continue from it on another day.
package protocol EvidenceStream {
    /// The next tokens, at most `limit`; empty at the end. Throws where the evidence cannot be
    /// read.
    mutating func next(_ limit: Int) throws -> [TokenEvidence]
}
