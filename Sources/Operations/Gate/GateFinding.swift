// A finding is what `preflight` has to say against a send. Scripts and ignore files name findings by their
// rules, so the names of rules are part of the version promise, and each finding of a rule has the same
// meaning wherever it is printed.

/// How much a finding says against a send, from least to most.
package enum GateSeverity: String, Codable, Hashable, Sendable, CaseIterable, Comparable {
    /// Worth knowing.
    case note
    /// A loss that is small.
    case low
    /// A loss that is not small, or something not known that should be.
    case medium
    /// The send would fail, or reach the wrong devices.
    case high

    /// Whether `left` says less.
    package static func < (left: GateSeverity, right: GateSeverity) -> Bool {
        left.rank < right.rank
    }

    private var rank: Int { Self.allCases.firstIndex(of: self) ?? 0 }
}

/// The rules of `preflight`.
package enum GateRule: String, Codable, Hashable, Sendable, CaseIterable {
    // The tokens.
    case noTokens = "no-tokens"
    case noLivingTokens = "no-living-tokens"
    case staleTokens = "stale-tokens"
    case unknownTokens = "unknown-tokens"
    case malformedTokens = "malformed-tokens"
    case duplicateTokens = "duplicate-tokens"
    case uncountedDuplicates = "uncounted-duplicates"
    case otherEnvironmentTokens = "other-environment-tokens"
    // The evidence.
    case pendingEvidence = "pending-evidence"
    case openHold = "open-hold"
    case quarantinedEvidence = "quarantined-evidence"
    case unreadableState = "unreadable-state"
    case noRecentSweep = "no-recent-sweep"
    // Certificate, key, topic, environment.
    case credentialUnusable = "credential-unusable"
    case certificateExpired = "certificate-expired"
    case certificateEndsSoon = "certificate-ends-soon"
    case certificateTopic = "certificate-topic"
    case certificateEnvironment = "certificate-environment"
    case providerEnvironment = "provider-environment"
    case feedbackAddress = "feedback-address"
    // Time.
    case clockDifference = "clock-difference"
    case registrationsAhead = "registrations-ahead"
    // The server.
    case oldRows = "old-rows"
    // The provider.
    case providerUnreachable = "provider-unreachable"
    case probeCredential = "probe-credential"
    case probeTopic = "probe-topic"
    case probeInconclusive = "probe-inconclusive"
    // The ignore file.
    case ignoreWithoutReason = "ignore-without-reason"
    case ignoreWithoutDate = "ignore-without-date"
    case ignorePastDate = "ignore-past-date"
    case ignoreUnused = "ignore-unused"

    /// The rule in one sentence.
    package var summary: String {
        switch self {
        case .noTokens: "The send has no token."
        case .noLivingTokens: "None of the tokens is living."
        case .staleTokens: "Tokens are stale: a mark without a later registration."
        case .unknownTokens: "No row of the app and environment has these tokens."
        case .malformedTokens: "Texts are not device tokens."
        case .duplicateTokens: "Tokens occur more than once."
        case .uncountedDuplicates: "Memory did not suffice to look for all duplicates."
        case .otherEnvironmentTokens: "Tokens are registered in the other environment only."
        case .pendingEvidence: "Evidence about dead tokens is not applied yet."
        case .openHold: "A removal waits for a person."
        case .quarantinedEvidence: "Bytes that are no evidence wait for a person."
        case .unreadableState: "A journal of this host cannot be read or is damaged."
        case .noRecentSweep: "No sweep succeeded lately."
        case .credentialUnusable: "The certificate or key cannot be used."
        case .certificateExpired: "The certificate is not valid at this time."
        case .certificateEndsSoon: "The certificate ends within 30 days."
        case .certificateTopic: "The certificate is for other topics."
        case .certificateEnvironment: "The certificate is for the other environment."
        case .providerEnvironment: "The provider belongs to the other environment."
        case .feedbackAddress: "The address of the feedback gateway cannot be right."
        case .clockDifference: "The clocks of this host and of the database differ."
        case .registrationsAhead: "Registrations lie in the future of the database's clock."
        case .oldRows: "A replica answers, whose rows may be older than those of its primary."
        case .providerUnreachable: "No connection with the provider is possible."
        case .probeCredential: "The provider refused the certificate or key."
        case .probeTopic: "The provider refused the topic."
        case .probeInconclusive: "The answer to the probe proves nothing."
        case .ignoreWithoutReason: "An entry of the ignore file has no reason."
        case .ignoreWithoutDate: "An entry of the ignore file has no last day."
        case .ignorePastDate: "An entry of the ignore file is past its last day."
        case .ignoreUnused: "An entry of the ignore file matches no finding."
        }
    }

    /// Whether an entry of an ignore file may name the rule. A mistake in the file cannot ignore itself.
    package var mayBeIgnored: Bool { !rawValue.hasPrefix("ignore-") }
}

/// One finding.
package struct GateFinding: Encodable, Hashable, Sendable {
    /// A person's decision to live with a finding.
    package struct Ignored: Encodable, Hashable, Sendable {
        /// The reason that the ignore file gives.
        package let reason: String
        /// The last day on which it counts.
        package let until: String
    }

    /// The rule.
    package let rule: GateRule
    /// How much it says against the send.
    package let severity: GateSeverity
    /// What it is about: an app and environment, a file, a gateway, a hold.
    package let object: String
    /// What was found, in one sentence.
    package let message: String
    /// What to do about it.
    package let cure: String
    /// The decision to live with it; nil where there is none.
    package internal(set) var ignored: Ignored?

    init(
        _ rule: GateRule, _ severity: GateSeverity, _ object: String, _ message: String,
        cure: String
    ) {
        self.rule = rule
        self.severity = severity
        self.object = object
        self.message = message
        self.cure = cure
    }
}
