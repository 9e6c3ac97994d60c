import APNsConnection
import APNsProtocol
import Database
import EvidenceJournal
import Findings
import SecureTransport
import Settings
import TokenHygiene

/// Why a job failed: an exit code for scripts, a sentence for people, and the stage of the failure.
package struct RunFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// The stage of the run, on the way from socket to report.
    package enum Stage: String, Hashable, Sendable {
        case settings, state, identity, store, read, send, decode, apply, report
    }

    /// The exit code of a run with this failure.
    package let exit: ExitStatus
    package let stage: Stage
    /// One sentence: the action, its object, the error, and what to do next. Where several things are
    /// wrong, as in settings, one sentence per line.
    package var description: String { (sentences + details).joined(separator: "\n") }
    /// The same, as one element per sentence, for the output.
    package let sentences: [String]
    /// What the sentences are about, line by line, such as names to choose from; no failures of their own.
    package let details: [String]
    /// Why the run ended early although nothing failed, for the closing line; nil for failures.
    package let reason: StopReason?
    /// What the command did before it failed, for the closing line.
    package private(set) var counts = ClosingCounts()

    /// The same failure of a command that did something before; nil where it did nothing.
    package func after(_ counts: ClosingCounts?) -> RunFailure {
        var failure = self
        if let counts { failure.counts = counts }
        return failure
    }

    package init(
        _ exit: ExitStatus, _ stage: Stage, _ description: String, listing details: [String] = [],
        reason: StopReason? = nil
    ) {
        self.init(exit, stage, sentences: [description], listing: details, reason: reason)
    }

    /// A failure of several sentences, and lines that list what it is about.
    package init(
        _ exit: ExitStatus, _ stage: Stage, sentences: [String], listing details: [String] = [],
        reason: StopReason? = nil
    ) {
        self.exit = exit
        self.stage = stage
        self.sentences = sentences
        self.details = details
        self.reason = reason
    }

    /// The same failure with other words for what its sentences name, such as an option for a setting.
    package func naming(_ names: [String: String]) -> RunFailure {
        let sentences = sentences.map { sentence in
            names.sorted { $1.key < $0.key }.reduce(sentence) {
                $0.replacing($1.key, with: $1.value)
            }
        }
        return RunFailure(exit, stage, sentences: sentences, listing: details, reason: reason)
    }

    /// The failure for an error of a target below, at the stage where it occurred.
    package static func wrapping(_ error: any Error, at stage: Stage) -> RunFailure {
        switch error {
        case let failure as RunFailure: failure
        case let failure as JournalFailure:
            RunFailure(
                failure.exit, failure.code == .undecodable ? .decode : .state,
                failure.description)
        case let failure as StoreFailure:
            RunFailure(
                failure.exit, stage, sentences: [failure.description] + failure.others,
                reason: failure.reason)
        case let failure as TransportFailure: RunFailure(failure.exit, stage, failure.description)
        case let failure as SettingsFailure:
            RunFailure(failure.exit, .settings, sentences: failure.lines)
        case let failure as IdentityFailure:
            RunFailure(failure.exit, .identity, failure.description)
        default: RunFailure(.invariant, stage, "\(error)")
        }
    }
}

extension RunFailure {
    /// Runs a body whose failures belong to a stage.
    package static func at<Value>(
        _ stage: Stage, _ body: () throws -> Value
    ) throws(RunFailure) -> Value {
        do {
            return try body()
        } catch {
            throw wrapping(error, at: stage)
        }
    }

    /// The failure for an error of a command that reads only, at the stage `store`.
    package static func ofReading(_ error: any Error) -> RunFailure {
        guard let failure = error as? StoreFailure, failure.reason == nil else {
            return wrapping(error, at: .store)
        }
        return RunFailure(
            failure.exitOfReading, .store, sentences: [failure.description] + failure.others)
    }

    /// The failure as reports have it.
    var problem: RunProblem {
        RunProblem(stage: stage.rawValue, message: description, why: reason?.rawValue)
    }
}

extension JournalFailure {
    /// The exit code for a failure of the local state.
    var exit: ExitStatus {
        switch code {
        case .locked: .locked
        case .cannotCreate: .cannotCreate
        case .permission: .permission
        case .inputOutput, .damaged, .undecodable: .journal
        case .unknownList: .usage
        case .otherBuild: .configuration
        }
    }
}

extension TransportFailure {
    /// The exit code for a gateway that could not be used: 78 when our own side has to change, which
    /// are the settings with its address and its authority too, 76 when it breaks TLS, else 69.
    package var exit: ExitStatus {
        switch code {
        case .clientCertificateRefused, .credentialsUnusable, .trustUnusable,
            .certificateUntrusted, .hostNameMismatch, .wrongProtocol:
            .configuration
        case .notTLS, .protocolVersion, .protocolError: .protocolBroken
        default: .unreachable
        }
    }
}

extension IdentityFailure {
    /// The exit code for a certificate or key of ours that cannot be used.
    var exit: ExitStatus { code == .content ? .configuration : .permission }
}

extension SettingsFailure {
    /// The exit code for settings that cannot be used.
    var exit: ExitStatus {
        switch kind {
        case .permission: .permission
        case .configuration: .configuration
        case .usage: .usage
        }
    }
}

extension StoreFailure {
    /// The exit code for a failure of the token database.
    var exit: ExitStatus {
        switch code {
        case .unreachable: .unreachable
        case .busy, .readOnly, .commitUnknown, .stopped: .pending
        // The evidence is in our own state folder.
        case .evidence: .journal
        case .permission: .permission
        // A server that cannot prove its identity needs a change of a setting or a certificate.
        case .configuration, .untrusted: .configuration
        case .inconsistent: .invariant
        }
    }
    /// The exit code where no evidence was read that could wait: a database that cannot be used now is
    /// one that cannot be reached.
    package var exitOfReading: ExitStatus { exit == .pending ? .unreachable : exit }
}

/// The group of an app's settings that names a gateway.
package enum GatewaySetting: String, Sendable {
    /// A gateway with the feedback protocol.
    case feedback
    /// A gateway with HTTP/2.
    case provider
    /// A gateway of the binary interface.
    case binary

    /// The settings that cure a failure, as keys; nil where no setting does.
    func keys(for code: TransportFailure.Code, of partition: Partition) -> String? {
        let app = "apps[\(partition)]"
        let key = "\(app).\(rawValue)"
        switch code {
        case .certificateUntrusted, .trustUnusable: return "\(key).ca"
        case .hostNameMismatch:
            return self == .provider ? "\(key).host" : "\(key).host-name"
        case .nameNotFound: return "\(key).host"
        case .connectionRefused, .unreachable, .notTLS, .wrongProtocol, .timedOut, .closedEarly:
            return "\(key).host, \(key).port"
        case .clientCertificateRefused, .credentialsUnusable: return "\(app).certificate"
        case .reset, .certificateExpired, .certificateNotYetValid, .protocolVersion,
            .protocolError, .interrupted, .io:
            return nil
        }
    }
}

extension RunFailure {
    /// The failure of a gateway of an app, with the settings that cure it.
    package init(
        _ failure: TransportFailure, of partition: Partition, _ gateway: GatewaySetting,
        at stage: Stage
    ) {
        let keys = gateway.keys(for: failure.code, of: partition).map { " (\($0))" } ?? ""
        self.init(failure.exit, stage, "\(partition): \(failure)\(keys)")
    }

    /// The same failure, with the app in front.
    package func naming(_ partition: Partition) -> RunFailure {
        RunFailure(exit, stage, "\(partition): \(description)")
    }
}
