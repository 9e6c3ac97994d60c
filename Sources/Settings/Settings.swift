// Each row of the table names the field that it fills: SettingsTable.swift and the files beside it.
// The initial values of the fields are placeholders, which loading replaces.

import Database

/// The settings of the operator: file, environment and defaults, combined and checked as a whole.
/// Paths are absolute.
package struct Settings: Sendable, Equatable {
    /// The settings file that was read; nil without a file.
    package internal(set) var file: String?
    /// Folder of the journal, of held removals and of the lock.
    package internal(set) var state = ""
    /// The token database.
    package internal(set) var store = Store()
    /// Apps in the order of the file; may be empty.
    package internal(set) var apps: [App] = []
    /// The action for stale rows.
    package internal(set) var policy = Policy()
    /// The limits at which runs pause for a busy database.
    package internal(set) var throttle = Throttle()
    /// The reports of other senders.
    package internal(set) var evidence = Evidence()
    /// The rules of sending.
    package internal(set) var send = Send()
    /// Limits beyond which a removal is held.
    package internal(set) var guardLimits = GuardLimits()
    /// The outputs besides stdout and stderr.
    package internal(set) var report = Report()
    /// Commands to run.
    package internal(set) var hooks = Hooks()
    /// The origin of each value, in the order of the table, without the groups that an app does not
    /// have.
    package internal(set) var origins: [SettingOrigin] = []

    /// The token database and the layout of its tables.
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
        /// Connections over which one feed is applied.
        package internal(set) var connections = 0
        /// Whether changes may go to a replica or over a connection that a proxy splits.
        package internal(set) var acceptsReplica = false
        /// The table of registered devices; the table itself decides nil values.
        package internal(set) var activeUsers = TableMapping()
        /// The table of notifications to send; the table itself decides nil values.
        package internal(set) var pushQueue = QueueMapping()

        /// Protection of the connection.
        package enum TLSMode: String, Sendable, CaseIterable {
            /// TLS with the chain and the name checked.
            case verify
            /// Plain text.
            case off
        }
    }

    /// A password. Prints as `(set)`, also in dumps of a value that contains it.
    package struct Secret: Sendable, Equatable, CustomStringConvertible, CustomReflectable {
        private let value: String

        /// Wraps the password.
        init(_ value: String) { self.value = value }

        /// The password itself, for the one call that needs it.
        package func reveal() -> String { value }

        /// A text that shows no part of the secret.
        package var description: String { "(set)" }
        /// An empty mirror, so that dumping a value shows no secret either.
        package var customMirror: Mirror { Mirror(self, children: [:]) }
    }

    /// One app in one environment of APNs.
    package struct App: Sendable, Equatable {
        /// Name in commands and reports.
        package internal(set) var name = ""
        /// APNs topic: the bundle identifier.
        package internal(set) var topic = ""
        /// Environment of APNs.
        package internal(set) var environment = Environment.production
        /// The value of the token table's app column.
        package internal(set) var value = ""
        /// Client certificate, if any.
        package internal(set) var certificate: Certificate?
        /// Signing key of provider tokens, if any.
        package internal(set) var tokenKey: TokenKey?
        /// Feedback gateway; nil for an app without a feed.
        package internal(set) var feedback: Feedback?
        /// HTTP/2 gateway; nil for an app that sends nothing by HTTP/2.
        package internal(set) var provider: Provider?
        /// Gateway of the binary interface, in place of `provider`; nil for an app without one.
        package internal(set) var binary: Binary?

        /// Whether the settings name a gateway to send through.
        package var sends: Bool { provider != nil || binary != nil }
    }

    /// Environment of APNs. A token is valid in one of them only.
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

    /// A gateway of the binary interface (Apple, "Binary Provider API").
    package struct Binary: Sendable, Equatable {
        /// Host to connect to.
        package internal(set) var host = ""
        /// Port to connect to.
        package internal(set) var port = 0
        /// PEM file of authorities; nil for the system's.
        package internal(set) var ca: String?
        /// Name its certificate must carry.
        package internal(set) var hostName = ""
        /// The command of the frames: 0, 1 or 2.
        package internal(set) var command = 0
        /// The silence after which a notification counts as accepted.
        package internal(set) var errorWait = Duration.zero
    }

    /// The action for stale rows.
    package struct Policy: Sendable, Equatable {
        /// An action.
        package enum Action: String, Sendable, CaseIterable {
            /// A mark, which can be taken back.
            case mark
            /// The row is removed; its image is kept in the ledger.
            case delete
        }
        /// The action.
        package internal(set) var action = Action.mark
        /// Whether rows of unknown registration time may be deleted.
        package internal(set) var deleteWithoutRegistrationTime = false
        /// Largest difference between clocks.
        package internal(set) var clockSkew = Duration.zero
        /// Time for which a row stays marked before it is removed; nil: it is removed at once.
        package internal(set) var deleteAfter: Duration?
        /// Time for which changes can be undone.
        package internal(set) var keepLedger = Duration.zero
    }

    /// The limits at which a run pauses for a busy database or ends early.
    package struct Throttle: Sendable, Equatable {
        /// Largest lag of a replica; nil: replicas are not watched.
        package internal(set) var maxLag: Duration?
        /// Load above which a run pauses.
        package internal(set) var maxLoad: LoadLimits?
        /// Load above which a run ends.
        package internal(set) var criticalLoad: LoadLimits?
        /// Longest time of a run.
        package internal(set) var timeBudget: Duration?
        /// File whose presence ends a run.
        package internal(set) var stopFile = ""
        /// Replicas whose lag counts; empty: the database's own.
        package internal(set) var replicas: [StoreLocation] = []
    }

    /// The reports of other senders.
    package struct Evidence: Sendable, Equatable {
        /// What to do with a report without a time.
        package enum MissingTime: String, Sendable, CaseIterable {
            /// It goes to quarantine.
            case refuse
            /// The time of its arrival counts.
            case received
        }
        /// What to do with a report without a time.
        package internal(set) var missingTime = MissingTime.refuse
    }

    /// The rules of sending.
    package struct Send: Sendable, Equatable {
        /// Whether notifications without an answer are sent again.
        package internal(set) var resendUnknown = false
        /// Limit for one answer.
        package internal(set) var requestTimeout = Duration.zero
        /// Time for which a silent sender keeps its rows.
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

    /// The outputs besides stdout and stderr.
    package struct Report: Sendable, Equatable {
        /// File of metrics, replaced whole.
        package internal(set) var metricsFile: String?
    }

    /// The command after each run.
    package struct Hooks: Sendable, Equatable {
        /// The command for `/bin/sh -c`; nil: nothing is run.
        package internal(set) var afterRun: String?
        /// Longest time of the command.
        package internal(set) var timeout = Duration.zero
    }
}

/// The origin of a setting's value.
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

/// One setting with its value and the value's origin, as `pushsweep check` prints it.
package struct SettingOrigin: Sendable, Equatable {
    /// The key, with the app's name in place of `[]`; `name/environment` where two apps share one.
    package let key: String
    /// The value as the file could write it; `(set)` for a secret, `none` for nothing.
    package let shownValue: String
    /// The origin of the value.
    package let origin: SettingSource
}
