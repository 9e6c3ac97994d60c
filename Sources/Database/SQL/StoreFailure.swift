/// The reason why a run ended before its work was done, although nothing failed. The raw values
/// appear in the closing line and in JSON.
package enum StopReason: String, Hashable, Sendable, CaseIterable {
    /// Another run has taken the lease.
    case lease
    /// A replica lagged for too long.
    case maxLag = "max-lag"
    /// The server's load was above the limit for too long.
    case maxLoad = "max-load"
    /// The server's load was above the critical limit.
    case criticalLoad = "critical-load"
    /// The time budget is used up.
    case timeBudget = "time-budget"
    /// The stop file exists.
    case stopFile = "stop-file"
}

/// The reason why the token database could not be read or changed: one sentence for a person, and a
/// code for the consequence.
package struct StoreFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// The consequence of a failure.
    package enum Code: String, Hashable, Sendable, CaseIterable {
        /// No answer from the address.
        case unreachable
        /// The server did not prove that it is the intended one, or refused to encrypt.
        case untrusted
        /// Temporary failures (locks, overload, a lost connection) outlasted every retry.
        case busy
        /// The database accepts no changes for now: a replica, or read-only for maintenance.
        case readOnly
        /// A commit was sent, its answer was lost, and the database cannot be queried. The feed's
        /// marker shows the next run whether the chunk was committed.
        case commitUnknown
        /// The account lacks a right.
        case permission
        /// Settings and database do not agree.
        case configuration
        /// The evidence could not be read to its end; rows applied so far stay applied.
        case evidence
        /// The run has to end before its work is done, see `reason`; the next run continues.
        case stopped
        /// An impossible state: an error of this program.
        case inconsistent
    }

    /// The consequence of the failure.
    package let code: Code
    /// The operation, its object, the failure and the next step. One line, no secrets.
    package let sentence: String
    /// The reason for the end of the run; nil unless the code is `stopped`.
    package let reason: StopReason?

    /// Makes a failure without a reason for the end of the run.
    package init(_ code: Code, _ sentence: String) {
        self.code = code
        self.sentence = sentence
        reason = nil
    }

    /// Makes the failure `stopped`, with the reason for the end of the run.
    package init(stopped reason: StopReason, _ sentence: String) {
        code = .stopped
        self.sentence = sentence
        self.reason = reason
    }

    /// The failure's sentence, without its code.
    package var description: String { sentence }

    /// SQLITE_CANTOPEN, which the driver returns for a file that does not exist.
    private static let noDatabaseFile = 14

    /// Turns an engine's error into a sentence that begins with the operation.
    package init(_ failure: SQLFailure, while doing: String) {
        let happened = "\(doing): \(failure.message) (\(failure.code))"
        switch failure.kind {
        case .conflict, .lost, .overloaded:
            self.init(.busy, "\(happened); run again, nothing is lost")
        case .unreachable:
            self.init(.unreachable, "\(happened); check that the database runs and is reachable")
        case .untrusted:
            let sent = failure.isOfVerification ? "no credentials were sent; " : ""
            self.init(
                .untrusted,
                "\(happened); \(sent)check host name, CA file and the server's certificate")
        case .readOnly:
            self.init(.readOnly, "\(happened); run again when the database takes changes")
        case .permission:
            self.init(
                .permission, "\(happened); grant the right that `pushsweep check` prints")
        case .configuration where failure.code == Self.noDatabaseFile:
            self.init(
                .configuration,
                "\(happened); make it with `pushsweep schema apply`, or correct store.url")
        case .configuration where failure.code == SQLFailure.refusedPlugin:
            self.init(
                .configuration,
                "\(happened); the password was not sent; check that no other server answers in its place, "
                    + "or give the account another plugin, such as ed25519")
        case .configuration, .refused:
            self.init(
                .configuration,
                "\(happened); compare the settings under store with the tables, `pushsweep check` "
                    + "names the difference")
        case .leaseLost:
            self.init(
                stopped: .lease,
                "\(happened); what is committed stands, run again to continue")
        case .other:
            self.init(.busy, "\(happened); run again, and report this if it repeats")
        }
    }
}
