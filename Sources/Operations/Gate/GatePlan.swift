import Database
import EvidenceJournal
import Settings
import TokenHygiene

/// What `preflight` looks at, and what shuts its gate.
package struct GatePlan: Sendable {
    /// Where the tokens of the send come from.
    package enum Subject: Sendable {
        /// The waiting rows of the queue.
        case queue
        /// A query, which is ended after some seconds.
        case query(SelectStatement, seconds: Int)
        /// A file with a token per line; `-` is standard input.
        case lines(String)
        /// The sender is another program and its tokens are not known.
        case none

        /// The word in reports.
        var word: String {
            switch self {
            case .queue: "queue"
            case .query: "query"
            case .lines: "tokens"
            case .none: "none"
            }
        }
    }

    /// The settings.
    package let settings: Settings
    /// The app in its environment.
    package let app: Settings.App
    /// Where the tokens come from.
    package let subject: Subject
    /// Whether nothing is applied before.
    package var readOnly = false
    /// Whether one request is sent to the provider.
    package var probes = false
    /// The least severity that shuts the gate; nil: none does.
    package var failOn: GateSeverity? = .high
    /// The largest share of stale tokens that is no reason to stop, from 0 to 1.
    package var mostStale = 0.05
    /// Hours without a good sweep after which that is a finding.
    package var mostHours = 26.0
    /// Bytes for fingerprints of tokens.
    package var memory = GatePlan.usualMemory
    /// The findings to live with.
    package var ignore = IgnoreList.none

    /// Bytes for fingerprints where nothing else is said.
    package static let usualMemory = 256 << 20

    /// Makes the plan for one app of the settings. Without a subject it is the queue, where the app has
    /// one.
    ///
    /// - Throws: usage, when the settings have no such app, or several.
    package init(
        _ settings: Settings, app name: String?, environment: String?, subject: Subject?
    ) throws(RunFailure) {
        self.settings = settings
        let app = try settings.app(named: name, in: environment, for: "looking before a send")
        self.app = app
        self.subject =
            subject ?? (StoreSettings(settings).wantsQueue && app.sends ? .queue : .none)
    }

    /// The app and environment.
    var partition: Partition { app.partition }
}
