// Each row of the table names the field that it fills: SettingsTable.swift and the files beside it.
// The initial values of the fields are placeholders, which loading replaces.

import Database
import TokenHygiene

/// The settings of the operator: file, environment and defaults, combined and checked as a whole.
/// Paths are absolute.
package struct Settings: Sendable {
    /// The settings file that was read; nil without a file.
    package internal(set) var file: String?
    /// Folder of the journal and of the lock.
    package internal(set) var state = ""
    /// The token database and its tables.
    package internal(set) var store = StoreSettings(
        location: .sqlite(path: ""), tls: .verify(ca: nil))
    /// The file that holds the database's password; nil where the settings name none.
    package internal(set) var passwordFile: String?
    /// Apps in the order of the file; may be empty.
    package internal(set) var apps: [App] = []
    /// The action for stale rows.
    package internal(set) var policy = RemovalPolicy()
    /// Milliseconds for which changes can be undone.
    package internal(set) var keepLedger: Int64 = 0
    /// The limits at which runs pause for a busy database; without replicas.
    package internal(set) var throttle = Throttle()
    /// Replicas whose lag counts; empty: the database's own.
    package internal(set) var replicas: [StoreLocation] = []
    /// Whether the report of another sender that has no time counts from its arrival, in place of going
    /// to quarantine.
    package internal(set) var mayUseArrival = false
    package internal(set) var send = Send()
    /// Limits beyond which a removal is held.
    package internal(set) var guardLimits = GuardLimits()
    /// File of metrics, replaced whole; nil for none.
    package internal(set) var metricsFile: String?
    package internal(set) var hooks = Hooks()
    /// The origin of each value, in the order of the table, without the groups that an app does not
    /// have.
    package internal(set) var origins: [SettingOrigin] = []

    /// One app in one environment of APNs.
    package struct App: Sendable, Equatable {
        /// Name in commands and reports.
        package internal(set) var name = ""
        /// APNs topic: the bundle identifier.
        package internal(set) var topic = ""
        package internal(set) var environment = Environment.production
        /// The value of the token table's app column.
        package internal(set) var value = ""
        /// Client certificate, if any.
        package internal(set) var certificate: Certificate?
        /// Signing key of provider tokens, if any.
        package internal(set) var tokenKey: TokenKey?
        /// Feedback gateway; nil for an app without a list.
        package internal(set) var feedback: Feedback?
        /// HTTP/2 gateway; nil for an app that sends nothing by HTTP/2.
        package internal(set) var provider: Provider?
        /// Gateway of the binary interface, in place of `provider`; nil for an app without one.
        package internal(set) var binary: Binary?

        /// Whether the settings name a gateway to send through.
        package var sends: Bool { provider != nil || binary != nil }

        /// The same app with its credentials in the other environment, at another host of the provider.
        package func elsewhere(_ environment: Environment, host: String) -> App {
            var app = self
            app.environment = environment
            app.provider?.host = host
            (app.feedback, app.binary) = (nil, nil)
            return app
        }
    }

    /// Environment of APNs. A token is valid in one of them only.
    package enum Environment: String, Sendable, CaseIterable {
        /// Apps from the store.
        case production
        /// Apps in development.
        case sandbox
    }

    /// A client certificate for both gateways of an app.
    package struct Certificate: Sendable, Equatable {
        /// PEM or PKCS#12.
        package internal(set) var file = ""
        /// PEM key; nil when it is in `file`.
        package internal(set) var key: String?
        /// File whose line opens the key.
        package internal(set) var passphraseFile: String?
    }

    /// A key that signs provider tokens, in place of a certificate.
    package struct TokenKey: Sendable, Equatable {
        /// The `.p8` file.
        package internal(set) var file = ""
        /// Apple's identifier of the key.
        package internal(set) var keyIdentifier = ""
        /// Apple's identifier of the team.
        package internal(set) var teamIdentifier = ""
    }

    /// A feedback gateway; Apple closed its own in 2021.
    package struct Feedback: Sendable, Equatable {
        package internal(set) var host = ""
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
        /// Bytes after which the list is cut.
        package internal(set) var maxBytes = 0
    }

    /// The HTTP/2 gateway of an app, and how many connections to it a sender opens.
    package struct Provider: Sendable, Equatable {
        package internal(set) var host = ""
        package internal(set) var port = 0
        /// PEM file of authorities; nil for the system's.
        package internal(set) var ca: String?
        package internal(set) var connections = 0
    }

    /// A gateway of the binary interface (Apple, "Binary Provider API").
    package struct Binary: Sendable, Equatable {
        package internal(set) var host = ""
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

    /// How notifications are sent, for all apps.
    package struct Send: Sendable, Equatable {
        /// Whether notifications without an answer are sent again.
        package internal(set) var resendUnknown = false
        /// Limit for one answer.
        package internal(set) var requestTimeout = Duration.zero
        /// Time for which a silent sender keeps its rows.
        package internal(set) var lease = Duration.zero
    }

    /// What a run starts when it has ended.
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
