/// What the operator wants, after file, environment and defaults were laid over each other and
/// checked as a whole. Paths are absolute.
package struct Settings: Sendable, Equatable {
    /// The settings file that was read; nil when the defaults stand alone.
    package let file: String?
    /// Folder of the journal, of held removals and of the lock.
    package let state: String
    /// The token database.
    package let store: Store
    /// Apps in the order of the file; may be empty.
    package let apps: [App]
    /// What happens to stale rows.
    package let policy: Policy
    /// When runs pause for a busy database.
    package var throttle: Throttle
    /// How notifications are sent.
    package let send: Send
    /// Limits beyond which a removal is held.
    package let guardLimits: GuardLimits
    /// Where results are told.
    package let report: Report
    /// Where each value came from, in the order of the table; members of groups that an app does
    /// not have are left out.
    package let origins: [SettingOrigin]

    /// One app on one side of APNs.
    package struct App: Sendable, Equatable {
        /// Name in commands and reports.
        package let name: String
        /// APNs topic: the bundle identifier.
        package let topic: String
        /// Side of APNs.
        package let environment: Environment
        /// What the app column of the token table holds.
        package let value: String
        /// Client certificate, if any.
        package let certificate: Certificate?
        /// Signing key of provider tokens, if any.
        package let tokenKey: TokenKey?
        /// Feedback gateway; nil when there is no feed to read.
        package let feedback: Feedback?
        /// HTTP/2 gateway; nil when nothing is sent by HTTP/2.
        package let provider: Provider?
        /// Binary gateway; nil when nothing is sent to one.
        package let binary: Binary?
    }

    /// Side of APNs: their tokens never interchange.
    package enum Environment: String, Sendable, CaseIterable {
        /// Apps from the store.
        case production
        /// Apps in development.
        case sandbox
    }

    /// A client certificate in files.
    package struct Certificate: Sendable, Equatable {
        /// PEM or PKCS#12.
        package let file: String
        /// PEM key; nil when it is in `file`.
        package let key: String?
        /// File whose line opens the key.
        package let passphraseFile: String?
    }

    /// A signing key of provider tokens.
    package struct TokenKey: Sendable, Equatable {
        /// The `.p8` file.
        package let file: String
        /// Apple's identifier of the key.
        package let keyIdentifier: String
        /// Apple's identifier of the team.
        package let teamIdentifier: String
    }

    /// A feedback gateway.
    package struct Feedback: Sendable, Equatable {
        /// Host to connect to.
        package let host: String
        /// Port to connect to.
        package let port: Int
        /// PEM file of authorities; nil for the system's.
        package let ca: String?
        /// Name its certificate must carry.
        package let hostName: String
        /// Limit for one connection attempt.
        package let connectTimeout: Duration
        /// Limit for the TLS handshake.
        package let handshakeTimeout: Duration
        /// Silence after which the list counts as ended.
        package let idleTimeout: Duration
        /// Bytes after which the feed is cut.
        package let maxBytes: Int
    }

    /// An HTTP/2 gateway.
    package struct Provider: Sendable, Equatable {
        /// Host to connect to.
        package let host: String
        /// Port to connect to.
        package let port: Int
        /// PEM file of authorities; nil for the system's.
        package let ca: String?
        /// Connections to keep open.
        package let connections: Int
    }

    /// A gateway with the binary interface.
    package struct Binary: Sendable, Equatable {
        /// Host to connect to.
        package let host: String
        /// Port to connect to.
        package let port: Int
        /// PEM file of authorities; nil for the system's.
        package let ca: String?
    }

    /// What happens to stale rows.
    package struct Policy: Sendable, Equatable {
        /// What is done.
        package enum Action: String, Sendable, CaseIterable {
            /// A mark, which can be taken back.
            case mark
            /// The row is removed; its image is kept in the ledger.
            case delete
        }
        /// What is done.
        package let action: Action
        /// Whether rows of unknown registration time may be deleted.
        package let deleteWithoutRegistrationTime: Bool
        /// How far clocks may be apart.
        package let clockSkew: Duration
        /// How long a row stays marked before it is removed; nil: it is removed at once.
        package let deleteAfter: Duration?
        /// How long changes can be undone.
        package let keepLedger: Duration
    }

    /// How notifications are sent.
    package struct Send: Sendable, Equatable {
        /// Whether notifications without an answer are sent again.
        package let resendUnknown: Bool
        /// Limit for one answer.
        package let requestTimeout: Duration
        /// How long others leave a silent sender its rows.
        package let lease: Duration
    }

    /// Limits beyond which a removal is held.
    package struct GuardLimits: Sendable, Equatable {
        /// Rows within an hour, and within a day, whatever their share.
        package let floor: Int
        /// Percent of a partition's living rows within an hour.
        package let partitionPercent: Double
        /// Percent of a partition's living rows within 24 hours.
        package let dayPercent: Double
    }

    /// Where results are told.
    package struct Report: Sendable, Equatable {
        /// File of metrics, replaced whole.
        package let metricsFile: String?
        /// Address to ping.
        package let healthcheckURL: String?
    }
}

extension RawRepresentable where RawValue == String, Self: CaseIterable {
    /// The words of a choice, in order.
    static var words: [String] { allCases.map(\.rawValue) }
}
