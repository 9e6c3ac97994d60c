import APNsProtocol

/// The app on one side of APNs that a token belongs to: a token says nothing outside it, since
/// tokens of production and sandbox never interchange and each belongs to one topic (Apple, Binary
/// Provider API). Evidence touches rows of its own partition only.
package struct Partition: Hashable, Sendable, CustomStringConvertible {
    /// The app's name in the settings.
    package let app: String
    /// `production` or `sandbox`.
    package let environment: String

    /// Names a partition.
    package init(app: String, environment: String) {
        self.app = app
        self.environment = environment
    }

    /// `app/environment`, as messages and reports print it.
    package var description: String { "\(app)/\(environment)" }
}

/// Where a statement that a token is dead came from. The raw value is stored with the mark.
package enum EvidenceSource: String, Hashable, Sendable, CaseIterable {
    /// A tuple of the feedback service, port 2196.
    case feedback
    /// HTTP/2 answer 410 with reason Unregistered.
    case unregistered = "Unregistered"
    /// HTTP/2 answer 410 with reason ExpiredToken.
    case expiredToken = "ExpiredToken"
}

/// What is known about one token after all its statements in one feed were laid together: the
/// latest time wins, the number of statements is kept so that every one is accounted for.
package struct TokenEvidence: Hashable, Sendable {
    /// The token.
    package let token: DeviceToken
    /// The latest time at which the token was said to be dead.
    package let time: EpochMilliseconds
    /// How many statements this stands for, at least 1.
    package let statements: Int

    /// Lays down what is known about a token.
    package init(token: DeviceToken, time: EpochMilliseconds, statements: Int = 1) {
        self.token = token
        self.time = time
        self.statements = statements
    }
}

/// Evidence in token order, each token once, handed out in batches. Two walks over it see the same
/// tokens in the same order, so a walk can stop after a token and go on there another day.
package protocol EvidenceStream {
    /// The next at most `limit` tokens; empty at the end.
    mutating func next(_ limit: Int) throws -> [TokenEvidence]
}
