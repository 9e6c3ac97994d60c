import APNsConnection
import Database
import EvidenceJournal
import SecureTransport
import Settings

/// Why a job could not do its work: an exit code for scripts, a sentence for people, and the stage
/// at which it happened.
package struct RunFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// Where on the way from socket to report.
    package enum Stage: String, Hashable, Sendable {
        case settings, state, identity, store, read, send, decode, apply, report
    }

    /// What the run ends with because of this.
    package let exit: ExitStatus
    /// Where it happened.
    package let stage: Stage
    /// One sentence: what was being done, to what, what happened, what to do next. Several, one a line,
    /// where the settings have several mistakes.
    package var description: String { sentences.joined(separator: "\n") }
    /// The same sentence by sentence, for the output.
    package let sentences: [String]
    /// Why the run ended early though nothing failed, for the closing line; nil for failures.
    package let reason: StopReason?

    /// States a failure.
    package init(
        _ exit: ExitStatus, _ stage: Stage, _ description: String, reason: StopReason? = nil
    ) {
        self.init(exit, stage, sentences: [description], reason: reason)
    }

    private init(
        _ exit: ExitStatus, _ stage: Stage, sentences: [String], reason: StopReason? = nil
    ) {
        self.exit = exit
        self.stage = stage
        self.sentences = sentences
        self.reason = reason
    }

    /// Any error of the rooms below, at the stage where it came up.
    package static func wrapping(_ error: any Error, at stage: Stage) -> RunFailure {
        switch error {
        case let failure as RunFailure: failure
        case let failure as JournalFailure: RunFailure(failure.exit, .state, failure.description)
        case let failure as StoreFailure:
            RunFailure(
                failure.exit, stage, failure.description, reason: failure.reason)
        case let failure as TransportFailure: RunFailure(failure.exit, stage, failure.description)
        case let failure as SettingsFailure:
            RunFailure(failure.exit, .settings, sentences: failure.lines)
        case let refusal as OptionRefusal: RunFailure(.usage, .settings, refusal.description)
        case let failure as IdentityFailure:
            RunFailure(failure.exit, .identity, failure.description)
        default: RunFailure(.invariant, stage, "\(error)")
        }
    }
}

extension JournalFailure {
    /// The exit code that follows from a failure of the local state.
    var exit: ExitStatus {
        switch code {
        case .locked: .locked
        case .cannotCreate: .cannotCreate
        case .permission: .permission
        case .inputOutput, .damaged: .journal
        case .unknownFeed: .usage
        }
    }
}

extension TransportFailure {
    /// The exit code that follows when a gateway could not be read: 78 where our own side has to
    /// change, 76 where it speaks another protocol, else 69.
    package var exit: ExitStatus {
        switch code {
        case .clientCertificateRefused, .credentialsUnusable: .configuration
        case .notTLS, .protocolVersion, .protocolError: .protocolBroken
        default: .unreachable
        }
    }
}

extension IdentityFailure {
    /// The exit code that follows from a certificate or key of ours that cannot be used.
    var exit: ExitStatus {
        switch code {
        case .readableByOthers, .foreign, .unreadable: .permission
        default: .configuration
        }
    }
}

extension SettingsFailure {
    /// The exit code that follows from settings that cannot be used.
    var exit: ExitStatus {
        switch kind {
        case .permission: .permission
        case .configuration: .configuration
        }
    }
}

extension StoreFailure {
    /// The exit code that follows from a failure of the token database.
    var exit: ExitStatus {
        switch code {
        case .unreachable: .unreachable
        case .busy, .readOnly, .commitUnknown, .stopped: .pending
        // The evidence lies in our own state folder.
        case .evidence: .journal
        case .permission: .permission
        // A server that cannot prove who it is stays so until somebody changes a setting or a
        // certificate.
        case .configuration, .untrusted: .configuration
        case .inconsistent: .invariant
        }
    }
}
