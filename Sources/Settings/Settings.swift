// Which row of the table fills a field is written in that row: SettingsTable.swift and the files beside
// it. The values that the fields start with are placeholders, which the first loading replaces.

import Database

/// What the operator wants, after file, environment and defaults were laid over each other and
/// checked as a whole. Paths are absolute.
package struct Settings: Sendable, Equatable {
    /// The settings file that was read; nil when the defaults stand alone.
    package internal(set) var file: String?
    /// Folder of the journal, of held removals and of the lock.
    package internal(set) var state = ""
    /// The token database.
    package internal(set) var store = Store()
    /// Apps in the order of the file; may be empty.
    package internal(set) var apps: [App] = []
    /// What happens to stale rows.
    package internal(set) var policy = Policy()
    /// When runs pause for a busy database.
    package internal(set) var throttle = Throttle()
    /// How notifications are sent.
    package internal(set) var send = Send()
    /// Limits beyond which a removal is held.
    package internal(set) var guardLimits = GuardLimits()
    /// Where results are told.
    package internal(set) var report = Report()
    /// Where each value came from, in the order of the table; members of groups that an app does
    /// not have are left out.
    package internal(set) var origins: [SettingOrigin] = []

    /// The token database and how its tables are laid out.
    package struct Store: Sendable, Equatable {
        /// Where it is.
        package internal(set) var location = StoreLocation.sqlite(path: "")
        /// The file that holds its password; nil where the settings name none.
        package internal(set) var passwordFile: String?
        /// Its password, from the environment or the password file.
        package internal(set) var password: Secret?
        /// Whether the server must prove its name.
        package internal(set) var tlsMode = TLSMode.verify
        /// PEM file of authorities; nil for the system's.
        package internal(set) var ca: String?
        /// Limit for connecting.
        package internal(set) var connectTimeout = Duration.zero
        /// Limit for each answer.
        package internal(set) var readTimeout = Duration.zero
        /// Limit for sending each request.
        package internal(set) var writeTimeout = Duration.zero
        /// The table of registered devices; what is nil in it is found in the table itself.
        package internal(set) var activeUsers = TableMapping()
        /// The table of notifications to send; what is nil in it is found in the table itself.
        package internal(set) var pushQueue = QueueMapping()

        /// Protection of the connection.
        package enum TLSMode: String, Sendable, CaseIterable {
            /// TLS with the chain and the name checked.
            case verify
            /// Plain text.
            case off
        }
    }

    /// A password. Prints as `(set)`, also in dumps of what contains it.
    package struct Secret: Sendable, Equatable, CustomStringConvertible, CustomReflectable {
        private let value: String

        /// Takes the password.
        init(_ value: String) { self.value = value }

        /// The password itself, for the one call that needs it.
        package func reveal() -> String { value }

        /// That there is a secret, and nothing of it.
        package var description: String { "(set)" }
        /// An empty mirror, so that dumping a value shows no secret either.
        package var customMirror: Mirror { Mirror(self, children: [:]) }
    }

    /// One app on one side of APNs.
    package struct App: Sendable, Equatable {
        /// Name in commands and reports.
        package internal(set) var name = ""
        /// APNs topic: the bundle identifier.
        package internal(set) var topic = ""
        /// Side of APNs.
        package internal(set) var environment = Environment.production
        /// What the app column of the token table holds.
        package internal(set) var value = ""
        /// Client certificate, if any.
        package internal(set) var certificate: Certificate?
        /// Signing key of provider tokens, if any.
        package internal(set) var tokenKey: TokenKey?
        /// Feedback gateway; nil when there is no feed to read.
        package internal(set) var feedback: Feedback?
        /// HTTP/2 gateway; nil when nothing is sent by HTTP/2.
        package internal(set) var provider: Provider?
        /// Binary gateway; nil when nothing is sent to one.
        package internal(set) var binary: Binary?
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
        package internal(set) var file = ""
        /// PEM key; nil when it is in `file`.
        package internal(set) var key: String?
        /// File whose line opens the key.
        package internal(set) var passphraseFile: String?
    }

    /// A signing key of provider tokens.
    package struct TokenKey: Sendable, Equatable {
        /// The `.p8` file.
        package internal(set) var file = ""
        /// Apple's identifier of the key.
        package internal(set) var keyIdentifier = ""
        /// Apple's identifier of the team.
        package internal(set) var teamIdentifier = ""
    }

    /// A feedback gateway.
    package struct Feedback: Sendable, Equatable {
        /// Host to connect to.
        package internal(set) var host = ""
        /// Port to connect to.
        package internal(set) var port = 0
        /// PEM file of authorities; nil for the system's.
        package internal(set) var ca: String?
        /// Name its certificate must carry.
        package internal(set) var hostName = ""
        /// Limit for one connection attempt.
        package internal(set) var connectTimeout = Duration.zero
        /// Limit for the TLS handshake.
        package internal(set) var handshakeTimeout = Duration.zero
        /// Silence after which the list counts as ended.
        package internal(set) var idleTimeout = Duration.zero
        /// Bytes after which the feed is cut.
        package internal(set) var maxBytes = 0
    }

    /// An HTTP/2 gateway.
    package struct Provider: Sendable, Equatable {
        /// Host to connect to.
        package internal(set) var host = ""
        /// Port to connect to.
        package internal(set) var port = 0
        /// PEM file of authorities; nil for the system's.
        package internal(set) var ca: String?
        /// Connections to keep open.
        package internal(set) var connections = 0
    }

    /// A gateway with the binary interface.
    package struct Binary: Sendable, Equatable {
        /// Host to connect to.
        package internal(set) var host = ""
        /// Port to connect to.
        package internal(set) var port = 0
        /// PEM file of authorities; nil for the system's.
        package internal(set) var ca: String?
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
        package internal(set) var action = Action.mark
        /// Whether rows of unknown registration time may be deleted.
        package internal(set) var deleteWithoutRegistrationTime = false
        /// How far clocks may be apart.
        package internal(set) var clockSkew = Duration.zero
        /// How long a row stays marked before it is removed; nil: it is removed at once.
        package internal(set) var deleteAfter: Duration?
        /// How long changes can be undone.
        package internal(set) var keepLedger = Duration.zero
    }

    /// When a run pauses for a busy database, and when it ends early.
    package struct Throttle: Sendable, Equatable {
        /// How far a replica may lag; nil: nobody asks.
        package internal(set) var maxLag: Duration?
        /// Load beyond which a run pauses.
        package internal(set) var maxLoad: LoadLimits?
        /// Load beyond which a run ends.
        package internal(set) var criticalLoad: LoadLimits?
        /// How long a run may last.
        package internal(set) var timeBudget: Duration?
        /// File whose presence ends a run.
        package internal(set) var stopFile = ""
        /// Replicas whose lag counts; empty: the database's own.
        package internal(set) var replicas: [StoreLocation] = []
    }

    /// How notifications are sent.
    package struct Send: Sendable, Equatable {
        /// Whether notifications without an answer are sent again.
        package internal(set) var resendUnknown = false
        /// Limit for one answer.
        package internal(set) var requestTimeout = Duration.zero
        /// How long others leave a silent sender its rows.
        package internal(set) var lease = Duration.zero
    }

    /// Limits beyond which a removal is held.
    package struct GuardLimits: Sendable, Equatable {
        /// Rows within an hour, and within a day, whatever their share.
        package internal(set) var floor = 0
        /// Percent of a partition's living rows within an hour.
        package internal(set) var partitionPercent = 0.0
        /// Percent of a partition's living rows within 24 hours.
        package internal(set) var dayPercent = 0.0
    }

    /// Where results are told.
    package struct Report: Sendable, Equatable {
        /// File of metrics, replaced whole.
        package internal(set) var metricsFile: String?
        /// Address to ping.
        package internal(set) var healthcheckURL: String?
    }
}

/// Where the value of a setting came from.
package enum SettingSource: Sendable, Hashable, CustomStringConvertible {
    /// Nothing was written.
    case builtIn
    /// A line of the settings file, counted from 1.
    case file(line: Int)
    /// An environment variable.
    case environment(String)
    /// The content of the file that another setting names.
    case contents(of: String)

    /// One clause for `pushsweep check`.
    package var description: String {
        switch self {
        case .builtIn: "default"
        case .file(let line): "file, line \(line)"
        case .environment(let name): "environment \(name)"
        case .contents(let key): "file of \(key)"
        }
    }
}

/// One setting with its value and where that came from, as `pushsweep check` prints it.
package struct SettingOrigin: Sendable, Equatable {
    /// The key, with the app's name in place of `[]`; `name/environment` where two apps share one.
    package let key: String
    /// The value as the file could write it; `(set)` for a secret, `none` for nothing.
    package let shownValue: String
    /// Where it came from.
    package let origin: SettingSource
}
