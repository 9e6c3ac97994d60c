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
        /// A commit was sent, its answer was lost, and the database cannot be queried. The batch's
        /// checkpoint shows the next run whether the chunk was committed.
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

        /// The name of its rule, where an examination tells it.
        package var rule: String {
            switch self {
            case .unreachable: "database-unreachable"
            case .untrusted: "database-untrusted"
            case .busy: "database-busy"
            case .readOnly: "database-read-only"
            case .permission: "missing-right"
            case .configuration: "unfit-table"
            case .commitUnknown, .evidence, .stopped, .inconsistent: "database-failure"
            }
        }
    }

    /// The consequence of the failure.
    package let code: Code
    /// The operation, its object, the failure and the next step. One line, no secrets.
    package let sentence: String
    /// A clause after the sentence that names the command which tells more, with the punctuation before
    /// it; empty where there is none. `check` leaves it out, since it is that command.
    package let hint: String
    /// Why the run has to end, where the code is `stopped`.
    package let reason: StopReason?

    /// The sentences of further failures that were found with this one, so that nobody has to run a command
    /// again for each of them.
    package private(set) var others: [String] = []

    /// The same failure with further ones that were found beside it.
    package func with(_ others: [StoreFailure]) -> StoreFailure {
        var failure = self
        failure.others = others.map(\.description)
        return failure
    }

    /// The column that was looked for and not seen; nil where the failure is about something else.
    package var unseenColumn: String?

    /// Whether the server or its cluster limits the size of a transaction, so that one with fewer rows
    /// may be accepted.
    package var isOfSize = false

    /// States a failure.
    package init(
        _ code: Code, _ sentence: String, hint: String = "", reason: StopReason? = nil
    ) {
        (self.code, self.sentence, self.hint, self.reason) = (code, sentence, hint, reason)
    }

    /// The sentence with its hint.
    package var description: String { sentence + hint }
}
